// Elements of lines as items that sorts and selections move: keys with positions.
#ifndef TANDEM_MACHINE_LINES_ITEMS_H
#define TANDEM_MACHINE_LINES_ITEMS_H

#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "machine/lines/line.h"
#include "machine/lines/ranks.h"
#include "machine/memory/pages.h"
#include "machine/rounding.h"

namespace tandem::machine::lines {

/// Longer lines are sorted in blocks, by several threads.
inline constexpr int64_t kBlock = int64_t{1} << 16;

template <class K>
struct Item {
  K key, index;
  friend bool operator<(const Item& a, const Item& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};

/// What is largest is so in wider items too.
template <class I, class K>
I widened(K key) {
  return key == std::numeric_limits<K>::max() ? std::numeric_limits<I>::max() : I{key};
}

/// f(begin, end) for all of `n` elements of a line, a long one among threads.
template <class F>
void for_elements(int64_t n, F f) {
  if (n < 2 * kGrain) return f(0, n);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end, int) { f(begin, end); });
}

template <class T, class I>
void fill(const Line<const T>& line, bool descending, Item<I>* items) {
  for_elements(line.size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      items[i] = {widened<I>(key_of(line[i], descending)), static_cast<I>(i)};
  });
}

/// Working memory, two items for each element of a line, for each of `lines`. Throws Error
/// (out_of_memory).
template <class K>
std::unique_ptr<Item<K>[]> working_memory(int64_t size, int64_t lines) {
  const auto items = static_cast<size_t>(2 * size * lines);
  std::unique_ptr<Item<K>[]> memory(new (std::nothrow) Item<K>[items]);
  if (!memory) fail_out_of_memory("sort", items * sizeof(Item<K>));
  return memory;
}

/// How many lines that lie across memory are brought side by side at once: as many as share cache
/// lines, if the near caches hold them.
template <class T>
int64_t lines_together(const Lines<const T>& from) {
  constexpr int64_t kCacheLine = 64 / sizeof(T), kBytes = 512 * 1024;
  if (from.stride() == 1) return 1;
  const int64_t most = kBytes / (from.size() * static_cast<int64_t>(sizeof(T)));
  return std::clamp<int64_t>(std::min(most, from.count()), 1, kCacheLine);
}

/// Whether `count` lines from `begin` on lie one element from each other, in their order.
template <class T>
bool are_neighbours(const Lines<const T>& from, int64_t begin, int64_t count) {
  if (from.apart()) return count == 1 || *from.apart() == 1;
  const T* const first = from[begin].first;
  for (int64_t k = 1; k < count; ++k)
    if (from[begin + k].first != first + k) return false;
  return true;
}

/// Copies `count` lines, each one element from the one before, to rows of `to`, which are `room`
/// elements apart.
template <class T>
void bring_side_by_side(const Line<const T>& first, int64_t count, T* to, int64_t room) {
  constexpr int64_t kAhead = 16;
  for (int64_t i = 0; i < first.size; ++i) {
    const T* const across = &first[i];
    __builtin_prefetch(across + kAhead * first.stride);
    for (int64_t k = 0; k < count; ++k) to[k * room + i] = across[k];
  }
}

/// f(number of the line, the line, worker) for each line, among threads.
template <class T, class F>
void for_each_line_side_by_side(const Lines<const T>& from, F f) {
  const int64_t n = from.size(), together = lines_together(from);
  if (together == 1)
    return for_each_line(from.count(), n, [&](int64_t i, int worker) { f(i, from[i], worker); });
  const int64_t room = n + 64 / static_cast<int64_t>(sizeof(T));  // no power of two
  const auto rows =
      std::make_unique_for_overwrite<T[]>(static_cast<size_t>(room * together * num_threads()));
  for_each_line(ceil_div(from.count(), together), n * together, [&](int64_t group, int worker) {
    const int64_t begin = group * together, count = std::min(together, from.count() - begin);
    const bool neighbours = are_neighbours(from, begin, count);
    T* const to = rows.get() + room * together * worker;
    if (neighbours) bring_side_by_side(from[begin], count, to, room);
    for (int64_t k = 0; k < count; ++k)
      f(begin + k, neighbours ? Line<const T>{to + k * room, n, 1} : from[begin + k], worker);
  });
}

/// arrange(number of the line, the line, room for its items, as much to spare) for each line.
template <class K, class T, class Arrange>
void with_memory(const Lines<const T>& from, Arrange arrange) {
  const int64_t n = from.size();
  const bool is_long = n > 2 * kBlock;
  const auto memory = working_memory<K>(n, is_long || from.count() == 1 ? 1 : num_threads());
  const auto run = [&](int64_t i, const Line<const T>& line, int worker) {
    Item<K>* items = memory.get() + 2 * n * worker;
    arrange(i, line, items, items + n);
  };
  if (!is_long) return for_each_line_side_by_side(from, run);
  for (int64_t i = 0; i < from.count(); ++i) run(i, from[i], 0);
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

/// Items of so few elements are sorted without branches, which nothing could foretell.
inline constexpr int64_t kFewItems = 16;

/// How many of the items come before each of them is its place in `to`.
template <class K>
void place_few(const Item<K>* items, Item<K>* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t place = 0;
    for (int64_t j = 0; j < i; ++j) place += items[j].key <= items[i].key;
    for (int64_t j = i + 1; j < n; ++j) place += items[j].key < items[i].key;
    to[place] = items[i];
  }
}

template <class K>
void sort_few(Item<K>* items, Item<K>* spare, int64_t n) {
  std::copy_n(items, n, spare);
  place_few(spare, items, n);
}

/// Where the first `kept` items came from.
template <class K>
void write_positions(const Item<K>* items, int64_t kept, const Line<int64_t>& to) {
  for_elements(kept, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) to[k] = static_cast<int64_t>(items[k].index);
  });
}

}  // namespace tandem::machine::lines

#endif  // TANDEM_MACHINE_LINES_ITEMS_H
