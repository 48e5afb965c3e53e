// Reductions: rows (the reduced elements lie close together) by lanes, columns (the kept elements
// do) by tiles of columns; both in blocks whose partial results are combined as a tree, which keeps
// rounding errors small.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "machine/halves/halves.h"
#include "machine/threads/thread_pool.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

/// Dimensions of one kind (kept or reduced), outermost first, neighbours merged; in elements.
struct Dims {
  int rank = 0;
  std::array<int64_t, ir::kMaxRank> sizes{}, strides{};

  void add(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (rank > 0 && strides[rank - 1] == size * stride) {
      sizes[rank - 1] *= size;
      strides[rank - 1] = stride;
      return;
    }
    sizes[rank] = size;
    strides[rank++] = stride;
  }
  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= sizes[d];
    return n;
  }
  int64_t offset(int64_t index) const {
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
      offset += index % sizes[d] * strides[d];
      index /= sizes[d];
    }
    return offset;
  }
  int64_t innermost() const { return rank > 0 ? strides[rank - 1] : 0; }
};

struct Split {
  Dims kept, reduced;
};

/// The dims that are reduced, those of repeated elements first, the others as they lie in memory.
ir::Axes in_memory_order(ir::Axes dims, const ir::Strides& strides) {
  std::ranges::stable_sort(dims, std::greater(), [&](ir::Axis d) {
    const Dim stride = strides[static_cast<int>(d)];
    return stride == 0 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(stride);
  });
  return dims;
}

Split split_dims(const Args& a) {
  Split split;
  const BufferView& x = a.in[0];
  const auto& dims = a.axes();
  for (int d = 0; d < x.sizes.rank(); ++d)
    if (std::ranges::find(dims, d) == dims.end()) split.kept.add(x.sizes[d], x.strides[d]);
  for (const ir::Axis d : in_memory_order(dims, x.strides))
    split.reduced.add(x.sizes[static_cast<int>(d)], x.strides[static_cast<int>(d)]);
  return split;
}

/// Partial results of equal blocks, combined by pairs as they come: W results side by side.
template <class Acc, int W, class Combine>
class Tree {
 public:
  Tree(Acc identity, Combine combine) : identity_(identity), combine_(combine) {}

  void push(const std::array<Acc, W>& partial) {
    std::array<Acc, W> sum = partial;
    int level = 0;
    for (; (blocks_ >> level & 1) != 0; ++level) merge(levels_[level], sum);
    levels_[level] = sum;
    ++blocks_;
  }
  std::array<Acc, W> finish() {
    std::array<Acc, W> sum;
    sum.fill(identity_);
    for (int level = 0; level < kLevels; ++level)
      if ((blocks_ >> level & 1) != 0) merge(levels_[level], sum);
    return sum;
  }

 private:
  static constexpr int kLevels = 48;
  /// into = left combined with into.
  void merge(const std::array<Acc, W>& left, std::array<Acc, W>& into) {
    for (int j = 0; j < W; ++j) into[j] = combine_(left[j], into[j]);
  }
  Acc identity_;
  Combine combine_;
  std::array<std::array<Acc, W>, kLevels> levels_;
  uint64_t blocks_ = 0;
};

constexpr int kLanes = 32;
constexpr int64_t kBlock = 1024;
constexpr int64_t kSubtree = 32;  // blocks, a power of two
constexpr int kTile = 32;
constexpr int64_t kRows = 128;

template <class Acc>
using Lanes = std::array<Acc, kLanes>;

template <class Acc>
struct VectorType {
  using Element = std::conditional_t<std::is_integral_v<Acc>, uint64_t, Acc>;  // overflow wraps
  static_assert(sizeof(Element) == sizeof(Acc));
  using type [[gnu::vector_size(16)]] = Element;
};
template <class Acc>
using VectorOf = typename VectorType<Acc>::type;

/// Takes runs of kLanes elements, `step` apart, into lanes that stay in registers.
template <class Acc, class Combine>
void take_vectors(const Acc* x, int64_t runs, int64_t step, Acc* lanes, Combine combine) {
  using Vector = VectorOf<Acc>;
  constexpr int kWidth = 16 / sizeof(Acc), kVectors = kLanes / kWidth;
  Vector held[kVectors];
  std::memcpy(held, lanes, sizeof held);
  for (int64_t i = 0; i < runs; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Vector elements;
      std::memcpy(&elements, x + i * step + v * kWidth, sizeof elements);
      held[v] = combine(held[v], elements);
    }
  }
  std::memcpy(lanes, held, sizeof held);
}

