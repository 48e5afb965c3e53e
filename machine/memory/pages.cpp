// mmap with the alignment that huge pages need.
#include "machine/memory/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "ir/base/error.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {

static constexpr size_t kPage = 4096;

void* map_pages(size_t bytes) noexcept {
  const size_t reserved = bytes + kHugePage;  // room to align, cut off again below
  if (bytes == 0 || reserved < bytes) return nullptr;
  void* raw = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;

  auto* begin = static_cast<uint8_t*>(raw);
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (head > 0) munmap(begin, head);
  if (head < kHugePage) munmap(begin + head + bytes, kHugePage - head);
  madvise(begin + head, bytes,
          MADV_HUGEPAGE);  // advice: where there are no huge pages, small ones serve
  return begin + head;
}

void unmap_pages(void* data, size_t bytes) noexcept { munmap(data, bytes); }

void drop_pages(void* data, size_t bytes) noexcept {
  if (madvise(data, bytes, MADV_DONTNEED) != 0) std::memset(data, 0, bytes);  // locked memory
}

void populate_pages(void* data, size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  const auto first = reinterpret_cast<uintptr_t>(data), last = first + bytes;
  const uintptr_t base = first / kHugePage * kHugePage;
  const auto pages = static_cast<int64_t>((last - base + kHugePage - 1) / kHugePage);
  parallel_for(pages, 1, [&](int64_t begin, int64_t end, int) {
    const uintptr_t from = std::max(first, base + static_cast<uintptr_t>(begin) * kHugePage),
                    to = std::min(last, base + static_cast<uintptr_t>(end) * kHugePage);
    madvise(reinterpret_cast<void*>(from), to - from, MADV_POPULATE_WRITE);
  });
#endif
}

void touch_pages(void* data, size_t bytes) noexcept {
  auto* p = static_cast<volatile uint8_t*>(data);
  for (size_t i = 0; i < bytes; i += kPage) p[i] = 0;
}

void fail_out_of_memory(const char* who, size_t bytes) {
  ir::fail(ir::Errc::OutOfMemory, std::string(who) +
                                      ": the system has no more memory; could not get " +
                                      std::to_string(bytes) + " bytes");
}

}  // namespace tandem::machine
