#include "ir/base/file_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the system follows
constexpr mode_t kPermissions = 07777;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// The number of an open descriptor of this process that `path` stands for.
std::optional<int> own_descriptor(const fs::path& path) {
  std::error_code error;
  const std::string folder = fs::canonical(folder_of(path), error).string();
  if (error || folder != fmt::format("/proc/{}/fd", ::getpid())) return std::nullopt;
  const std::string name = path.filename().string();
  int number = 0;
  const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (bad != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

/// What `path` leads to through symbolic links. Those of open descriptors lead nowhere: the
/// descriptor may share its place in the file with others.
std::string target_of(fs::path path) {
  for (int links = 0; links < kMostLinks && !own_descriptor(path); ++links) {
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error) break;
    path = next.is_absolute() ? next : folder_of(path) / next;
  }
  return path.string();
}

}  // namespace

FileWriter::FileWriter(const std::string& path) : path_(path), target_(target_of(path)) {
  struct stat info;
  const bool exists = ::stat(target_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) cannot_write();
  if (own_descriptor(target_) || (exists && !S_ISREG(info.st_mode)))
    open_itself(target_);
  else if (exists && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0)
    cannot_write();
  else
    open_beside(exists);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::cannot_write() const {
  fail(Errc::File, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

void FileWriter::open_itself(const std::string& path) {
  const std::optional<int> descriptor = own_descriptor(path);
  fd_ = descriptor ? ::fcntl(*descriptor, F_DUPFD_CLOEXEC, 0)
                   : ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd_ < 0) cannot_write();
}

void FileWriter::open_beside(bool replaces) {
  static std::atomic<uint64_t> written{0};
  const std::string name = fmt::format(".tandem.{}.{}.partial", ::getpid(), written.fetch_add(1));
  temporary_ = (folder_of(target_) / name).string();
  const mode_t mode = replaces ? 0600 : 0666;  // who could not read the old one can't read this
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd_ >= 0) return;
  temporary_.clear();
  cannot_write();
}

void FileWriter::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, next, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_write();
    next += n;
    bytes -= static_cast<size_t>(n);
  }
}

void FileWriter::close() {
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) cannot_write();
}

void FileWriter::commit() {
  struct stat old;
  const bool replaces = !temporary_.empty() && ::stat(target_.c_str(), &old) == 0;
  // (Who may not give files away keeps the new one; the mode comes last, since that clears bits.)
  if (replaces && ::fchown(fd_, old.st_uid, old.st_gid) != 0) errno = 0;
  if (replaces && ::fchmod(fd_, old.st_mode & kPermissions) != 0) cannot_write();
  close();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) cannot_write();
  temporary_.clear();
}

void FileWriter::commit_to_disk() {
  if (::fsync(fd_) != 0 && errno != EINVAL) cannot_write();  // (pipes and devices have no disk)
  const bool renames = !temporary_.empty();
  commit();
  if (!renames) return;
  const std::string folder = folder_of(target_).string();
  fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0 || (::fsync(fd_) != 0 && errno != EINVAL)) cannot_write();
}

}  // namespace tandem::ir
