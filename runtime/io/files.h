// Reading files: whole, in parts, or mapped; and parts of them as tensors.
#ifndef TANDEM_RUNTIME_IO_FILES_H
#define TANDEM_RUNTIME_IO_FILES_H

#include <tandem/tensor.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "ir/type.h"

namespace tandem::runtime {

/// Error{File}: "function: path: what".
[[noreturn]] void fail_file(std::string_view function, const std::string& path,
                            std::string_view what);

/// Runs `read`; what it finds wrong names function and path, as what follows here does not.
template <class Read>
auto reading(std::string_view function, const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& e) {
    fail_file(function, path, e.what());
  }
}

/// The bytes of a file, pipe or device up to its end.
std::string read_file(const std::string& path);

/// A number at a place of `bytes`, which may be unaligned. Little endian, as this machine.
template <class T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Of each of `count` elements of `size` bytes: from big endian, or to it.
void swap_bytes(void* data, int64_t count, size_t size);

/// A regular file mapped into memory, until the last user is gone.
class MappedFile {
 public:
  enum class Access {
    ReadOnly,
    CopyOnWrite,  // writes stay in this process
  };
  static std::shared_ptr<const MappedFile> open(const std::string& path, Access access);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }
  char* data() const { return data_; }

 private:
  MappedFile() = default;

  char* data_ = nullptr;
  size_t size_ = 0;
};

/// Bytes of which parts become tensors. Reading beyond the end is an Error{File}.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual size_t bytes() const = 0;
  virtual void read(size_t at, void* to, size_t bytes) const = 0;
  /// The elements that begin at byte `at`, in C order.
  virtual Tensor tensor(size_t at, const ir::Type& type) const;

  std::string text(size_t at, size_t bytes) const;
};

/// The parts of a regular file; mapped, tensors show the (private) mapping.
std::unique_ptr<TensorSource> open_tensors(const std::string& path, bool mapped);
/// The parts of `bytes`, which must outlive it.
std::unique_ptr<TensorSource> tensors_in(std::string_view bytes);
/// `size` bytes of `whole`, which must outlive it, from `begin` on.
std::unique_ptr<TensorSource> part_of(const TensorSource& whole, size_t begin, size_t size);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_IO_FILES_H
