// Blocks are mapped one by one; a few idle ones of each size are kept, as mapping takes long.
#include "machine/memory/guarded.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "machine/threads/fork_lock.h"

namespace tandem::machine {

namespace {

constexpr size_t kPage = kGuardPage;
constexpr uint8_t kPattern = 0xDB;  // an unlikely number in every dtype
constexpr size_t kKeptPages = 16, kKeptBlocks = 64;

GuardPages read_environment() {
  const char* text = std::getenv("TANDEM_GUARD_PAGES");
  const std::string_view placement = text ? text : "";
  return placement == "start" ? GuardPages::Start
         : placement == "end" ? GuardPages::End
                              : GuardPages::None;
}

size_t pages_of(size_t bytes) { return (bytes + kPage - 1) / kPage; }

/// What is mapped for a block: a guard page, the block's pages, a guard page.
struct Mapping {
  uint8_t* pages;  // behind the first guard page
  size_t count;

  uint8_t* block(size_t bytes) const {
    return guard_pages() == GuardPages::End ? pages + count * kPage - bytes : pages;
  }
  static Mapping of(void* block, size_t bytes) {
    auto* const data = static_cast<uint8_t*>(block);
    const size_t count = pages_of(bytes);
    return {guard_pages() == GuardPages::End ? data + bytes - count * kPage : data, count};
  }
  void unmap() const { munmap(pages - kPage, (count + 2) * kPage); }
};

Mapping map(size_t count) {
  const size_t bytes = (count + 2) * kPage;
  void* const raw = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return {nullptr, count};
  auto* const pages = static_cast<uint8_t*>(raw) + kPage;
  if (count > 0) mprotect(pages, count * kPage, PROT_READ | PROT_WRITE);
  return {pages, count};
}

/// Idle mappings by their pages; guarded by lock().
struct Idle {
  std::array<std::vector<Mapping>, kKeptPages + 1> by_pages;
};

Idle& idle() {
  static Idle* i = new Idle;
  return *i;
}

std::mutex& lock() { return fork_safe_mutex<Idle>(); }

Mapping take(size_t count) {
  if (count <= kKeptPages) {
    const std::lock_guard guard(lock());
    auto& kept = idle().by_pages[count];
    if (!kept.empty()) {
      const Mapping m = kept.back();
      kept.pop_back();
      return m;
    }
  }
  return map(count);
}

bool keep(const Mapping& m) {
  if (m.count > kKeptPages) return false;
  const std::lock_guard guard(lock());
  auto& kept = idle().by_pages[m.count];
  if (kept.size() == kKeptBlocks) return false;
  kept.reserve(kKeptBlocks);
  kept.push_back(m);
  return true;
}

void require_pattern(const uint8_t* from, const uint8_t* to, const char* where) {
  if (std::all_of(from, to, [](uint8_t b) { return b == kPattern; })) return;
  std::fprintf(stderr, "TANDEM_GUARD_PAGES: something was written %s a block\n", where);
  std::abort();
}

}  // namespace

GuardPages guard_pages() {
  static const GuardPages guards = read_environment();
  return guards;
}

void* allocate_guarded(size_t bytes) noexcept {
  const Mapping m = take(pages_of(bytes));
  if (!m.pages) return nullptr;
  if (m.count > 0) std::memset(m.pages, kPattern, m.count * kPage);
  return m.block(bytes);
}

void release_guarded(void* data, size_t bytes) noexcept {
  const Mapping m = Mapping::of(data, bytes);
  const auto* const block = static_cast<const uint8_t*>(data);
  require_pattern(m.pages, block, "before");
  require_pattern(block + bytes, m.pages + m.count * kPage, "behind");
  if (!keep(m)) m.unmap();
}

void* allocate_guarded_arena(size_t bytes) noexcept { return map(pages_of(bytes)).pages; }

void protect_pages(void* arena, std::span<const int64_t> guards) noexcept {
  for (const int64_t offset : guards)
    mprotect(static_cast<uint8_t*>(arena) + offset, kPage, PROT_NONE);
}

void release_guarded_arena(void* data, size_t bytes) noexcept {
  Mapping{static_cast<uint8_t*>(data), pages_of(bytes)}.unmap();
}

}  // namespace tandem::machine