/// The lanes combined by halves: by whole vectors as long as there are several.
template <class Acc, class Combine>
Acc combine_lanes(Lanes<Acc>& lanes, Combine combine) {
  int width = kLanes / 2;
  if constexpr (Combine::kTakesVectors) {
    using Vector = VectorOf<Acc>;
    constexpr int kWidth = sizeof(Vector) / sizeof(Acc);
    Vector held[kLanes / kWidth];
    std::memcpy(held, lanes.data(), sizeof held);
#pragma GCC unroll 8
    for (int vectors = kLanes / kWidth / 2; vectors >= 1; vectors /= 2)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) held[v] = combine(held[v], held[v + vectors]);
    std::memcpy(lanes.data(), held, sizeof(Vector));
    width = kWidth / 2;
  }
  for (; width >= 1; width /= 2)
    for (int j = 0; j < width; ++j) lanes[j] = combine(lanes[j], lanes[j + width]);
  return lanes[0];
}

/// Of up to kBlock elements.
template <class T, class Acc, class Combine>
Acc reduce_run(const T* x, int64_t n, int64_t stride, Acc identity, Combine combine) {
  if constexpr (is_half<T>) {
    if (stride == 1 && n >= kLanes) {
      float wide[kBlock];
      machine::widen(x, n, wide);
      return reduce_run(wide, n, 1, identity, combine);
    }
  }
  Lanes<Acc> lanes;
  lanes.fill(identity);
  int64_t i = 0;
  if constexpr (std::is_same_v<T, Acc> && Combine::kTakesVectors) {
    if (stride == 1) {
      take_vectors(x, n / kLanes, kLanes, lanes.data(), combine);
      i = n / kLanes * kLanes;
    }
  } else if (stride == 1) {
    for (; i + kLanes <= n; i += kLanes)
      for (int j = 0; j < kLanes; ++j)
        lanes[j] = combine(lanes[j], static_cast<Acc>(load(x[i + j])));
  }
  for (; i < n; ++i)
    lanes[i % kLanes] = combine(lanes[i % kLanes], static_cast<Acc>(load(x[i * stride])));
  return combine_lanes(lanes, combine);
}

/// Runs fn over [0, units) of `elements` each, in parallel if that is much.
template <class F>
void for_units(int64_t units, int64_t elements, F fn) {
  const int64_t grain = std::max<int64_t>(kParallelElements / std::max<int64_t>(elements, 1), 1);
  machine::parallel_for(units, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  });
}

/// What `blocks` blocks of `elements` each come to, W results side by side; block(b): of one.
/// Threads take subtrees of many, which is why their number changes no bit.
template <int W, class Acc, class Combine, class Block>
std::array<Acc, W> combine_blocks(int64_t blocks, int64_t elements, Acc identity, Combine combine,
                                  Block block) {
  const auto subtree = [&](int64_t begin, int64_t end) {
    Tree<Acc, W, Combine> tree(identity, combine);
    for (int64_t b = begin; b < end; ++b) tree.push(block(b));
    return tree.finish();
  };
  const int64_t subtrees = (blocks + kSubtree - 1) / kSubtree;
  if (subtrees <= 1) return subtree(0, blocks);
  const auto partials = std::make_unique<std::array<Acc, W>[]>(static_cast<size_t>(subtrees));
  for_units(subtrees, kSubtree * elements, [&](int64_t i) {
    partials[static_cast<size_t>(i)] = subtree(i * kSubtree, std::min(blocks, (i + 1) * kSubtree));
  });
  Tree<Acc, W, Combine> tree(identity, combine);
  for (int64_t i = 0; i < subtrees; ++i) tree.push(partials[static_cast<size_t>(i)]);
  return tree.finish();
}

/// Blocks of a row: of each run along the innermost reduced dimension, one after the other.
struct RowBlocks {
  int64_t run, stride, in_run, count;

  explicit RowBlocks(const Dims& reduced)
      : run(reduced.rank > 0 ? reduced.sizes[reduced.rank - 1] : 1),
        stride(reduced.innermost()),
        in_run((run + kBlock - 1) / kBlock),
        count(run == 0 ? 0 : reduced.count() / run * in_run) {}
};

/// One result: all reduced elements from `x` on.
template <class T, class Acc, class Combine>
Acc reduce_row(const T* x, const Dims& reduced, Acc identity, Combine combine) {
  const RowBlocks blocks(reduced);
  return combine_blocks<1>(blocks.count, kBlock, identity, combine, [&](int64_t b) {
    const int64_t i = b % blocks.in_run * kBlock;
    const T* from = x + reduced.offset(b / blocks.in_run * blocks.run) + i * blocks.stride;
    return std::array{
        reduce_run(from, std::min(kBlock, blocks.run - i), blocks.stride, identity, combine)};
  })[0];
}

