// Panels with AVX2 and FMA: compiled for them, so nothing here may be a function that others share.
//
// A tile of the result is 6 rows by 2 vectors: 12 sums in registers, as many as the two FMA units
// keep busy. k is cut into parts: a panel of B of one part stays in the first-level cache while the
// rows of A, which the second-level cache holds, go by. (The order of loops and panels is that of
// Goto and van de Geijn, "Anatomy of high-performance matrix multiplication".)
#include <immintrin.h>

#include <array>
#include <utility>

#include "machine/products/panels.h"

#define TANDEM_INLINE inline __attribute__((always_inline))
// (What is indexed by a loop stays in registers only if the loop is unrolled early.)
#define TANDEM_UNROLL _Pragma("GCC unroll 16")
// A core that another thread shares issues half as much: what only counts is done for four turns.
#define TANDEM_BY_FOUR _Pragma("GCC unroll 4")

namespace tandem::machine::products {
namespace {

using F = __m256;

constexpr int64_t kLanes = 8, kVectors = 2;
constexpr int64_t kRows = kTileRows, kColumns = kTileColumns;  // of a tile, and of panels at most
constexpr int64_t kDepth = 256;                                // of a part of k, at most
constexpr int64_t kWide = 1024;  // columns of B whose panels are kept for the rows that follow
constexpr int64_t kAhead = 8;    // rows that are fetched early

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Floats of a panel of A, whose rows are written four at a time, or eight numbers each.
int64_t a_panel(int64_t depth) { return up(depth, 4) * kRows + kLanes; }

/// Rows as tiles of as equal heights as can be: a tile of one or two takes as long as one of four.
struct Heights {
  explicit Heights(int64_t m) : tiles((m + kRows - 1) / kRows), low(m / tiles), higher(m % tiles) {}
  int64_t operator[](int64_t tile) const { return low + (tile < higher); }

