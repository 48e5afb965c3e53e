// Sorts, and elements in a place of one. Elements become keys, unsigned numbers of the same order,
// beside their positions: so no two items are equal, every way of sorting them gives the same, and
// that is stable.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "machine/lines/items.h"
#include "machine/lines/lines.h"
#include "machine/rounding.h"

namespace tandem::machine::lines {
namespace {

using Views = std::span<const ir::BufferView>;
using Integers64 = std::span<const int64_t>;

/// Longer lines are sorted by digits, shorter ones by where their keys are between the least and
/// the most. (One thread of a Zen 4, ms for half a million random f32 in lines of 50, 100, 256, 500
/// and 1000: by comparisons 9.9, 11.5, 14.0; by ranges 4.2, 4.1, 4.1, 4.6, 6.1; by digits the last
/// two 4.8, 3.5.)
constexpr int64_t kShortLine = 512;

/// Sorts items, which are in the order of their positions, by three digits of 11 bits of
/// prefix(item); the result is in `items`.
template <class K, class Prefix>
void sort_by_digits(Item<K>* items, Item<K>* spare, int64_t n, Prefix prefix) {
  constexpr int kBits = 11, kDigits = 3;
  constexpr size_t kValues = size_t{1} << kBits;
  std::array<std::array<uint32_t, kValues>, kDigits> counts{};
  const auto digit = [&](const Item<K>& item, int d) {
    return (prefix(item) >> (d * kBits)) & (kValues - 1);
  };
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < kDigits; ++d) ++counts[d][digit(items[i], d)];
  Item<K>*from = items, *to = spare;
  for (int d = 0; d < kDigits; ++d) {
    auto& count = counts[d];
    if (count[digit(from[0], d)] == n) continue;  // all the same
    uint32_t begin = 0;
    for (uint32_t& c : count) begin += std::exchange(c, begin);
    for (int64_t i = 0; i < n; ++i) to[count[digit(from[i], d)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, n, items);
}

template <class K>
void sort_block(Item<K>* items, Item<K>* spare, int64_t n);

/// The least key, and by how much what others are above it is to be shifted to have so many bits.
template <class K>
std::pair<K, int> range_of(const Item<K>* items, int64_t n, int bits) {
  K least = items[0].key, most = least;
  for (int64_t i = 1; i < n; ++i)
    least = std::min(least, items[i].key), most = std::max(most, items[i].key);
  return {least, std::max(static_cast<int>(std::bit_width<K>(most - least)) - bits, 0)};
}

/// By the first 33 bits in which keys differ, and what is equal in them by itself: of long keys
/// little is.
template <class K>
void sort_by_long_keys(Item<K>* items, Item<K>* spare, int64_t n) {
  const auto [least, shift] = range_of(items, n, 33);
  const auto prefix = [least = least, shift = shift](const Item<K>& item) {
    return (item.key - least) >> shift;
  };
  sort_by_digits(items, spare, n, prefix);
  if (shift == 0) return;
  for (int64_t begin = 0, end = 1; begin < n; begin = end++) {
    while (end < n && prefix(items[end]) == prefix(items[begin])) ++end;
    if (end - begin > 1) sort_block(items + begin, spare + begin, end - begin);
  }
}

template <class K>
void radix_sort(Item<K>* items, Item<K>* spare, int64_t n) {
  if constexpr (sizeof(K) > 4)
    sort_by_long_keys(items, spare, n);
  else
    sort_by_digits(items, spare, n, [](const Item<K>& item) { return item.key; });
}

/// In about as many parts of equal ranges of keys as there are items, so that most parts have few.
template <class K>
void sort_by_ranges(Item<K>* items, Item<K>* spare, int64_t n) {
  const int bits = std::bit_width(static_cast<uint64_t>(n)) - 1;
  const auto [least, shift] = range_of(items, n, bits);
  std::array<uint32_t, kShortLine> counts;
  const std::span<uint32_t> ends(counts.data(), size_t{1} << bits);
  std::ranges::fill(ends, 0);
  const auto part = [least = least, shift = shift](const Item<K>& item) {
    return (item.key - least) >> shift;
  };
  for (int64_t i = 0; i < n; ++i) ++ends[part(items[i])];
  uint32_t begin = 0;
  for (uint32_t& e : ends) begin += std::exchange(e, begin);
  for (int64_t i = 0; i < n; ++i) spare[ends[part(items[i])]++] = items[i];
  for (int64_t i = 0, end; i < n; i = end) {
    end = ends[part(spare[i])];
    if (shift > 0 && end - i > kFewItems)
      sort_block(spare + i, items + i, end - i);
    else if (shift > 0 && end - i > 1) {
      place_few(spare + i, items + i, end - i);
      continue;
    }
    std::copy(spare + i, spare + end, items + i);
  }
}

template <class K>
void sort_block(Item<K>* items, Item<K>* spare, int64_t n) {
  if (n <= kFewItems)
    sort_few(items, spare, n);
  else if (n <= kShortLine)
    sort_by_ranges(items, spare, n);
  else
    radix_sort(items, spare, n);
}

/// Items of a line in parts of ascending keys, each in the order that the items came in.
template <class K>
class Parts {
 public:
  static constexpr size_t kCount = size_t{1} << 11;

  /// Those of `from` [n], in `to`.
  Parts(const Item<K>* from, Item<K>* to, int64_t n) : blocks_(ceil_div(n, kBlock)) {
    find_range(from, n);
    std::vector<Counts> begins(static_cast<size_t>(blocks_));
    for_each_block(n, [&](int64_t b, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++begins[static_cast<size_t>(b)][part(from[i])];
    });
    int64_t begin = 0;
    for (size_t p = 0; p < kCount; ++p) {
      begins_[p] = begin;
      for (Counts& of_block : begins) begin += std::exchange(of_block[p], begin);
    }
    begins_[kCount] = n;
    for_each_block(n, [&](int64_t b, int64_t first, int64_t end) {
      Counts& next = begins[static_cast<size_t>(b)];
      for (int64_t i = first; i < end; ++i) to[next[part(from[i])]++] = from[i];
    });
  }

  int64_t begin(size_t part) const { return begins_[part]; }
  int64_t size(size_t part) const { return begins_[part + 1] - begins_[part]; }
  /// Whether items of one part have equal keys.
  bool are_equal() const { return shift_ == 0; }

 private:
  using Counts = std::array<int64_t, kCount>;

  template <class F>
  void for_each_block(int64_t n, F f) const {
    parallel_for(blocks_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t b = begin; b < end; ++b) f(b, b * kBlock, std::min((b + 1) * kBlock, n));
    });
  }

