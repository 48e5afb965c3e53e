// Sorts and searches. Elements become keys, unsigned numbers of the same order, beside their
// positions: so no two items are equal, every way of sorting them gives the same, and that is
// stable.
#include <algorithm>
#include <array>

#include "machine/lines/items.h"
#include "machine/lines/lines.h"
#include "machine/rounding.h"

namespace tandem::machine::lines {
namespace {

using Views = std::span<const ir::BufferView>;
using Integers64 = std::span<const int64_t>;

/// Shorter lines are sorted by comparisons.
constexpr int64_t kFewItems = 256;

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