  int64_t tiles, low, higher;  // `higher` of them have a row more
};

/// Of equal parts of k, none longer than kDepth.
int64_t depth_of(int64_t k) {
  const int64_t parts = (k + kDepth - 1) / kDepth;
  return (k + parts - 1) / parts;
}

/// The lanes below `count`.
__m256i lanes_below(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

void fetch(const float* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// --- Packing

/// Eight rows of eight become eight columns.
TANDEM_INLINE void transpose(F* x) {
  F pairs[8], fours[8];
  TANDEM_UNROLL for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
  }
  TANDEM_UNROLL for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
  TANDEM_UNROLL for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/// `rows` rows (at most eight) of `depth` elements, as `depth` groups of eight, `step` apart: of
/// rows that are not there zeros. What a group of less than eight writes too much, the next
/// overwrites.
TANDEM_INLINE void pack_across(const float* from, int64_t stride, int64_t rows, int64_t depth,
                               float* to, int64_t step) {
  for (int64_t l = 0; l < depth; l += kLanes) {
    const int64_t count = least(kLanes, depth - l);
    const __m256i there = lanes_below(count);
    F x[8];
    TANDEM_UNROLL for (int i = 0; i < 8; ++i) x[i] =
        i >= rows         ? _mm256_setzero_ps()
        : count == kLanes ? _mm256_loadu_ps(from + i * stride + l)
                          : _mm256_maskload_ps(from + i * stride + l, there);
    transpose(x);
    for (int64_t i = 0; i < count; ++i) _mm256_storeu_ps(to + (l + i) * step, x[i]);
  }
}

/// Rows [m, depth] of A in panels [depth, kRows], one for each tile.
void pack_a_rows(const Operand& a, int64_t m, int64_t depth, float* to) {
  const Heights heights(m);
  const float* from = a.data;
  for (int64_t t = 0; t < heights.tiles; ++t, to += a_panel(depth)) {
    pack_across(from, a.stride, heights[t], depth, to, kRows);
    from += heights[t] * a.stride;
  }
}

/// Four times the first six of eight, side by side.
TANDEM_INLINE void store_sixes(const F* x, float* to) {
  const __m256i first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 0, 1),
                second = _mm256_setr_epi32(2, 3, 4, 5, 0, 1, 2, 3),
                third = _mm256_setr_epi32(4, 5, 0, 1, 2, 3, 4, 5);
  const F low = _mm256_permutevar8x32_ps(x[1], second),
          high = _mm256_permutevar8x32_ps(x[2], third);
  _mm256_storeu_ps(to, _mm256_blend_ps(x[0], _mm256_permutevar8x32_ps(x[1], first), 0xC0));
  _mm256_storeu_ps(to + kLanes, _mm256_blend_ps(low, _mm256_permutevar8x32_ps(x[2], second), 0xF0));
  _mm256_storeu_ps(to + 2 * kLanes,
                   _mm256_blend_ps(high, _mm256_permutevar8x32_ps(x[3], third), 0xFC));
}

/// The same of A that is stored as [depth, m], four of its rows at a time.
void pack_a_columns(const Operand& a, int64_t m, int64_t depth, float* to) {
  const Heights heights(m);
  for (int64_t l = 0; l < depth; l += 4) {
    const float* const rows = a.data + l * a.stride;
    float* panel = to + l * kRows;
    for (int64_t t = 0, i = 0; t < heights.tiles; i += heights[t++], panel += a_panel(depth)) {
      const __m256i there = lanes_below(m - i);
      const bool whole = m - i >= kLanes;
      F x[4];
      TANDEM_UNROLL for (int r = 0; r < 4; ++r) {
        const float* const from = rows + r * a.stride + i;
        fetch(from + kAhead * a.stride);
        x[r] = l + r >= depth ? _mm256_setzero_ps()
               : whole        ? _mm256_loadu_ps(from)
                              : _mm256_maskload_ps(from, there);
      }
      store_sixes(x, panel);
    }
  }
}

/// Rows [depth, n] of B as a panel [depth, width], zeros beyond n.
void pack_b_rows(const Operand& b, int64_t n, int64_t width, int64_t depth, float* to) {
  for (int64_t l = 0; l < depth; ++l, to += width) {
    const float* const row = b.data + l * b.stride;
    for (int64_t j = 0; j < width; j += kLanes)
      _mm256_store_ps(to + j, _mm256_maskload_ps(row + j, lanes_below(n - j)));
  }
}

/// The same of B that is stored as [n, depth].
void pack_b_columns(const Operand& b, int64_t n, int64_t width, int64_t depth, float* to) {
  for (int64_t j = 0; j < width; j += kLanes)
    pack_across(b.data + j * b.stride, b.stride, least(kLanes, n - j), depth, to + j, width);
}

// --- Tiles

/// Rows of A where they lie, `stride` apart; or panels of them.
struct Rows {
  const float* data;
  int64_t stride = 0;
};

/// A panel of B; or whole rows of B, `stride` apart, and where they are packed to.
struct Panel {
  const float* data;
  int64_t stride = 0;
  float* packed = nullptr;
};

/// What products are added to: rows, `stride` apart, C's own or one bias for all; or nothing.
struct Start {
  const float* data;
  int64_t stride;
  Start at(int64_t i, int64_t j) const {
    return {data == nullptr ? nullptr : data + i * stride + j, stride};
  }
};

/// c [rows, vectors * kLanes] = `start` + the product of rows of A, or of a panel of them, and a
/// panel of B, which it packs on its way (`packs`).
template <int rows, int vectors, bool in_panel, bool packs>
void tile(const Rows& a, const Panel& b, int64_t depth, float* c, int64_t stride,
          const Start& start) {
  constexpr int64_t kWidth = vectors * kLanes;
  F sums[rows][vectors], factors[vectors];
  const float* row[rows];
  TANDEM_UNROLL for (int i = 0; i < rows; ++i) {
    row[i] = a.data + i * (in_panel ? 1 : a.stride);
    TANDEM_UNROLL for (int v = 0; v < vectors; ++v) sums[i][v] = _mm256_setzero_ps();
    fetch(c + i * stride);
    fetch(c + i * stride + kWidth - 1);
  }
  const int64_t step = packs ? b.stride : kWidth;
  const float* from = b.data;
  float* packed = b.packed;
  TANDEM_BY_FOUR for (int64_t l = 0; l < depth; ++l, from += step) {
    TANDEM_UNROLL for (int v = 0; v < vectors; ++v) factors[v] = _mm256_loadu_ps(from + v * kLanes);
    if (packs) {
      fetch(from + kAhead * step);
      TANDEM_UNROLL for (int v = 0; v < vectors; ++v)
          _mm256_store_ps(packed + v * kLanes, factors[v]);
      packed += kWidth;
    }
    TANDEM_UNROLL for (int i = 0; i < rows; ++i) {
      const F factor = _mm256_set1_ps(row[i][l * (in_panel ? kRows : 1)]);
      TANDEM_UNROLL for (int v = 0; v < vectors; ++v) sums[i][v] =
          _mm256_fmadd_ps(factor, factors[v], sums[i][v]);
    }
  }
  TANDEM_UNROLL for (int i = 0; i < rows; ++i) TANDEM_UNROLL for (int v = 0; v < vectors; ++v) {
    F sum = sums[i][v];
    if (start.data != nullptr)
      sum = _mm256_add_ps(_mm256_loadu_ps(start.data + i * start.stride + v * kLanes), sum);
    _mm256_storeu_ps(c + i * stride + v * kLanes, sum);
  }
}

using Tile = void (*)(const Rows&, const Panel&, int64_t, float*, int64_t, const Start&);

template <bool in_panel, bool packs, int... i>
constexpr std::array<Tile, sizeof...(i)> tiles_of(std::integer_sequence<int, i...>) {
  return {tile<i % kRows + 1, i / kRows + 1, in_panel, packs>...};
}
template <bool in_panel, bool packs>
constexpr auto kTiles =
    tiles_of<in_panel, packs>(std::make_integer_sequence<int, kRows * kVectors>());

/// Of `rows` rows and a panel of `width` columns.
Tile tile_of(int64_t rows, int64_t width, bool in_panel, bool packs) {
  const auto& tiles = in_panel ? (packs ? kTiles<true, true> : kTiles<true, false>)
                               : (packs ? kTiles<false, true> : kTiles<false, false>);
  return tiles[static_cast<size_t>((width / kLanes - 1) * kRows + rows - 1)];
}

/// What rows of A and a panel of B give: rows [m, columns] of C, of a panel that is `width` wide.
struct Strip {
  int64_t m, columns, width, depth;
  bool in_panels;
  float* c;
  int64_t stride;
  Start start;

  /// `next`: the rows of the panel after `b`, which are fetched meanwhile; or null.
  void run(Rows a, Panel b, const Panel& next) const {
    const Heights heights(m);
    const int64_t share = (depth + heights.tiles - 1) / heights.tiles;  // of its rows, for a tile
    for (int64_t t = 0, i = 0; t < heights.tiles; i += heights[t++]) {
      for (int64_t l = t * share; next.data != nullptr && l < least(depth, (t + 1) * share); ++l)
        _mm_prefetch(reinterpret_cast<const char*>(next.data + l * next.stride), _MM_HINT_T1);
      if (columns == width)
        tile_of(heights[t], width, in_panels, b.packed != nullptr)(a, b, depth, c + i * stride,
                                                                   stride, start.at(i, 0));
      else
        narrow(a, b, heights[t], i);
      a.data += in_panels ? a_panel(depth) : heights[t] * a.stride;
      if (b.packed != nullptr) b = {b.packed};
    }
  }

 private:
  void narrow(const Rows& a, const Panel& b, int64_t rows, int64_t row) const {
    alignas(32) float whole[kRows * kColumns];
    tile_of(rows, width, in_panels, false)(a, b, depth, whole, kColumns, {nullptr, 0});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const float sum = whole[i * kColumns + j];
        const Start from = start.at(row + i, j);
        c[(row + i) * stride + j] = from.data ? *from.data + sum : sum;
      }
  }
};

// --- Products

/// From row `row` and column `column` on.
Operand part(const Operand& x, int64_t row, int64_t column) {
  const int64_t at = x.transposed ? column * x.stride + row : row * x.stride + column;
  return {x.data + at, x.stride, x.transposed};
}

/// Rows [m, depth] of A in panels, or where they lie.
Rows rows_of(const Operand& a, int64_t m, int64_t depth, bool in_panels, float* to) {
  if (!in_panels) return {a.data, a.stride};
  (a.transposed ? pack_a_columns : pack_a_rows)(a, m, depth, to);
  return {to};
}

/// Rows [i, i + m) of the product, depth [l, l + depth) and columns [j, j + n).
struct Block {
  int64_t i, m, l, depth, j, n;
};

/// Where the panel of columns from `j` on lies in B [k, n], of which each depth is packed by
/// itself.
int64_t place_of(int64_t n, int64_t l, int64_t depth, int64_t j) {
  return l * up(n, kLanes) + j * depth;
}

void pack_b(const Operand& b, int64_t n, int64_t depth, float* to) {
  (b.transposed ? pack_b_columns : pack_b_rows)(b, n, up(n, kLanes), depth, to);
}

/// The panels of B that a block reads, if they do not come packed. The first rows pack them; if
/// rows follow, which read them again, each has a place of its own.
class PanelsOfB {
 public:
  PanelsOfB(const Product& p, const Block& x, bool kept, float* to)
      : p_(p), x_(x), apart_(kept ? x.depth : 0), to_(to) {}