  size_t part(const Item<K>& item) const {
    return static_cast<size_t>((item.key - least_) >> shift_);
  }

  void find_range(const Item<K>* items, int64_t n) {
    std::vector<K> least(static_cast<size_t>(blocks_)), most(least.size());
    for_each_block(n, [&](int64_t b, int64_t begin, int64_t end) {
      K low = items[begin].key, high = low;
      for (int64_t i = begin; i < end; ++i)
        low = std::min(low, items[i].key), high = std::max(high, items[i].key);
      least[static_cast<size_t>(b)] = low, most[static_cast<size_t>(b)] = high;
    });
    least_ = *std::ranges::min_element(least);
    constexpr int kBits = std::countr_zero(kCount);
    const K range = *std::ranges::max_element(most) - least_;
    shift_ = std::max(static_cast<int>(std::bit_width(range)) - kBits, 0);
  }

  int64_t blocks_;
  K least_;
  int shift_;
  std::array<int64_t, kCount + 1> begins_;
};

/// Parts by themselves, among threads; long ones in parts again.
template <class K>
void sort_long(Item<K>* items, Item<K>* spare, int64_t n) {
  const Parts<K> parts(items, spare, n);
  const auto is_long = [&](size_t p) { return !parts.are_equal() && parts.size(p) > kBlock; };
  parallel_for(Parts<K>::kCount, 1, [&](int64_t first, int64_t last, int) {
    for (auto p = static_cast<size_t>(first); p < static_cast<size_t>(last); ++p) {
      Item<K>* const part = spare + parts.begin(p);
      if (!parts.are_equal() && !is_long(p))
        sort_block(part, items + parts.begin(p), parts.size(p));
      std::copy_n(part, parts.size(p), items + parts.begin(p));
    }
  });
  for (size_t p = 0; p < Parts<K>::kCount; ++p)
    if (is_long(p)) sort_long(items + parts.begin(p), spare + parts.begin(p), parts.size(p));
}

/// Whether keys ascend as the items came: of a line in any other order the first few say so.
template <class K>
bool are_sorted(const Item<K>* items, int64_t n) {
  return std::is_sorted(items, items + n,
                        [](const Item<K>& a, const Item<K>& b) { return a.key < b.key; });
}

template <class K>
void sort_line(Item<K>* items, Item<K>* spare, int64_t n) {
  if (are_sorted(items, n)) return;
  if (n > 2 * kBlock)
    sort_long(items, spare, n);
  else
    sort_block(items, spare, n);
}

/// arrange(number of the line, its items, spare) for each line.
template <class Arrange>
void arrange_items(const ir::BufferView& view, int64_t dim, bool descending, Arrange arrange) {
  arrange_lines(
      view, dim,
      [&]<class T, class K>(int64_t i, const Line<const T>& line, Item<K>* items, Item<K>* spare) {
        fill(line, descending, items);
        arrange(i, items, spare);
      });
}

/// Lines of bytes from so many elements on are ordered by how many there are of each.
constexpr int64_t kCountedFrom = 512;

/// By key: how many there are, and then where the next one belongs.
using Places = std::array<int64_t, 256>;

/// `next`: of each block of the line.
template <class T>
void order_bytes(const Line<const T>& line, bool descending, const Line<int64_t>& to,
                 std::span<Places> next) {
  std::ranges::fill(next, Places{});
  const auto for_each_element = [&](auto f) {
    parallel_for(static_cast<int64_t>(next.size()), 1, [&](int64_t first, int64_t last, int) {
      for (int64_t b = first; b < last; ++b)
        for (int64_t i = b * kBlock; i < std::min((b + 1) * kBlock, line.size); ++i)
          f(next[static_cast<size_t>(b)][static_cast<uint8_t>(key_of(line[i], descending))], i);
    });
  };
  for_each_element([](int64_t& count, int64_t) { ++count; });
  int64_t begin = 0;
  for (size_t key = 0; key < 256; ++key)
    for (auto& of_block : next) begin += std::exchange(of_block[key], begin);
  for_each_element([&](int64_t& place, int64_t i) { to[place++] = i; });
}

template <class T>
void order_lines_of_bytes(const Lines<const T>& from, bool descending, const Lines<int64_t>& to) {
  const int64_t blocks = ceil_div(from.size(), kBlock);
  std::vector<Places> next(static_cast<size_t>(blocks == 1 ? num_threads() : blocks));
  const auto order = [&](int64_t i, std::span<Places> places) {
    order_bytes(from[i], descending, to[i], places);
  };
  if (blocks == 1)
    return for_each_line(from.count(), from.size(), [&](int64_t i, int worker) {
      order(i, {&next[static_cast<size_t>(worker)], 1});
    });
  for (int64_t i = 0; i < from.count(); ++i) order(i, next);
}

}  // namespace

