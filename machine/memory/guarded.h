// A mode for tests: memory against pages that nobody may touch. Generated code is not seen by
// sanitizers; a guard page sees it, reading or writing.
#ifndef TANDEM_MACHINE_MEMORY_GUARDED_H
#define TANDEM_MACHINE_MEMORY_GUARDED_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "machine/memory/guard_pages.h"

namespace tandem::machine {

/// Where blocks lie between guard pages, as TANDEM_GUARD_PAGES says: "start" (a block begins behind
/// one), "end" (a block ends before one), else (the mode is off) nowhere. Of the element's
/// alignment, and of no other.
GuardPages guard_pages();
inline bool is_guarded() { return guard_pages() != GuardPages::None; }

/// A block of exactly `bytes` bytes between two guard pages, or null. It begins with a pattern,
/// which also fills the rest of its pages.
void* allocate_guarded(size_t bytes) noexcept;

/// Takes back what allocate_guarded(bytes) returned; ends the process with a message if somebody
/// wrote beside the block.
void release_guarded(void* data, size_t bytes) noexcept;

/// `bytes` of working memory for one call; the pages at `guards` (offsets) may not be touched. Null
/// if there is none.
void* allocate_guarded_arena(size_t bytes) noexcept;
void protect_pages(void* arena, std::span<const int64_t> guards) noexcept;
void release_guarded_arena(void* data, size_t bytes) noexcept;

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_GUARDED_H