  static int64_t size(int64_t n, int64_t depth, bool kept) {
    return (kept ? up(n, kLanes) : kColumns) * depth;
  }

  int64_t columns(int64_t j) const { return least(kColumns, x_.n - j); }

  /// That of column `j` of the block on.
  Panel at(int64_t j) const {
    if (const float* packed = ready(j)) return {packed};
    if (is_packed_on_the_way(j)) return {source(j).data, p_.b.stride, room(j)};
    pack_b(source(j), columns(j), x_.depth, room(j));
    return {room(j)};
  }

  /// What will be read of it; null where fetching it early does not pay.
  Panel source_of(int64_t j) const {
    if (j >= x_.n) return {nullptr};
    if (const float* packed = ready(j)) return {packed, up(columns(j), kLanes)};
    return {is_packed_on_the_way(j) ? source(j).data : nullptr, p_.b.stride};
  }

 private:
  const float* ready(int64_t j) const {
    const PackedColumns& all = p_.packed;
    if (all.data != nullptr)
      return all.data + place_of(all.columns, x_.l, x_.depth, all.first + x_.j + j);
    return x_.i > 0 ? room(j) : nullptr;
  }
  /// Whole vectors of columns are packed by the first tile that reads them.
  bool is_packed_on_the_way(int64_t j) const {
    return !p_.b.transposed && columns(j) % kLanes == 0;
  }
  Operand source(int64_t j) const { return part(p_.b, x_.l, x_.j + j); }
  float* room(int64_t j) const { return to_ + j * apart_; }

