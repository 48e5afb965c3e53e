// Sorts, selections and searches. Elements become keys, unsigned numbers of the same order, beside
// their positions: so no two items are equal, every way of sorting them gives the same, and that is
// stable.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>

#include "machine/lines/line.h"
#include "machine/lines/lines.h"
#include "machine/rounding.h"

namespace tandem::machine::lines {
namespace {

using Views = std::span<const ir::BufferView>;
using Integers64 = std::span<const int64_t>;

/// Longer lines are sorted in blocks, by several threads.
constexpr int64_t kBlock = int64_t{1} << 16;
/// Shorter ones by comparisons.
constexpr int64_t kFewItems = 256;
/// Elements that are looked at together when few are chosen: at most, and at least.
constexpr int64_t kLargestGroup = 64, kSmallestGroup = 8;

template <class K>
struct Item {
  K key, index;
  friend bool operator<(const Item& a, const Item& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

/// A number that is the larger, the larger v is: NaN largest, -0 as 0.
template <class T>
Key<T> key_of(T stored) {
  using K = Key<T>;
  constexpr K kTop = K{1} << (8 * sizeof(K) - 1);
  const auto v = load(stored);
  if constexpr (std::is_floating_point_v<decltype(v)>) {
    using V = decltype(v);
    constexpr K kInfinite = std::bit_cast<K>(std::numeric_limits<V>::infinity());
    const K bits = std::bit_cast<K>(v + 0);  // -0 + 0 is 0
    const K flipped = static_cast<K>(0 - (bits >> (8 * sizeof(K) - 1))) | kTop;
    const bool is_nan = (bits & ~kTop) > kInfinite;  // (No comparison of floats: those may trap.)
    return is_nan ? std::numeric_limits<K>::max() : bits ^ flipped;
  } else {
    return static_cast<K>(static_cast<K>(v) ^ (std::is_signed_v<T> ? kTop : 0));
  }
}

/// What is largest is so in wider items too.
template <class I, class K>
I widened(K key) {
  return key == std::numeric_limits<K>::max() ? std::numeric_limits<I>::max() : I{key};
}

/// key_of, or what is the smaller, the larger v is.
template <class T>
Key<T> key_of(T stored, bool descending) {
  const Key<T> key = key_of(stored);
  return descending ? static_cast<Key<T>>(~key) : key;
}

template <class T, class I>
void fill(const Line<const T>& line, bool descending, Item<I>* items) {
  for (int64_t i = 0; i < line.size; ++i)
    items[i] = {widened<I>(key_of(line[i], descending)), static_cast<I>(i)};
}

/// Sorts items, which are in the order of their positions, by digits of 11 bits of their keys; the
/// result is in `items`.
template <class K>
void radix_sort(Item<K>* items, Item<K>* spare, int64_t n) {
  constexpr int kBits = 11, kDigits = (8 * sizeof(K) + kBits - 1) / kBits;
  constexpr size_t kValues = size_t{1} << kBits;
  std::array<std::array<uint32_t, kValues>, kDigits> counts{};
  const auto digit = [](K key, int d) { return (key >> (d * kBits)) & (kValues - 1); };
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < kDigits; ++d) ++counts[d][digit(items[i].key, d)];
  Item<K>*from = items, *to = spare;
  for (int d = 0; d < kDigits; ++d) {
    auto& count = counts[d];
    if (count[digit(from[0].key, d)] == n) continue;  // all the same
    uint32_t begin = 0;
    for (uint32_t& c : count) begin += std::exchange(c, begin);
    for (int64_t i = 0; i < n; ++i) to[count[digit(from[i].key, d)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, n, items);
}

template <class K>
void sort_block(Item<K>* items, Item<K>* spare, int64_t n) {
  if (n <= kFewItems)
    std::sort(items, items + n);
  else
    radix_sort(items, spare, n);
}

/// Blocks by themselves, then pairs of neighbours, pairs of pairs, ...: in `items` or `spare`.
template <class K>
Item<K>* sort_long(Item<K>* items, Item<K>* spare, int64_t n) {
  const int64_t blocks = ceil_div(n, kBlock);
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b)
      sort_block(items + b * kBlock, spare + b * kBlock, std::min(kBlock, n - b * kBlock));
  });
  for (int64_t width = kBlock; width < n; width *= 2) {
    parallel_for(ceil_div(n, 2 * width), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t pair = begin; pair < end; ++pair) {
        const int64_t first = pair * 2 * width;
        const int64_t middle = std::min(first + width, n), last = std::min(middle + width, n);
        std::merge(items + first, items + middle, items + middle, items + last, spare + first);
      }
    });
    std::swap(items, spare);
  }
  return items;
}

