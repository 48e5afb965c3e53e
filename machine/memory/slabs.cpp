// A bit for each 4 KB of a slab. Blocks come here only when no idle one fits, so the searches are
// short beside the page faults that follow.
#include "machine/memory/slabs.h"

#include <algorithm>
#include <new>

#include "machine/memory/pages.h"

namespace tandem::machine {

Slabs::~Slabs() {
  for (const Slab& slab : slabs_) unmap_pages(slab.base, kSlabBytes);
}

void* Slabs::take_from(Slab& slab, size_t units) noexcept {
  size_t run = 0, longest = 0;
  for (size_t i = 0; i < kUnits; ++i) {
    run = slab.used[i] ? 0 : run + 1;
    longest = std::max(longest, run);
    if (run < units) continue;
    const size_t first = i + 1 - units;
    for (size_t u = first; u <= i; ++u) slab.used.set(u);
    return slab.base + first * kSlabUnit;
  }
  slab.largest_hole = longest;
  return nullptr;
}

void* Slabs::take(size_t bytes) noexcept {
  const size_t units = bytes / kSlabUnit;
  for (Slab& slab : slabs_) {
    if (slab.largest_hole < units) continue;
    if (void* data = take_from(slab, units)) return data;
  }
  auto* base = static_cast<uint8_t*>(map_pages(kSlabBytes));
  if (!base) return nullptr;
  try {
    slabs_.push_back({base, kUnits, {}});
  } catch (const std::bad_alloc&) {
    unmap_pages(base, kSlabBytes);
    return nullptr;
  }
  return take_from(slabs_.back(), units);
}

const Slabs::Slab* Slabs::find(const void* data) const noexcept {
  const auto* at = static_cast<const uint8_t*>(data);
  const auto found = std::ranges::find_if(
      slabs_, [at](const Slab& s) { return at >= s.base && at < s.base + kSlabBytes; });
  return found == slabs_.end() ? nullptr : &*found;
}

void Slabs::give_back(void* data, size_t bytes) noexcept {
  Slab& slab = slabs_[static_cast<size_t>(find(data) - slabs_.data())];
  const size_t first = static_cast<size_t>(static_cast<uint8_t*>(data) - slab.base) / kSlabUnit;
  for (size_t u = first; u < first + bytes / kSlabUnit; ++u) slab.used.reset(u);
  if (slab.used.none()) {
    unmap_pages(slab.base, kSlabBytes);
    slabs_.erase(slabs_.begin() + (&slab - slabs_.data()));
  } else {
    drop_pages(data, bytes);
    slab.largest_hole = kUnits;
  }
}

}  // namespace tandem::machine