  const Product& p_;
  const Block& x_;
  int64_t apart_;  // columns of panels
  float* to_;
};

/// What the block adds to, from its first row on.
Start start_of(const Product& p, const Block& x) {
  if (p.adds || x.l > 0) return {p.c + x.i * p.c_stride, p.c_stride};
  return {p.bias, 0};
}

void multiply_block(const Product& p, const Block& x, const PanelsOfB& b, float* scratch) {
  const Operand a = part(p.a, x.i, x.l);
  const bool in_panels = a.transposed || p.n > kFewColumns;
  const Rows rows = rows_of(a, x.m, x.depth, in_panels, scratch);
  const Start start = start_of(p, x);
  for (int64_t j = 0; j < x.n; j += kColumns) {
    const Strip strip{.m = x.m,
                      .columns = b.columns(j),
                      .width = up(b.columns(j), kLanes),
                      .depth = x.depth,
                      .in_panels = in_panels,
                      .c = p.c + x.i * p.c_stride + x.j + j,
                      .stride = p.c_stride,
                      .start = start.at(0, x.j + j)};
    strip.run(rows, b.at(j), b.source_of(j + kColumns));
  }
}

/// Rows of all but the last block.
int64_t rows_of_blocks(int64_t m) {
  const int64_t blocks = (m + kBlockRows - 1) / kBlockRows;
  return up((m + blocks - 1) / blocks, kRows);
}

int64_t scratch(int64_t m, int64_t n, int64_t k) {
  const int64_t depth = depth_of(k);
  return PanelsOfB::size(least(n, kWide), depth, m > kBlockRows) +
         least(kBlockRows, up(m, kRows)) / kRows * a_panel(depth);
}

void multiply(const Product& p, float* scratch) {
  const int64_t depth = depth_of(p.k), rows = rows_of_blocks(p.m);
  const bool kept = rows < p.m;
  Block x{};
  for (x.j = 0; x.j < p.n; x.j += kWide)
    for (x.l = 0; x.l < p.k; x.l += depth)
      for (x.i = 0; x.i < p.m; x.i += rows) {
        x.n = least(kWide, p.n - x.j);
        x.depth = least(depth, p.k - x.l);
        x.m = least(rows, p.m - x.i);
        const PanelsOfB b(p, x, kept, scratch);
        multiply_block(p, x, b, scratch + PanelsOfB::size(x.n, depth, kept));
      }
}

int64_t packed_floats(int64_t n, int64_t k) { return k * up(n, kLanes); }

void pack(const Operand& b, int64_t n, int64_t k, int64_t j, float* to) {
  const int64_t most = depth_of(k);
  for (int64_t l = 0; l < k; l += most) {
    const int64_t depth = least(most, k - l);
    pack_b(part(b, l, j), least(kColumns, n - j), depth, to + place_of(n, l, depth, j));
  }
}

}  // namespace

const Panels kPanelsAvx2 = {scratch, multiply, packed_floats, pack};

}  // namespace tandem::machine::products
