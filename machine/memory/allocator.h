// The caching allocator of buffers that outlive a call: outputs, saved values, storage of tensors.
// Freed blocks are kept by size class and handed out again, because fresh pages cost more than most
// kernels.
#ifndef TANDEM_MACHINE_MEMORY_ALLOCATOR_H
#define TANDEM_MACHINE_MEMORY_ALLOCATOR_H

#include <cstddef>

namespace tandem::machine {

/// Blocks are aligned to this many bytes; those of 64 KB and more to a page, those of 2 MB
/// and more to 2 MB.
inline constexpr size_t kBlockAlignment = 64;

/// A block of at least `bytes` bytes (one that may be released for 0). The contents are undefined.
/// Throws Error (out_of_memory) after giving all idle memory back to the system.
void* allocate(size_t bytes);

/// The same, filled with zeros. Memory fresh from the system is zero already.
void* allocate_zeroed(size_t bytes);

/// Takes back what either returned for `bytes`; null is ignored. Any thread may release.
void release(void* data, size_t bytes) noexcept;

struct AllocatorStats {
  size_t live_bytes = 0;       // asked for and not released
  size_t peak_live_bytes = 0;  // the largest live_bytes since the start or reset_peak_live_bytes()
  size_t idle_bytes = 0;       // kept for later requests, without at most 448 KiB a thread
};
AllocatorStats allocator_stats();
void reset_peak_live_bytes();

/// The bound on idle_bytes: TANDEM_CACHE_BYTES (bytes), else a quarter of the machine's memory. The
/// least recently used size classes are given back to the system first. 0 turns caching off (then
/// AddressSanitizer sees uses after release).
size_t max_idle_bytes();
void set_max_idle_bytes(size_t bytes);

/// Gives idle memory back to the system, that of this thread's cache included.
void release_idle_blocks();

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_ALLOCATOR_H