/// Rows of so few columns are combined by several, side by side as they lie.
constexpr int64_t kFewColumns = 16;

/// How many: a power of two, which together fill lanes without a rest.
int64_t rows_together(int64_t columns) { return kLanes / std::gcd(int64_t{kLanes}, columns); }

/// Up to kRows rows without gaps, of at most kFewColumns: rows that are rows_together apart first.
template <class T, class Acc, class Combine>
std::array<Acc, kTile> reduce_narrow_rows(const T* x, int64_t rows, int64_t columns, Acc identity,
                                          Combine combine) {
  if constexpr (is_half<T>) {
    float wide[kRows * kFewColumns];
    machine::widen(x, rows * columns, wide);
    return reduce_narrow_rows(wide, rows, columns, identity, combine);
  }
  std::array<Acc, kLanes * kFewColumns> sums;
  const int64_t width = rows_together(columns) * columns;
  std::fill_n(sums.begin(), width, identity);
  const T* const end = x + rows * columns;
  if constexpr (std::is_same_v<T, Acc> && Combine::kTakesVectors) {
    const int64_t runs = (end - x) / width;
    for (int64_t j = 0; j < width; j += kLanes)
      take_vectors(x + j, runs, width, sums.data() + j, combine);
    x += runs * width;
  }
  for (; x < end; x += width)
    for (int64_t j = 0, n = std::min(width, end - x); j < n; ++j)
      sums[j] = combine(sums[j], static_cast<Acc>(load(x[j])));
  for (int64_t left = width / 2; left >= columns; left /= 2)
    for (int64_t j = 0; j < left; ++j) sums[j] = combine(sums[j], sums[j + left]);
  std::array<Acc, kTile> row;
  row.fill(identity);
  std::copy_n(sums.begin(), columns, row.begin());
  return row;
}

/// Up to kTile neighbouring results: those of `columns` kept elements, `stride` apart from `x` on.
template <class T>
struct Tile {
  const T* x;
  int64_t columns, stride;
  const Dims& reduced;

  int64_t rows() const { return reduced.count(); }
  int64_t blocks() const { return (rows() + kRows - 1) / kRows; }
  /// Whether there are many rows, one after the other.
  bool is_narrow() const {
    return rows() > kRows && columns <= kFewColumns && (stride == 1 || columns == 1) &&
           reduced.rank == 1 && reduced.strides[0] == columns;
  }
};

/// Of a block of rows.
template <class T, class Acc, class Combine>
std::array<Acc, kTile> reduce_block(const Tile<T>& tile, int64_t block, Acc identity,
                                    Combine combine) {
  const int64_t begin = block * kRows, end = std::min(tile.rows(), begin + kRows);
  if (tile.is_narrow())
    return reduce_narrow_rows(tile.x + begin * tile.columns, end - begin, tile.columns, identity,
                              combine);
  std::array<Acc, kTile> sum;
  sum.fill(identity);
  for (int64_t i = begin; i < end; ++i) {
    const T* row = tile.x + tile.reduced.offset(i);
    if (tile.stride == 1 && tile.columns == kTile) {
      for (int j = 0; j < kTile; ++j) sum[j] = combine(sum[j], static_cast<Acc>(load(row[j])));
    } else {
      for (int64_t j = 0; j < tile.columns; ++j)
        sum[j] = combine(sum[j], static_cast<Acc>(load(row[j * tile.stride])));
    }
  }
  return sum;
}

template <class T, class Acc, class Combine>
std::array<Acc, kTile> reduce_tile(const Tile<T>& tile, Acc identity, Combine combine) {
  return combine_blocks<kTile>(tile.blocks(), kRows * tile.columns, identity, combine,
                               [&](int64_t b) { return reduce_block(tile, b, identity, combine); });
}

