// Writing a file: its new contents take the place of the old ones in one step, or not at all.
#ifndef TANDEM_IR_BASE_FILE_WRITER_H
#define TANDEM_IR_BASE_FILE_WRITER_H

#include <string>
#include <string_view>

#include "export.h"

namespace tandem::ir {

/// Collects the contents in a temporary file beside `path`, which then takes its place and keeps
/// the owner and mode of what was there. Symbolic links are followed, also to what does not exist
/// yet. What is no regular file (a device, a pipe, a descriptor under /proc) is written itself.
/// Error{File} if that fails; of a regular file nothing has changed then.
class TANDEM_API FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  /// Without commit(): removes the temporary file.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// The last step.
  void commit();
  /// The same, and when it returns the new contents are on the disk: a machine that crashes later
  /// has them, one that crashes earlier the old ones.
  void commit_to_disk();

 private:
  void open_itself(const std::string& path);
  void open_beside(bool replaces);
  void close();
  [[noreturn]] void cannot_write() const;

  std::string path_;       // as the caller spelled it
  std::string target_;     // behind all links
  std::string temporary_;  // empty: `target_` itself is written
  int fd_ = -1;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_BASE_FILE_WRITER_H