/// Working memory, two items for each element of a line, for each of `lines`.
template <class K>
std::unique_ptr<Item<K>[]> working_memory(int64_t size, int64_t lines) {
  return std::make_unique_for_overwrite<Item<K>[]>(static_cast<size_t>(2 * size * lines));
}

/// arrange(number of the line, the line, room for its items, as much to spare) for each line.
template <class K, class T, class Arrange>
void with_memory(const Lines<const T>& from, Arrange arrange) {
  const int64_t n = from.size();
  const bool is_long = n > 2 * kBlock;
  const auto memory = working_memory<K>(n, is_long || from.count() == 1 ? 1 : num_threads());
  const auto run = [&](int64_t i, int worker) {
    Item<K>* items = memory.get() + 2 * n * worker;
    arrange(i, from[i], items, items + n);
  };
  if (!is_long) return for_each_line(from.count(), n, run);
  for (int64_t i = 0; i < from.count(); ++i) run(i, 0);
}

/// The same by dtype, with positions in as few bits as they need.
template <class Arrange>
void arrange_lines(const ir::BufferView& view, int64_t dim, Arrange arrange) {
  with_type<All>(view.dtype, [&]<class T>(Tag<T>) {
    const Lines<const T> from(view, dim);
    if (from.count() == 0 || from.size() == 0) return;
    if (sizeof(T) < 8 && from.size() <= std::numeric_limits<uint32_t>::max())
      with_memory<Key<T>>(from, arrange);
    else
      with_memory<uint64_t>(from, arrange);
  });
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

/// Of groups of a line, of which there are twice as many as elements are kept; 0 where they would
/// be too small to save anything.
int64_t group_size(int64_t n, int64_t kept) {
  int64_t size = kLargestGroup;
  while (size >= kSmallestGroup && n / size < 2 * kept) size /= 2;
  return size >= kSmallestGroup ? size : 0;
}

/// The first in order of the keys of `count` elements.
template <class T, class Elements>
Key<T> first_key(const Elements& elements, int64_t count, bool descending) {
  Key<T> first = std::numeric_limits<Key<T>>::max();
  for (int64_t i = 0; i < count; ++i) {
    const Key<T> key = key_of<T>(elements[i], descending);
    first = key < first ? key : first;
  }
  return first;
}

/// The first key of each group, with the group's number.
template <class T, class I>
int64_t fill_groups(const Line<const T>& line, bool descending, int64_t size, Item<I>* groups) {
  int64_t count = 0;
  for (int64_t first = 0; first < line.size; first += size, ++count) {
    const int64_t there = std::min(size, line.size - first);
    const T* const from = &line[first];
    const Key<T> key =
        line.stride == 1 ? first_key<T>(from, there, descending)
                         : first_key<T>(Line<const T>{from, there, line.stride}, there, descending);
    groups[count] = {widened<I>(key), static_cast<I>(count)};
  }
  return count;
}

/// The first `kept` items of a line in their order, in `items`. They lie in the groups that come
/// first: before an element of any other come the first elements of `kept` groups.
template <class T, class I>
void choose_first(const Line<const T>& line, bool descending, int64_t kept, int64_t size,
                  Item<I>* items, Item<I>* groups) {
  const int64_t count = fill_groups(line, descending, size, groups);
  std::nth_element(groups, groups + kept - 1, groups + count);
  const I bound = groups[kept - 1].key;
  int64_t held = 0;
  for (int64_t g = 0; g < kept; ++g) {
    const int64_t first = static_cast<int64_t>(groups[g].index) * size;
    for (int64_t i = first; i < std::min(first + size, line.size); ++i) {
      items[held] = {widened<I>(key_of(line[i], descending)), static_cast<I>(i)};
      held += items[held].key <= bound;
    }
  }
  std::nth_element(items, items + kept - 1, items + held);
  std::sort(items, items + kept);
}

/// Where the first `kept` items came from.
template <class K>
void write_positions(const Item<K>* items, int64_t kept, const Line<int64_t>& to) {
  for (int64_t k = 0; k < kept; ++k) to[k] = static_cast<int64_t>(items[k].index);
}

}  // namespace

