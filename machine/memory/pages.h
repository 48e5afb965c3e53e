// Memory straight from the system, in huge pages where it has them.
#ifndef TANDEM_MACHINE_MEMORY_PAGES_H
#define TANDEM_MACHINE_MEMORY_PAGES_H

#include <cstddef>

namespace tandem::machine {

inline constexpr size_t kHugePage = size_t{2} << 20;

/// `bytes` (a multiple of kHugePage) aligned to kHugePage and advised for huge pages, or null.
void* map_pages(size_t bytes) noexcept;

/// Gives back what map_pages(bytes) returned.
void unmap_pages(void* data, size_t bytes) noexcept;

/// Gives the contents of `bytes` (a multiple of 4096) inside such memory back to the system; what
/// is read there later is zero.
void drop_pages(void* data, size_t bytes) noexcept;

/// Backs `bytes` of mapped memory with pages now, on all threads of the pool; contents stay. Where
/// the system cannot do this, pages come when they are touched.
void populate_pages(void* data, size_t bytes) noexcept;

/// Writes one byte in every page, so that later writes do not fault.
void touch_pages(void* data, size_t bytes) noexcept;

/// Throws Error (out_of_memory) saying that `who` could not get `bytes` bytes.
[[noreturn]] void fail_out_of_memory(const char* who, size_t bytes);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_PAGES_H