void argsort(Views in, Integers64 numbers, const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  if (ir::size_of(in[0].dtype) == 1 && to.size() >= kCountedFrom)
    return with_type<All>(in[0].dtype, [&]<class T>(Tag<T>) {
      if constexpr (sizeof(T) == 1)
        order_lines_of_bytes(Lines<const T>(in[0], numbers[0]), numbers[1] != 0, to);
    });
  arrange_items(in[0], numbers[0], numbers[1] != 0,
                [&]<class K>(int64_t i, Item<K>* items, Item<K>* spare) {
                  sort_line(items, spare, to.size());
                  write_positions(items, to.size(), to[i]);
                });
}

namespace {

/// Of longer lines some elements say first between which keys the one looked for lies.
constexpr int64_t kSampledFrom = int64_t{1} << 13, kSample = 1024, kMargin = kSample / 20;

/// Two keys, and between them most likely the one in place k of the line.
template <class K, class T>
std::pair<K, K> bounds_of(const Line<const T>& line, int64_t k) {
  std::array<K, kSample> keys;
  for (int64_t i = 0; i < kSample; ++i)
    keys[static_cast<size_t>(i)] = widened<K>(key_of(line[i * (line.size / kSample)], false));
  std::ranges::sort(keys);
  const auto place = static_cast<int64_t>(static_cast<double>(k) / static_cast<double>(line.size) *
                                          static_cast<double>(kSample));
  const auto key = [&](int64_t at) {
    return keys[static_cast<size_t>(std::clamp<int64_t>(at, 0, kSample - 1))];
  };
  const bool first = place <= kMargin, last = place + kMargin >= kSample;
  return {first ? K{0} : key(place - kMargin),
          last ? std::numeric_limits<K>::max() : key(place + kMargin)};
}

template <class K>
Item<K> item_in_place(Item<K>* items, Item<K>* spare, int64_t k, int64_t n) {
  if (n <= kFewItems)
    sort_few(items, spare, n);
  else
    std::nth_element(items, items + k, items + n);
  return items[k];
}

/// The same of a long line, of which few elements become items; none if what was sampled misleads.
template <class T, class K>
std::optional<Item<K>> sampled_item(const Line<const T>& line, int64_t k, Item<K>* items,
                                    Item<K>* spare) {
  const auto [low, high] = bounds_of<K>(line, k);
  int64_t below = 0, count = 0;
  for (int64_t i = 0; i < line.size; ++i) {
    const K key = widened<K>(key_of(line[i], false));
    items[count] = {key, static_cast<K>(i)};
    below += key < low;
    count += static_cast<K>(key - low) <= static_cast<K>(high - low);  // no branch
  }
  if (k < below || k >= below + count) return std::nullopt;
  return item_in_place(items, spare, k - below, count);
}

/// How many elements of a line, or of the items made of one, are NaN.
template <class T>
int64_t count_nan(const Line<const T>& line) {
  int64_t count = 0;
  for (int64_t i = 0; i < line.size; ++i) count += rank_of(line[i]) == kLastRank<T>;
  return count;
}
template <class K>
int64_t count_nan(const Item<K>* items, int64_t n) {
  return std::count_if(items, items + n, [](const Item<K>& item) {
    return item.key == std::numeric_limits<K>::max();
  });
}

/// For each line the position of the element in place place_of(a count of NaN, how many there
/// are) of the sorted line, the first of equals first.
template <class PlaceOf>
void positions_in_place(Views in, int64_t dim, const ir::BufferView& out, PlaceOf place_of) {
  const Lines<int64_t> to(out, dim);
  arrange_lines(
      in[0], dim,
      [&]<class T, class K>(int64_t i, const Line<const T>& line, Item<K>* items, Item<K>* spare) {
        const int64_t n = line.size;
        std::optional<Item<K>> item;
        if (n >= kSampledFrom)
          item = sampled_item(line, place_of([&] { return has_nan<T> ? count_nan(line) : 0; }, n),
                              items, spare);
        if (!item) {
          fill(line, false, items);
          const int64_t k = place_of([&] { return has_nan<T> ? count_nan(items, n) : 0; }, n);
          item = item_in_place(items, spare, k, n);
        }
        write_positions(&*item, 1, to[i]);
      });
}

}  // namespace

