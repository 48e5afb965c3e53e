#include "machine/memory/crossing_copies.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ir/base/inline_vector.h"
#include "machine/element.h"
#include "machine/threads/thread_pool.h"
#include "machine/unroll.h"

namespace tandem::machine {
namespace {

using ir::BufferView;

constexpr int64_t kLine = 64;         // bytes of a cache line
constexpr int64_t kFew = 8;           // elements along both dimensions that are not worth a block
constexpr int64_t kColumns = 4096;    // of a unit
constexpr int64_t kParallel = 32768;  // elements; fewer are not shared among threads
constexpr int64_t kElements = 8192;   // of a unit of few columns

/// A dimension, and how far its elements lie apart.
struct Along {
  int64_t size = 1, from = 0, to = 0;
};
using Dims = ir::InlineVector<Along, ir::kMaxRank>;

/// The dimensions of many elements by falling stride in `to`, those in one that go on where the
/// next ends in both.
Dims dims_of(const BufferView& from, const BufferView& to) {
  Dims sorted;
  for (int d = 0; d < to.sizes.rank(); ++d)
    if (to.sizes[d] != 1) sorted.push_back({to.sizes[d], from.strides[d], to.strides[d]});
  std::ranges::sort(sorted, std::greater(), [](const Along& a) { return std::abs(a.to); });
  Dims merged;
  for (const Along& inner : sorted) {
    const bool goes_on = !merged.empty() && merged.back().from == inner.from * inner.size &&
                         merged.back().to == inner.to * inner.size;
    if (!goes_on)
      merged.push_back(inner);
    else
      merged.back() = {merged.back().size * inner.size, inner.from, inner.to};
  }
  return merged;
}

// --- blocks

/// Vectors that any processor has, and as many of them.
template <class T>
struct Square {
  static constexpr int kSide = 16 / sizeof(T);
  typedef T Vector [[gnu::vector_size(16)]];  // NOLINT(modernize-use-using): GCC drops it there
  Vector row[kSide];
};

/// Elements of x and y in turns, from `kFirst` on.
template <int kFirst, class V, int... i>
[[gnu::always_inline]] inline V in_turns(V x, V y, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(x, y, (kFirst + i / 2 + i % 2 * int{sizeof...(i)})...);
}

template <class T>
[[gnu::always_inline]] inline void transpose(Square<T>& x) {
  constexpr int kSide = Square<T>::kSide;
  constexpr auto kAll = std::make_integer_sequence<int, kSide>();
  TANDEM_UNROLL for (int done = 1; done < kSide; done *= 2) {
    const Square<T> before = x;
    TANDEM_UNROLL for (int i = 0; i < kSide / 2; ++i) {
      x.row[2 * i] = in_turns<0>(before.row[i], before.row[i + kSide / 2], kAll);
      x.row[2 * i + 1] = in_turns<kSide / 2>(before.row[i], before.row[i + kSide / 2], kAll);
    }
  }
}

/// Rows, which lie side by side in y, and columns, which do in x.
template <class T>
[[gnu::always_inline]] inline void copy_square(const T* x, T* y, int64_t row_step,
                                               int64_t column_step) {
  Square<T> square;
  constexpr int kSide = Square<T>::kSide;
  TANDEM_UNROLL for (int i = 0; i < kSide; ++i)
      std::memcpy(&square.row[i], x + i * row_step, sizeof(square.row[i]));
  transpose(square);
  TANDEM_UNROLL for (int j = 0; j < kSide; ++j)
      std::memcpy(y + j * column_step, &square.row[j], sizeof(square.row[j]));
}

/// One along `few` after the other.
template <class T>
void copy_lines(const T* x, T* y, const Along& few, const Along& many) {
  for (int64_t i = 0; i < few.size; ++i)
    for (int64_t j = 0; j < many.size; ++j)
      y[i * few.to + j * many.to] = x[i * few.from + j * many.from];
}

/// Of up to a cache line of rows: squares, and what is left.
template <class T>
void copy_block(const T* x, T* y, const Along& row, const Along& column) {
  constexpr int64_t kSide = Square<T>::kSide;
  const bool in_order = row.to == 1 && column.from == 1;
  const int64_t rows = in_order ? row.size / kSide * kSide : 0,
                columns = column.size / kSide * kSide;
  for (int64_t j = 0; j < columns; j += kSide)
    for (int64_t i = 0; i < rows; i += kSide)
      copy_square(x + i * row.from + j, y + i + j * column.to, row.from, column.to);
  const Along above{rows, row.from, row.to}, below{row.size - rows, row.from, row.to};
  copy_lines(x + rows * row.from, y + rows * row.to, below, column);
  copy_lines(x + columns * column.from, y + columns * column.to,
             {column.size - columns, column.from, column.to}, above);
}

template <class T>
void copy_blocks(const T* x, T* y, const Along& row, const Along& column) {
  if (row.size < kFew) return copy_lines(x, y, row, column);
  if (column.size < kFew) return copy_lines(x, y, column, row);
  constexpr int64_t kSide = kLine / sizeof(T);
  for (int64_t i = 0; i < row.size; i += kSide)
    copy_block(x + i * row.from, y + i * row.to,
               {std::min<int64_t>(kSide, row.size - i), row.from, row.to}, column);
}

// --- units of blocks

/// Steps along a dimension that units share, a part of it each.
struct Cut {
  Along along;
  int64_t part;
  int64_t parts() const { return (along.size + part - 1) / part; }
  Along at(int64_t index) const {
    return {std::min(part, along.size - index * part), along.from, along.to};
  }
  Along step() const { return {parts(), along.from * part, along.to * part}; }
};

/// dims: `row` and `column` are not among them.
template <class T>
void copy_all(const BufferView& from, const BufferView& to, Dims dims, const Along& row,
              const Along& column) {
  constexpr int64_t kSide = kLine / sizeof(T);
  const Cut columns{column, std::min(column.size, kColumns)};
  const int64_t blocks = std::max<int64_t>(kElements / (kSide * columns.part), 1);
  const Cut rows{row, std::min(row.size, kSide * blocks)};
  dims.push_back(columns.step());
  dims.push_back(rows.step());
  int64_t units = 1;
  for (const Along& d : dims) units *= d.size;
  const int64_t grain = std::max<int64_t>(kParallel / (rows.part * columns.part), 1);
  machine::parallel_for(units, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const auto* x = static_cast<const T*>(from.data);
      auto* y = static_cast<T*>(to.data);
      int64_t rest = unit;
      for (size_t d = dims.size(); d-- > 0; rest /= dims[d].size) {
        x += rest % dims[d].size * dims[d].from;
        y += rest % dims[d].size * dims[d].to;
      }
      copy_blocks<T>(x, y, rows.at(unit % rows.parts()),
                     columns.at(unit / rows.parts() % columns.parts()));
    }
  });
}

}  // namespace

bool copy_crossing(const BufferView& from, const BufferView& to) {
  if (ir::numel(from.sizes) == 0) return false;
  Dims dims = dims_of(from, to);
  if (dims.size() < 2) return false;
  const Along row = dims.back();
  const auto side_by_side = [](const Along& d) { return std::abs(d.from) == 1; };
  const auto found = std::ranges::find_if(dims, side_by_side);
  if (found == dims.end() || std::abs(row.to) != 1 || std::abs(row.from) <= 1) return false;
  const Along column = *found;
  if (std::max(row.size, column.size) < kFew) return false;
  Dims others;
  for (size_t d = 0; d + 1 < dims.size(); ++d)
    if (&dims[d] != &*found) others.push_back(dims[d]);
  with_size(to.dtype,
            [&]<class T>(Tag<T>) { copy_all<T>(from, to, std::move(others), row, column); });
  return true;
}

}  // namespace tandem::machine
