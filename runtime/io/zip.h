// Zip archives of stored or deflated members (APPNOTE 6.3), with the 64-bit extensions.
#ifndef TANDEM_RUNTIME_IO_ZIP_H
#define TANDEM_RUNTIME_IO_ZIP_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/files.h"

namespace tandem::runtime {

struct ZipMember {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t header = 0;             // where its local header begins
  uint64_t packed = 0, bytes = 0;  // in the archive, and of the contents
};

/// The members, in the order of the directory; names are unique. Error{File} says what is
/// malformed.
std::vector<ZipMember> zip_members(const TensorSource& archive);
/// The contents, checked.
std::string zip_contents(const TensorSource& archive, const ZipMember& member);

/// Makes an archive piece by piece: what it gives back is written one after the other.
class ZipWriter {
 public:
  explicit ZipWriter(bool compress) : compress_(compress) {}
  /// All of a member whose contents are `parts`, one behind the other.
  std::string member(const std::string& name, std::string_view first, std::string_view second);
  /// The end of the archive.
  std::string directory() const;

 private:
  bool compress_;
  uint64_t at_ = 0;
  std::vector<ZipMember> members_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_IO_ZIP_H
