// The first few elements of a line. It is looked at in groups, by vectors: what is chosen lies in
// the groups whose first elements come first, and only these become items.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <tuple>

#include "machine/cpu.h"
#include "machine/lines/items.h"
#include "machine/lines/lines.h"
#include "machine/lines/selection.h"
#include "machine/rounding.h"

namespace tandem::machine::lines {
namespace {

constexpr int64_t kSmallestGroup = 8, kLargestGroup = 4096;  // elements
/// To choose among a number of groups takes as long as to look at so many times as many elements.
constexpr double kChoosing = 64;

/// The elements of a group, where `kept` of `n` are chosen: a power of two, so that to choose
/// groups takes as long as to look at those chosen. There are at least twice as many as are kept; 0
/// where they would be too small to save anything.
int64_t group_size(int64_t n, int64_t kept) {
  const double best = std::sqrt(kChoosing * static_cast<double>(n) / static_cast<double>(kept));
  int64_t size = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(best)));
  size = std::min(size, kLargestGroup);
  while (size >= kSmallestGroup && n / size < 2 * kept) size /= 2;
  return size >= kSmallestGroup ? size : 0;
}

/// The elements of a line side by side: in place, or in `room`.
template <class T>
const T* side_by_side(const Line<const T>& line, void* room) {
  if (line.stride == 1) return line.first;
  T* const to = static_cast<T*>(room);
  for (int64_t i = 0; i < line.size; ++i) to[i] = line[i];
  return to;
}

/// A choice among the elements of x [n], in groups of `size`.
template <class T, class I>
class Choice {
 public:
  Choice(const T* x, int64_t n, int64_t size, bool descending)
      : x_(x), n_(n), size_(size), descending_(descending) {}

  /// The first `kept` items in their order, in `items`. Before an element of any other group come
  /// the first elements of `kept` groups.
  void first(int64_t kept, Item<I>* items, Item<I>* groups) const {
    const int64_t count = ceil_div(n_, size_);
    fill_groups(count, groups);
    std::nth_element(groups, groups + kept - 1, groups + count);
    const Rank<T> bound = first_rank(static_cast<int64_t>(groups[kept - 1].index));
    int64_t held = 0;
    for (int64_t g = 0; g < kept; ++g)
      held += add_up_to(bound, static_cast<int64_t>(groups[g].index) * size_, items + held);
    std::nth_element(items, items + kept - 1, items + held);
    std::sort(items, items + kept);
  }

 private:
  int64_t there(int64_t begin) const { return std::min(size_, n_ - begin); }

  /// The first key of each group, with the group's number.
  void fill_groups(int64_t count, Item<I>* groups) const {
    constexpr int64_t kTogether = 64;
    const int64_t grain = std::max<int64_t>(kGrain / (kTogether * size_), 1);
    parallel_for(ceil_div(count, kTogether), grain, [&](int64_t first, int64_t last, int) {
      std::array<Rank<T>, kTogether> ranks;
      for (int64_t begin = first * kTogether; begin < std::min(last * kTogether, count);
           begin += kTogether) {
        const int64_t end = std::min(begin + kTogether, count), from = begin * size_;
        kernels_.first_of_groups(x_ + from, std::min(end * size_, n_) - from, size_, descending_,
                                 ranks.data());
        for (int64_t g = begin; g < end; ++g)
          groups[g] = item(ranks[static_cast<size_t>(g - begin)], g);
      }
    });
  }

  Rank<T> first_rank(int64_t group) const {
    Rank<T> rank;
    kernels_.first_of_groups(x_ + group * size_, there(group * size_), size_, descending_, &rank);
    return rank;
  }

  /// The items of the group at `begin` that come no later than one of rank `bound`; how many.
  int64_t add_up_to(Rank<T> bound, int64_t begin, Item<I>* items) const {
    std::array<int32_t, kLargestGroup> places;
    const T* const x = x_ + begin;
    const int64_t count = kernels_.up_to(x, there(begin), bound, descending_, places.data());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = places[static_cast<size_t>(i)];
      items[i] = item(rank_of(x[place]), begin + place);
    }
    return count;
  }

  Item<I> item(Rank<T> rank, int64_t index) const {
    return {widened<I>(key_of_rank<T>(rank, descending_)), static_cast<I>(index)};
  }

  const T* x_;
  int64_t n_, size_;
  bool descending_;
  const Selection<T>& kernels_ = std::get<Selection<T>>(selections());
};

/// Puts the first `kept` of n items in front, in their order.
template <class I>
void first_items(Item<I>* items, Item<I>* spare, int64_t kept, int64_t n) {
  if (n <= kFewItems) return sort_few(items, spare, n);
  if (kept < n) std::nth_element(items, items + kept, items + n);
  std::sort(items, items + kept);
}

}  // namespace

const Selections& selections() {
  return *for_this_processor(&kSelectionsBase, &kSelectionsAvx2, &kSelectionsAvx512);
}

void topk_indices(std::span<const ir::BufferView> in, std::span<const int64_t> numbers,
                  const ir::BufferView& out) {
  const Lines<int64_t> to(out, numbers[0]);
  const int64_t kept = numbers[1], n = in[0].sizes[static_cast<int>(numbers[0])];
  if (kept == 0) return;
  const bool descending = numbers[2] != 0;
  const int64_t size = group_size(n, kept);
  arrange_lines(
      in[0], numbers[0],
      [&]<class T, class I>(int64_t i, const Line<const T>& line, Item<I>* items, Item<I>* spare) {
        if (size > 0) {
          // (Groups take an eighth of the spare items at most.)
          const Choice<T, I> choice(side_by_side(line, spare + n / 2), n, size, descending);
          choice.first(kept, items, spare);
        } else {
          fill(line, descending, items);
          first_items(items, spare, kept, n);
        }
        write_positions(items, kept, to[i]);
      });
}

}  // namespace tandem::machine::lines
