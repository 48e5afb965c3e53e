// A file that grows by whole lines or records.
#ifndef TANDEM_RUNTIME_TRAIN_APPENDED_FILE_H
#define TANDEM_RUNTIME_TRAIN_APPENDED_FILE_H

#include <string>
#include <string_view>

namespace tandem::runtime {

class AppendedFile {
 public:
  /// Opens `path`, emptied or (`keep`) behind what it has. Error{File} if that fails.
  AppendedFile(std::string path, bool keep);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// The system has it when this returns; Error{File} otherwise.
  void append(std::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void cannot_write() const;

  std::string path_;
  int fd_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRAIN_APPENDED_FILE_H
