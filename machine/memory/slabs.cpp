// Two bits for each 4 KB of a slab: whether a block lies there, and whether one did.
#include "machine/memory/slabs.h"

#include <algorithm>
#include <bit>
#include <new>

#include "machine/memory/pages.h"

namespace tandem::machine {
namespace {

constexpr size_t kHugeUnits = kHugePage / kSlabUnit;

/// The bits [first, last) of a word, of which `last` may be 64.
uint64_t mask(size_t first, size_t last) {
  const uint64_t below = last == 64 ? ~uint64_t{0} : (uint64_t{1} << last) - 1;
  return below & ~uint64_t{0} << first;
}

/// f(number of the word, bits of it) for the words of [first, last).
template <class F>
void for_words(size_t first, size_t last, F f) {
  for (size_t w = first / 64; w * 64 < last; ++w)
    f(w, mask(w * 64 < first ? first % 64 : 0, std::min<size_t>(last - w * 64, 64)));
}

size_t aligned(size_t unit, size_t units) {
  return units < kHugeUnits ? unit : (unit + kHugeUnits - 1) / kHugeUnits * kHugeUnits;
}

}  // namespace

void Slabs::Bits::set(size_t first, size_t last, bool value) {
  for_words(first, last, [&](size_t w, uint64_t bits) {
    words_[w] = value ? words_[w] | bits : words_[w] & ~bits;
  });
}

size_t Slabs::Bits::find(size_t from, bool value) const {
  for (size_t w = from / 64; w < words_.size(); ++w) {
    const uint64_t word =
        (value ? words_[w] : ~words_[w]) & mask(w * 64 < from ? from % 64 : 0, 64);
    if (word != 0) return w * 64 + static_cast<size_t>(std::countr_zero(word));
  }
  return kUnits;
}

size_t Slabs::Bits::count(size_t first, size_t last) const {
  size_t count = 0;
  for_words(first, last, [&](size_t w, uint64_t bits) {
    count += static_cast<size_t>(std::popcount(words_[w] & bits));
  });
  return count;
}

Slabs::~Slabs() {
  for (const Slab& slab : slabs_) unmap_pages(slab.base, kSlabBytes);
}

SlabBlock Slabs::take_from(Slab& slab, size_t units) noexcept {
  size_t longest = 0;
  for (size_t begin = slab.used.find(0, false); begin < kUnits;) {
    const size_t end = slab.used.find(begin, true), first = aligned(begin, units);
    longest = std::max(longest, end - begin);
    if (first + units <= end) {
      const size_t touched = slab.touched.count(first, first + units);
      free_units_ -= touched;
      slab.used.set(first, first + units, true);
      slab.touched.set(first, first + units, true);
      return {slab.base + first * kSlabUnit, touched == 0};
    }
    begin = slab.used.find(end, false);
  }
  slab.largest_hole = longest;
  return {};
}

SlabBlock Slabs::take(size_t bytes) noexcept {
  const size_t units = bytes / kSlabUnit;
  for (Slab& slab : slabs_) {
    if (slab.largest_hole < units) continue;
    if (const SlabBlock block = take_from(slab, units); block.data) return block;
  }
  auto* base = static_cast<uint8_t*>(map_pages(kSlabBytes));
  if (!base) return {};
  try {
    slabs_.push_back({base, kUnits});
  } catch (const std::bad_alloc&) {
    unmap_pages(base, kSlabBytes);
    return {};
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
  const size_t units = bytes / kSlabUnit;
  slab.used.set(first, first + units, false);
  slab.largest_hole = kUnits;
  free_units_ += units;
}

void Slabs::drop_free(Slab& slab) noexcept {
  for (size_t begin = slab.used.find(0, false); begin < kUnits;) {
    const size_t end = slab.used.find(begin, true);
    if (slab.touched.count(begin, end) > 0) {
      drop_pages(slab.base + begin * kSlabUnit, (end - begin) * kSlabUnit);
      slab.touched.set(begin, end, false);
    }
    begin = slab.used.find(end, false);
  }
}

void Slabs::drop_free() noexcept {
  if (free_units_ == 0) return;
  std::erase_if(slabs_, [&](Slab& slab) {
    const bool empty = slab.used.find(0, true) == kUnits;
    empty ? unmap_pages(slab.base, kSlabBytes) : drop_free(slab);
    return empty;
  });
  free_units_ = 0;
}

}  // namespace tandem::machine
