// An entry is a file: header, content, object. It is written under another name and renamed, which
// readers see as one step; a process that is killed leaves at most a file that nobody reads,
// removed an hour later.
#include "codegen/jit/object_cache.h"

#include <fcntl.h>
#include <llvm-c/Core.h>
#include <sys/stat.h>
#include <tandem_fingerprint.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "machine/threads/fork_lock.h"

namespace tandem::jit {
namespace {

namespace fs = std::filesystem;
using Clock = fs::file_time_type::clock;

constexpr char kMagic[8] = {'t', 'a', 'n', 'd', 'e', 'm', '.', '1'};
constexpr uint64_t kMostBytes = uint64_t{1} << 28;        // of an entry
constexpr uint64_t kMostFolderBytes = uint64_t{1} << 30;  // of all entries

struct Header {
  char magic[8];
  uint64_t content_bytes, object_bytes;
  uint64_t checksum;  // of the other fields, the content and the object
};
static_assert(sizeof(Header) == 32);

/// FNV-1a over bytes, eight at a time. Every step is a bijection of the state, so one changed word
/// always shows.
uint64_t hash_bytes(std::string_view bytes, uint64_t state) {
  const auto mix = [&](uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    state ^= state >> 32;
  };
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    mix(word);
  }
  uint64_t last = 0;
  std::memcpy(&last, bytes.data(), bytes.size());
  mix(last);
  return state;
}

uint64_t checksum(const Header& h, std::string_view content, std::string_view object) {
  return hash_bytes(object,
                    hash_bytes(content, h.content_bytes * 0xff51afd7ed558ccdu + h.object_bytes));
}

struct File {
  int fd;
  explicit File(int descriptor) : fd(descriptor) {}
  File(const File&) = delete;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

std::optional<std::string> read_file(const std::string& path) {
  // (Not to wait for the writer of what turns out to be a pipe.)
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < sizeof(Header) || size > kMostBytes) return std::nullopt;
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::read(file.fd, bytes.data() + done, size - done);
    if (n <= 0) return std::nullopt;
    done += static_cast<size_t>(n);
  }
  ::futimens(file.fd, nullptr);  // used now: the oldest are removed first
  return bytes;
}

bool write_file(const std::string& path, std::initializer_list<std::string_view> pieces) {
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.fd < 0) return false;
  for (std::string_view piece : pieces)
    while (!piece.empty()) {
      const ssize_t n = ::write(file.fd, piece.data(), piece.size());
      if (n <= 0) return false;
      piece.remove_prefix(static_cast<size_t>(n));
    }
  return true;
}

/// Whether `folder` is there, ours, and closed to writers other than us. Made if missing.
bool prepare(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    const fs::path parent = fs::path(folder).parent_path();
    if (!parent.empty()) fs::create_directories(parent, error);
    ::mkdir(folder.c_str(), 0700);
  }
  struct stat info;
  return ::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Removes what killed processes left, and the entries not used for longest when all are too many.
void clean(const std::string& folder) {
  struct Entry {
    fs::path path;
    uint64_t bytes;
    fs::file_time_type time;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const auto time = item.last_write_time(error);
    const bool ours = item.path().extension() == ".o" || item.path().extension() == ".tmp";
    if (error || !ours || !item.is_regular_file(error)) continue;
    if (item.path().extension() == ".tmp") {
      if (Clock::now() - time > std::chrono::hours(1)) fs::remove(item.path(), error);
      continue;
    }
    entries.push_back({item.path(), item.file_size(error), time});
    total += entries.back().bytes;
  }
  if (total <= kMostFolderBytes) return;
  std::ranges::sort(entries, {}, &Entry::time);
  for (size_t i = 0; i < entries.size() && total > kMostFolderBytes / 4 * 3; ++i) {
    fs::remove(entries[i].path, error);
    total -= entries[i].bytes;
  }
}

/// The folders of this process: true for those that may be used. Each is looked at once.
bool may_use(const std::string& folder) {
  static auto* const known = new std::map<std::string, bool>;
  const std::lock_guard lock(machine::fork_safe_mutex<ObjectCache>());
  const auto [it, is_new] = known->try_emplace(folder, false);
  if (!is_new) return it->second;
  it->second = prepare(folder);
  if (it->second)
    clean(folder);
  else
    std::fprintf(stderr,
                 "tandem: no code is kept in %s: expected a folder that only its owner can write\n",
                 folder.c_str());
  return it->second;
}

}  // namespace

std::shared_ptr<const ObjectCache> ObjectCache::in(const std::string& folder) {
  const char* variable = std::getenv("TANDEM_CACHE_DIR");
  const std::string chosen = !folder.empty() ? folder : variable ? variable : "";
  if (chosen.empty() || !may_use(chosen)) return nullptr;
  return std::make_shared<const ObjectCache>(chosen);
}

std::string ObjectCache::path(std::string_view content) const {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx.o",
                static_cast<unsigned long long>(hash_bytes(content, 1)),
                static_cast<unsigned long long>(hash_bytes(content, 2)));
  return folder_ + "/" + name;
}

std::optional<std::string> ObjectCache::find(std::string_view content) const {
  const std::optional<std::string> bytes = read_file(path(content));
  if (!bytes) return std::nullopt;
  Header h;
  std::memcpy(&h, bytes->data(), sizeof h);
  const std::string_view rest = std::string_view(*bytes).substr(sizeof h);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (h.content_bytes != content.size() || rest.size() < content.size() ||
      h.object_bytes != rest.size() - content.size())
    return std::nullopt;
  const std::string_view stored = rest.substr(0, content.size()),
                         object = rest.substr(content.size());
  if (stored != content || h.checksum != checksum(h, stored, object)) return std::nullopt;
  return std::string(object);
}

void ObjectCache::store(std::string_view content, std::string_view object) const {
  static std::atomic<uint64_t> written{0};
  Header h{{}, content.size(), object.size(), 0};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.checksum = checksum(h, content, object);
  const std::string temporary = path(content) + "." + std::to_string(::getpid()) + "." +
                                std::to_string(written.fetch_add(1)) + ".tmp";
  const std::string_view header(reinterpret_cast<const char*>(&h), sizeof h);
  const bool done = write_file(temporary, {header, content, object}) &&
                    ::rename(temporary.c_str(), path(content).c_str()) == 0;
  if (!done) ::unlink(temporary.c_str());
}

std::string object_content(const Form& form, const Target& target) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  std::string all = std::string(kFingerprint) + ";llvm " + std::to_string(major) + "." +
                    std::to_string(minor) + "." + std::to_string(patch) + ";" + target.features +
                    ";" + std::to_string(target.vector_bytes) + ";";
  return all + content(form);
}

}  // namespace tandem::jit
