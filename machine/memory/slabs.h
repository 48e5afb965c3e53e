// Blocks smaller than a huge page, carved out of huge pages: fresh memory then costs one page fault
// for 2 MB instead of one for 4 KB.
#ifndef TANDEM_MACHINE_MEMORY_SLABS_H
#define TANDEM_MACHINE_MEMORY_SLABS_H

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::machine {

inline constexpr size_t kSlabUnit = 4096;
inline constexpr size_t kSlabBytes = size_t{8} << 20;

/// Memory in slabs of kSlabBytes; not thread safe. What is not handed out was never touched, or has
/// been given back to the system; so blocks begin as zeros, and a slab without blocks is unmapped.
class Slabs {
 public:
  Slabs() = default;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;
  ~Slabs();

  /// `bytes` bytes of zeros (a multiple of kSlabUnit, at most kSlabBytes) at the lowest free place
  /// of the oldest slab that has one, aligned to kSlabUnit; or null.
  void* take(size_t bytes) noexcept;

  /// Whether `data` lies in one of the slabs.
  bool owns(const void* data) const noexcept { return find(data) != nullptr; }

  /// Gives the memory of take(bytes) back to the system.
  void give_back(void* data, size_t bytes) noexcept;

  size_t count() const { return slabs_.size(); }

 private:
  static constexpr size_t kUnits = kSlabBytes / kSlabUnit;

  struct Slab {
    uint8_t* base;
    size_t largest_hole;  // at least the units of the longest free run
    std::bitset<kUnits> used;
  };

  static void* take_from(Slab& slab, size_t units) noexcept;
  const Slab* find(const void* data) const noexcept;

  std::vector<Slab> slabs_;  // the oldest first
};

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_SLABS_H