void argsort(Views in, Integers64 numbers, const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  arrange_items(in[0], numbers[0], numbers[1] != 0,
                [&]<class K>(int64_t i, Item<K>* items, Item<K>* spare) {
                  const int64_t n = to.size();
                  const Item<K>* sorted = items;
                  if (n > 2 * kBlock)
                    sorted = sort_long(items, spare, n);
                  else
                    sort_block(items, spare, n);
                  write_positions(sorted, n, to[i]);
                });
}

void topk_indices(Views in, Integers64 numbers, const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  const int64_t kept = numbers[1], n = in[0].sizes[static_cast<int>(numbers[0])];
  if (kept == 0) return;
  const bool descending = numbers[2] != 0;
  const int64_t group = group_size(n, kept);
  arrange_lines(
      in[0], numbers[0],
      [&]<class T, class K>(int64_t i, const Line<const T>& line, Item<K>* items, Item<K>* spare) {
        if (group > 0) {
          choose_first(line, descending, kept, group, items, spare);
        } else {
          fill(line, descending, items);
          if (kept < n) std::nth_element(items, items + kept, items + n);
          std::sort(items, items + kept);
        }
        write_positions(items, kept, to[i]);
      });
}

void kth_index(Views in, Integers64 numbers, const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  const int64_t k = numbers[1], n = in[0].sizes[static_cast<int>(numbers[0])];
  arrange_items(in[0], numbers[0], false, [&]<class K>(int64_t i, Item<K>* items, Item<K>*) {
    std::nth_element(items, items + k, items + n);
    write_positions(items + k, 1, to[i]);
  });
}

void median_index(Views in, Integers64 numbers, const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  const int64_t n = in[0].sizes[static_cast<int>(numbers[0])];
  const bool ignores_nan = numbers[1] != 0, may_have_nan = ir::is_floating(in[0].dtype);
  arrange_items(in[0], numbers[0], false, [&]<class K>(int64_t i, Item<K>* items, Item<K>*) {
    const auto is_nan = [&](const Item<K>& item) {
      return may_have_nan && item.key == std::numeric_limits<K>::max();
    };
    const int64_t nans = std::count_if(items, items + n, is_nan), numbers_left = n - nans;
    int64_t k = (n - 1) / 2;
    if (nans > 0) k = ignores_nan && numbers_left > 0 ? (numbers_left - 1) / 2 : numbers_left;
    std::nth_element(items, items + k, items + n);
    write_positions(items + k, 1, to[i]);
  });
}

void mode_index(Views in, Integers64 numbers, const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  const int64_t n = in[0].sizes[static_cast<int>(numbers[0])];
  arrange_items(in[0], numbers[0], false, [&]<class K>(int64_t i, Item<K>* items, Item<K>*) {
    std::sort(items, items + n);
    int64_t longest = 0, last = 0;
    for (int64_t begin = 0, k = 0; k < n; ++k) {
      if (items[k].key != items[begin].key) begin = k;
      if (k - begin + 1 > longest) longest = k - begin + 1, last = k;
    }
    write_positions(items + last, 1, to[i]);
  });
}

namespace {

/// How many of the line come before v (behind equal ones if `right`); NaN comes last.
template <class T>
int64_t position_in(const Line<const T>& line, T value, bool right) {
  const auto v = load(value);
  int64_t begin = 0, end = line.size;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const auto here = load(line[middle]);
    const bool is_number = here == here;
    if (right ? v != v || (is_number && !(here > v)) : is_number && !(here >= v))
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

}  // namespace

void searchsorted(Views in, Integers64 numbers, const ir::BufferView& out) {
  const int last = out.sizes.rank() - 1;
  const bool is_one_line = in[0].sizes.rank() == 1;
  with_type<All>(in[0].dtype, [&]<class T>(Tag<T>) {
    const Lines<const T> sorted(in[0], in[0].sizes.rank() - 1), values(in[1], last);
    const Lines<int64_t> to(out, last);
    const int64_t parts = ceil_div(to.size(), kGrain);
    for_each_line(to.count() * parts, std::min(to.size(), kGrain), [&](int64_t i, int) {
      const Line<const T> line = sorted[is_one_line ? 0 : i / parts], wanted = values[i / parts];
      const Line<int64_t> places = to[i / parts];
      const int64_t begin = i % parts * kGrain;
      for (int64_t k = begin; k < std::min(begin + kGrain, places.size); ++k)
        places[k] = position_in(line, wanted[k], numbers[0] != 0);
    });
  });
}

}  // namespace tandem::machine::lines
