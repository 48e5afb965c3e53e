// Searches in sorted lines. One way leads to every place, so that nothing is to be foretold.
#include <algorithm>
#include <array>

#include "machine/lines/line.h"
#include "machine/lines/lines.h"
#include "machine/lines/ranks.h"
#include "machine/rounding.h"

namespace tandem::machine::lines {
namespace {

using Views = std::span<const ir::BufferView>;
using Integers64 = std::span<const int64_t>;

/// Searches that go on together, so that none waits for another's loads.
constexpr int kSearches = 8;

/// How many of the line come before each of `count` values, of which comes_before(element, value)
/// holds. There is one way for all: which half is searched on is computed, not jumped to. (They
/// look where std::partition_point does, so they agree with it on lines that are not sorted.)
template <int count, class T, class ComesBefore>
void search(const Line<const T>& line, const Line<const T>& values, const Line<int64_t>& places,
            ComesBefore comes_before) {
  std::array<Compute<T>, count> value;
  std::array<int64_t, count> begin{}, left;
  left.fill(line.size);
  for (int s = 0; s < count; ++s) value[static_cast<size_t>(s)] = load(values[s]);
  for (int64_t most = line.size; most > 0; most /= 2)
    TANDEM_UNROLL for (size_t s = 0; s < count; ++s) {
      const int64_t half = left[s] / 2, middle = std::min(begin[s] + half, line.size - 1);
      const bool is_behind = comes_before(load(line[middle]), value[s]) & (left[s] > 0);
      const int64_t mask = -static_cast<int64_t>(is_behind);
      begin[s] += (half + 1) & mask;
      left[s] = half - ((2 * half + 1 - left[s]) & mask);
    }
  for (int s = 0; s < count; ++s) places[s] = begin[static_cast<size_t>(s)];
}

/// A sorted line brought into ranks, which lie side by side and are compared at once. How much of
/// it is left after each step is the same for all values.
template <class T>
class RankedLine {
 public:
  /// Longer ones would be brought into ranks for too few values.
  static constexpr int64_t kMost = 1024;

  explicit RankedLine(const Line<const T>& line) : size_(static_cast<size_t>(line.size)) {
    for (int64_t i = 0; i < line.size; ++i) ranks_[static_cast<size_t>(i)] = rank_of(line[i]);
  }
  bool is_sorted() const { return std::is_sorted(ranks_.data(), ranks_.data() + size_); }

  /// How many come before each of `count` values, or (`right`) not behind it.
  template <int count, bool right>
  void search(const Line<const T>& values, const Line<int64_t>& places) const {
    std::array<Rank<T>, count> wanted;
    std::array<size_t, count> begin{};
    for (int s = 0; s < count; ++s) wanted[static_cast<size_t>(s)] = rank_of(values[s]);
    const auto comes_before = [&](size_t at, Rank<T> value) {
      return static_cast<size_t>(right ? ranks_[at] <= value : ranks_[at] < value);
    };
    for (size_t left = size_; left > 1; left -= left / 2)
      TANDEM_UNROLL for (size_t s = 0; s < count; ++s) begin[s] +=
          left / 2 & -comes_before(begin[s] + left / 2 - 1, wanted[s]);
    for (int s = 0; s < count; ++s) {
      const auto at = static_cast<size_t>(s);
      places[s] = static_cast<int64_t>(begin[at] + comes_before(begin[at], wanted[at]));
    }
  }

 private:
  size_t size_;
  std::array<Rank<T>, kMost> ranks_;
};

/// Of all values; false if the line is not sorted.
template <bool right, class T>
bool search_ranked(const Line<const T>& line, const Line<const T>& values,
                   const Line<int64_t>& places) {
  const RankedLine<T> ranked(line);
  if (!ranked.is_sorted()) return false;
  int64_t k = 0;
  for (; k + kSearches <= places.size; k += kSearches)
    ranked.template search<kSearches, right>(values.part(k, kSearches), places.part(k, kSearches));
  for (; k < places.size; ++k)
    ranked.template search<1, right>(values.part(k, 1), places.part(k, 1));
  return true;
}

template <class T, class ComesBefore>
void search_all(const Line<const T>& line, const Line<const T>& values, const Line<int64_t>& places,
                ComesBefore comes_before) {
  int64_t k = 0;
  for (; k + kSearches <= places.size; k += kSearches)
    search<kSearches>(line, values.part(k, kSearches), places.part(k, kSearches), comes_before);
  for (; k < places.size; ++k) search<1>(line, values.part(k, 1), places.part(k, 1), comes_before);
}

/// How many of the line come before each value, or (`right`) not behind it. NaN comes last.
template <bool right, class T>
void search_line(const Line<const T>& line, const Line<const T>& values,
                 const Line<int64_t>& places) {
  const bool gains = line.size > 0 && line.size <= std::min(RankedLine<T>::kMost, values.size);
  if (gains && search_ranked<right>(line, values, places)) return;
  search_all(line, values, places, [](auto v, auto value) {
    return right ? ((v == v) & !(v > value)) | (value != value) : (v == v) & !(v >= value);
  });
}

}  // namespace

void searchsorted(Views in, Integers64 numbers, const ir::BufferView& out) {
  const int last = out.sizes.rank() - 1;
  const bool is_one_line = in[0].sizes.rank() == 1, right = numbers[0] != 0;
  with_type<All>(in[0].dtype, [&]<class T>(Tag<T>) {
    const Lines<const T> sorted(in[0], in[0].sizes.rank() - 1), values(in[1], last);
    const Lines<int64_t> to(out, last);
    const int64_t parts = ceil_div(to.size(), kGrain);
    for_each_line(to.count() * parts, std::min(to.size(), kGrain), [&](int64_t i, int) {
      const Line<const T> line = sorted[is_one_line ? 0 : i / parts];
      const int64_t begin = i % parts * kGrain, count = std::min(kGrain, to.size() - begin);
      const Line<const T> wanted = values[i / parts].part(begin, count);
      const Line<int64_t> places = to[i / parts].part(begin, count);
      if (right)
        search_line<true>(line, wanted, places);
      else
        search_line<false>(line, wanted, places);
    });
  });
}

}  // namespace tandem::machine::lines