void kth_index(Views in, Integers64 numbers, const ir::BufferView& out) {
  positions_in_place(in, numbers[0], out, [&](auto, int64_t) { return numbers[1]; });
}

void median_index(Views in, Integers64 numbers, const ir::BufferView& out) {
  const bool ignores_nan = numbers[1] != 0;
  positions_in_place(in, numbers[0], out, [&](auto nans_of_line, int64_t n) {
    const int64_t nans = nans_of_line(), numbers_left = n - nans;
    if (nans == 0) return (n - 1) / 2;
    return ignores_nan && numbers_left > 0 ? (numbers_left - 1) / 2 : numbers_left;
  });
}

void mode_index(Views in, Integers64 numbers, const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  const int64_t n = in[0].sizes[static_cast<int>(numbers[0])];
  arrange_items(in[0], numbers[0], false, [&]<class K>(int64_t i, Item<K>* items, Item<K>* spare) {
    sort_line(items, spare, n);
    int64_t longest = 0, last = 0;
    for (int64_t begin = 0, k = 0; k < n; ++k) {
      if (items[k].key != items[begin].key) begin = k;
      if (k - begin + 1 > longest) longest = k - begin + 1, last = k;
    }
    write_positions(items + last, 1, to[i]);
  });
}

}  // namespace tandem::machine::lines
