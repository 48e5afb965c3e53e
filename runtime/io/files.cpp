#include "runtime/io/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ir/base/error.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {
namespace {

[[noreturn]] void cannot_read() {
  ir::fail(Errc::File, fmt::format("cannot read: {}", std::strerror(errno)));
}

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) ir::fail(Errc::File, fmt::format("cannot open: {}", std::strerror(errno)));
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  /// Of a regular file.
  size_t bytes() const {
    struct stat info;
    if (::fstat(fd_, &info) != 0) cannot_read();
    if (!S_ISREG(info.st_mode)) ir::fail(Errc::File, "expected a regular file");
    return static_cast<size_t>(info.st_size);
  }
  /// Fills `to` from byte `at` on.
  void read(size_t at, void* to, size_t bytes) const {
    for (size_t done = 0; done < bytes;) {
      const ssize_t n =
          ::pread(fd_, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) cannot_read();
      if (n == 0) ir::fail(Errc::File, "the file became shorter while it was read");
      done += static_cast<size_t>(n);
    }
  }

 private:
  int fd_;
};

/// Elements of Bool are 0 or 1, whatever the file says: C++ has no others.
void normalise(const Tensor& tensor) {
  if (tensor.dtype() != DType::Bool) return;
  auto* bytes = static_cast<unsigned char*>(tensor.impl()->data());
  for (int64_t i = 0; i < tensor.numel(); ++i)
    if (bytes[i] > 1) bytes[i] = 1;
}

void check_range(size_t at, size_t bytes, size_t end) {
  if (at > end || bytes > end - at)
    ir::fail(Errc::File,
             fmt::format("ends at byte {}; expected {} bytes from byte {} on", end, bytes, at));
}

size_t bytes_of(const ir::Type& type) {
  return static_cast<size_t>(int64_t{ir::size_in_bytes(type)});
}

class FileSource : public TensorSource {
 public:
  explicit FileSource(const std::string& path) : file_(path), bytes_(file_.bytes()) {}
  size_t bytes() const override { return bytes_; }
  void read(size_t at, void* to, size_t bytes) const override {
    check_range(at, bytes, bytes_);
    file_.read(at, to, bytes);
  }

 private:
  Descriptor file_;
  size_t bytes_;
};

class MemorySource : public TensorSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  size_t bytes() const override { return bytes_.size(); }
  void read(size_t at, void* to, size_t bytes) const override {
    check_range(at, bytes, bytes_.size());
    if (bytes > 0) std::memcpy(to, bytes_.data() + at, bytes);
  }

 private:
  std::string_view bytes_;
};

class MappedSource : public MemorySource {
 public:
  explicit MappedSource(std::shared_ptr<const MappedFile> file)
      : MemorySource(file->bytes()), file_(std::move(file)) {}

  Tensor tensor(size_t at, const ir::Type& type) const override {
    const size_t bytes = bytes_of(type);
    check_range(at, bytes, this->bytes());
    if (bytes == 0 || at % ir::size_of(type.dtype) != 0) return MemorySource::tensor(at, type);
    auto impl = std::make_shared<TensorImpl>();
    impl->storage =
        Storage::wrap(file_->data() + at, bytes, [keep = file_](void*) {}, /*read_only=*/false);
    impl->dtype = type.dtype;
    impl->sizes = type.sizes;
    impl->strides = ir::contiguous_strides(type.sizes);
    Tensor tensor(std::move(impl));
    normalise(tensor);
    return tensor;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
};

class PartSource : public TensorSource {
 public:
  PartSource(const TensorSource& whole, size_t begin, size_t size)
      : whole_(whole), begin_(begin), size_(size) {
    check_range(begin, size, whole.bytes());
  }
  size_t bytes() const override { return size_; }
  void read(size_t at, void* to, size_t bytes) const override {
    check_range(at, bytes, size_);
    whole_.read(begin_ + at, to, bytes);
  }

 private:
  const TensorSource& whole_;
  size_t begin_, size_;
};

}  // namespace

void fail_file(std::string_view function, const std::string& path, std::string_view what) {
  ir::fail(Errc::File, fmt::format("{}: {}: {}", function, path, what));
}

std::string read_file(const std::string& path) {
  const Descriptor file(path);
  std::string contents;
  char part[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_read();
    if (n == 0) return contents;
    contents.append(part, static_cast<size_t>(n));
  }
}

void swap_bytes(void* data, int64_t count, size_t size) {
  if (size == 1) return;
  for (char* at = static_cast<char*>(data); count-- > 0; at += size) std::reverse(at, at + size);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, Access access) {
  const Descriptor file(path);
  std::shared_ptr<MappedFile> mapped(new MappedFile());
  const size_t size = file.bytes();
  if (size == 0) return mapped;
  const int protection = access == Access::CopyOnWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (data == MAP_FAILED) ir::fail(Errc::File, fmt::format("cannot map: {}", std::strerror(errno)));
  mapped->data_ = static_cast<char*>(data);
  mapped->size_ = size;
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Tensor TensorSource::tensor(size_t at, const ir::Type& type) const {
  const size_t bytes = bytes_of(type);
  check_range(at, bytes, this->bytes());
  Tensor tensor = empty_tensor(type.sizes, type.dtype);
  if (bytes > 0) read(at, tensor.impl()->data(), bytes);
  normalise(tensor);
  return tensor;
}

std::string TensorSource::text(size_t at, size_t bytes) const {
  check_range(at, bytes, this->bytes());
  std::string text(bytes, '\0');
  read(at, text.data(), bytes);
  return text;
}

std::unique_ptr<TensorSource> open_tensors(const std::string& path, bool mapped) {
  if (!mapped) return std::make_unique<FileSource>(path);
  return std::make_unique<MappedSource>(MappedFile::open(path, MappedFile::Access::CopyOnWrite));
}

std::unique_ptr<TensorSource> tensors_in(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

std::unique_ptr<TensorSource> part_of(const TensorSource& whole, size_t begin, size_t size) {
  return std::make_unique<PartSource>(whole, begin, size);
}

}  // namespace tandem::runtime
