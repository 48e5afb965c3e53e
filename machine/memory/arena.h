// Working memory of running calls. A call borrows an arena from one process-wide pool and gives it
// back at its end, so that temporaries never touch fresh pages twice. Concurrent calls hold
// different arenas.
#ifndef TANDEM_MACHINE_MEMORY_ARENA_H
#define TANDEM_MACHINE_MEMORY_ARENA_H

#include <cstddef>
#include <cstdint>
#include <utility>

#include "machine/memory/pages.h"

namespace tandem::machine {

/// Arenas are aligned to, and sized in multiples of, this many bytes: one huge page.
inline constexpr size_t kArenaAlignment = kHugePage;

/// At most this many arenas, and this many bytes, are kept idle. The arena given back last is kept
/// whatever its size. A new arena takes the place of an idle one that is too small: calls that run
/// one after the other have one arena, as large as the largest of them needs.
inline constexpr size_t kMaxIdleArenas = 8;
inline constexpr size_t kMaxIdleArenaBytes = size_t{1} << 30;

/// A borrowed arena; its destructor gives it back. Movable only. The contents are undefined.
class ArenaLease {
 public:
  ArenaLease() = default;
  ArenaLease(ArenaLease&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ArenaLease& operator=(ArenaLease&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ArenaLease();

  uint8_t* data() const { return data_; }
  /// At least what was asked for.
  size_t bytes() const { return bytes_; }

 private:
  friend ArenaLease borrow_arena(size_t bytes);
  ArenaLease(uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {}

  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

/// An arena of at least `bytes` bytes, every page of which has been touched; an empty lease for 0
/// bytes. Throws Error (out_of_memory).
ArenaLease borrow_arena(size_t bytes);

struct ArenaStats {
  size_t idle_arenas = 0;
  size_t idle_bytes = 0;
  size_t leased_bytes = 0;
};
ArenaStats arena_stats();

/// Returns the memory of all idle arenas to the system.
void release_idle_arenas();

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_ARENA_H
