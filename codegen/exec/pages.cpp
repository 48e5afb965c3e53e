// mmap with the alignment that huge pages need.
#include "codegen/exec/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <string>

#include "ir/error.h"

namespace tandem::exec {

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

void touch_pages(void* data, size_t bytes) noexcept {
  auto* p = static_cast<volatile uint8_t*>(data);
  for (size_t i = 0; i < bytes; i += kPage) p[i] = 0;
}

void fail_out_of_memory(const char* who, size_t bytes) {
  ir::fail(ir::Errc::OutOfMemory, std::string(who) +
                                      ": the system has no more memory; could not get " +
                                      std::to_string(bytes) + " bytes");
}

}  // namespace tandem::exec
