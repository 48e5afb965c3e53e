// Blocks carved out of huge pages: fresh memory then costs one page fault for 2 MB instead of one
// for 4 KB, and what one size gave back serves any other.
#ifndef TANDEM_MACHINE_MEMORY_SLABS_H
#define TANDEM_MACHINE_MEMORY_SLABS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::machine {

inline constexpr size_t kSlabUnit = 4096;
inline constexpr size_t kSlabBytes = size_t{32} << 20;

/// A block, and whether it is known to be filled with zeros.
struct SlabBlock {
  void* data = nullptr;
  bool zero = false;
};

/// Memory in slabs of kSlabBytes; not thread safe. What is given back keeps its pages until
/// drop_free(), so that the next block that lies there needs no fresh ones.
class Slabs {
 public:
  Slabs() = default;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;
  ~Slabs();

  /// `bytes` bytes (a multiple of kSlabUnit, at most kSlabBytes) at the lowest free place of the
  /// oldest slab that has one, aligned to kSlabUnit, from 2 MB on to 2 MB; or nothing.
  SlabBlock take(size_t bytes) noexcept;

  /// Whether `data` lies in one of the slabs.
  bool owns(const void* data) const noexcept { return find(data) != nullptr; }

  /// Takes back the memory of take(bytes).
  void give_back(void* data, size_t bytes) noexcept;

  /// Gives the pages of all free places back to the system, and slabs without blocks.
  void drop_free() noexcept;

  size_t count() const { return slabs_.size(); }
  /// Of places that were given back and have their pages still.
  size_t free_bytes() const { return free_units_ * kSlabUnit; }

 private:
  static constexpr size_t kUnits = kSlabBytes / kSlabUnit;

  class Bits {
   public:
    void set(size_t first, size_t last, bool value);
    /// The first place from `from` on that is `value`, or kUnits.
    size_t find(size_t from, bool value) const;
    /// How many of [first, last) are set.
    size_t count(size_t first, size_t last) const;

   private:
    std::array<uint64_t, kUnits / 64> words_{};
  };

  struct Slab {
    uint8_t* base;
    size_t largest_hole;  // at least the units of the longest free run
    Bits used{}, touched{};
  };

  SlabBlock take_from(Slab& slab, size_t units) noexcept;
  void drop_free(Slab& slab) noexcept;
  const Slab* find(const void* data) const noexcept;

  std::vector<Slab> slabs_;  // the oldest first
  size_t free_units_ = 0;    // touched and not used
};

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_SLABS_H
