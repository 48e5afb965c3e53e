#include "runtime/train/appended_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ir/base/error.h"

namespace tandem::runtime {

AppendedFile::AppendedFile(std::string path, bool keep)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (keep ? 0 : O_TRUNC),
                 0666)) {
  if (fd_ < 0) cannot_write();
}

AppendedFile::~AppendedFile() { ::close(fd_); }

void AppendedFile::cannot_write() const {
  ir::fail(ir::Errc::File, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

void AppendedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_write();
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace tandem::runtime