template <class R, class T, class Acc, class Combine>
void reduce(const Args& a, Acc identity, Combine combine) {
  const Split split = split_dims(a);
  const auto* x = static_cast<const T*>(a.in[0].data);
  auto* out = static_cast<R*>(a.out.data);
  const int64_t results = ir::numel(a.out.sizes), count = split.reduced.count();
  const auto finish = [](Acc v) {
    if constexpr (is_half<R>)
      return store<R>(v);
    else
      return static_cast<R>(v);
  };
  const bool columns = split.kept.rank > 0 && (split.reduced.rank == 0 ||
                                               split.kept.innermost() < split.reduced.innermost());
  const auto row = [&](int64_t i) {
    out[i] = finish(reduce_row(x + split.kept.offset(i), split.reduced, identity, combine));
  };
  if (!columns && results == 1) return row(0);
  if (!columns) return for_units(results, count, row);
  const int64_t width = split.kept.sizes[split.kept.rank - 1];
  const int64_t tiles = (width + kTile - 1) / kTile;
  const int64_t units = results / std::max<int64_t>(width, 1) * tiles;
  const auto unit = [&](int64_t i) {
    const int64_t start = i % tiles * kTile, first = i / tiles * width + start;
    const Tile<T> tile{x + split.kept.offset(first), std::min<int64_t>(kTile, width - start),
                       split.kept.innermost(), split.reduced};
    const auto sums = reduce_tile(tile, identity, combine);
    for (int64_t j = 0; j < tile.columns; ++j) out[first + j] = finish(sums[j]);
  };
  if (units == 1) return unit(0);
  for_units(units, count * kTile, unit);
}

/// How two are combined. What takes vectors does the same to each of their lanes.
struct Add {
  static constexpr bool kTakesVectors = true;
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
    else
      return x + y;
  }
};
struct Multiply {
  static constexpr bool kTakesVectors = true;
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
    else
      return x * y;
  }
};
struct Maximum {
  static constexpr bool kTakesVectors = false;
  template <class T>
  T operator()(T x, T y) const {
    return maximum_of(x, y);
  }
};
struct Minimum {
  static constexpr bool kTakesVectors = false;
  template <class T>
  T operator()(T x, T y) const {
    return minimum_of(x, y);
  }
};
struct Or {
  static constexpr bool kTakesVectors = false;
  bool operator()(bool x, bool y) const { return x || y; }
};
struct And {
  static constexpr bool kTakesVectors = false;
  bool operator()(bool x, bool y) const { return x && y; }
};

/// Sums and products: floats in their own precision (halves in f32), the rest in i64.
template <class F>
void accumulate(const Args& a, int identity, F combine) {
  with_type<All>(a.in[0].dtype, [&]<class T>(Tag<T>) {
    if constexpr (std::is_integral_v<T>)
      reduce<int64_t, T>(a, int64_t{identity}, combine);
    else
      reduce<T, T>(a, static_cast<Compute<T>>(identity), combine);
  });
}

template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}
template <class T>
constexpr T highest() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::max();
}

/// The position of the first best element along one dimension; NaN is better than anything.
template <class F>
void position(const Args& a, F better) {
  const BufferView& x = a.in[0];
  const int dim = static_cast<int>(a.axes()[0]);
  const int64_t n = x.sizes[dim], stride = x.strides[dim];
  Dims kept;
  for (int d = 0; d < x.sizes.rank(); ++d)
    if (d != dim) kept.add(x.sizes[d], x.strides[d]);
  auto* out = static_cast<int64_t*>(a.out.data);
  with_type<All>(x.dtype, [&]<class T>(Tag<T>) {
    for_units(ir::numel(a.out.sizes), n, [&](int64_t i) {
      const T* from = static_cast<const T*>(x.data) + kept.offset(i);
      int64_t best = 0;
      auto best_value = load(from[0]);
      for (int64_t j = 1; j < n && best_value == best_value; ++j) {
        const auto v = load(from[j * stride]);
        if (!(better(v, best_value) || v != v)) continue;
        best = j;
        best_value = v;
      }
      out[i] = best;
    });
  });
}

}  // namespace

void sum(const Args& a) { accumulate(a, 0, Add()); }
void prod(const Args& a) { accumulate(a, 1, Multiply()); }
void amax(const Args& a) {
  with_type<All>(a.in[0].dtype,
                 [&]<class T>(Tag<T>) { reduce<T, T>(a, lowest<Compute<T>>(), Maximum()); });
}
void amin(const Args& a) {
  with_type<All>(a.in[0].dtype,
                 [&]<class T>(Tag<T>) { reduce<T, T>(a, highest<Compute<T>>(), Minimum()); });
}
void any(const Args& a) { reduce<bool, bool>(a, false, Or()); }
void all(const Args& a) { reduce<bool, bool>(a, true, And()); }
void argmax(const Args& a) {
  position(a, [](auto x, auto y) { return x > y; });
}
void argmin(const Args& a) {
  position(a, [](auto x, auto y) { return x < y; });
}

}  // namespace tandem::runtime::eager::kernels
