// Products of bf16 matrices with AVX512_BF16: compiled for it, so nothing here may be a function
// that others share.
//
// An instruction multiplies pairs of neighbours along k and adds both products to an f32. So B is
// brought into panels of pairs, 16 columns a vector; pairs of A lie side by side in its rows, from
// which they are broadcast, or are brought together where A is stored by columns.
#include <utility>

#include "machine/products/bf16/tiles.h"
#include "machine/unroll.h"
#include "machine/vectors/avx512.inc"

namespace tandem::machine::products {
namespace {

constexpr int kRows = 6, kVectors = 4;
constexpr int64_t kColumns = kVectors * kLanes, kDepth = 1024;
constexpr int64_t kHalves = 2 * kLanes;   // of a vector
constexpr int64_t kAhead = 16 * kHalves;  // in a row that is read once

using Pairs = __m512i;  // bf16

TANDEM_INLINE F add_products(F sums, Pairs a, Pairs b) {
  return _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

TANDEM_INLINE __mmask32 first_halves(int64_t count) {
  return count >= kHalves ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

TANDEM_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

TANDEM_INLINE int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// --- where sums come from and go to

/// What is added to what, where a part of k is multiplied.
struct Target {
  const float* before;    // sums of the parts of k before this one; null for none
  int64_t before_stride;  // between their rows
  float* sums;            // null: C is rounded from them
  uint16_t* c;
  int64_t stride;  // of either
  bool adds;       // to C
};

/// Of up to 16 neighbours.
TANDEM_INLINE F sums_before(const Target& t, int64_t row, int64_t column, int64_t columns) {
  return t.before ? load_below(t.before + row * t.before_stride + column, columns) : zero();
}

TANDEM_INLINE F widened(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

TANDEM_INLINE void put(const Target& t, int64_t row, int64_t column, int64_t columns, F sums) {
  const int64_t place = row * t.stride + column;
  if (t.sums) return store_below(t.sums + place, columns, sums);
  uint16_t* const c = t.c + place;
  const __mmask16 there = first_lanes(columns);
  if (t.adds) sums = add(widened(_mm256_maskz_loadu_epi16(there, c)), sums);
  const auto halves = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sums));
  if (columns >= kLanes)  // (A store with a mask takes longer.)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(c), halves);
  else
    _mm256_mask_storeu_epi16(c, there, halves);
}

// --- panels

/// Two rows of 32 elements as pairs.
struct PairedRows {
  Pairs first, second;  // of 16 columns each
};

TANDEM_INLINE PairedRows paired(Pairs row, Pairs next) {
  alignas(64) static constexpr int16_t kOrder[] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                   37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                   11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const Pairs order = _mm512_load_si512(kOrder),
              later = _mm512_add_epi16(order, _mm512_set1_epi16(kLanes));
  return {_mm512_permutex2var_epi16(row, order, next), _mm512_permutex2var_epi16(row, later, next)};
}

/// Rows [first, first + depth) of `x`, which lie in memory, up to 32 columns from `column` on:
/// pairs `step` vectors apart. What is not there is zero.
void pack_rows(const Bf16Operand& x, int64_t first, int64_t depth, int64_t column, int64_t columns,
               int64_t step, Pairs* to) {
  const __mmask32 there = first_halves(columns);
  const uint16_t* row = x.data + first * x.stride + column;
  for (int64_t l = 0; l < depth; l += 2, row += 2 * x.stride, to += step) {
    const Pairs next =
        l + 1 < depth ? _mm512_maskz_loadu_epi16(there, row + x.stride) : _mm512_setzero_si512();
    const PairedRows pairs = paired(_mm512_maskz_loadu_epi16(there, row), next);
    _mm512_store_si512(to, pairs.first);
    if (columns > kLanes) _mm512_store_si512(to + 1, pairs.second);
  }
}

/// Up to 16 columns, which lie in memory: 16 pairs of each are transposed at a time.
template <bool all>
void pack_sixteen(const uint16_t* from, int64_t stride, int64_t depth, int64_t columns,
                  int64_t step, Pairs* to) {
  for (int64_t l = 0; l < depth; l += kHalves, from += kHalves, to += kLanes * step) {
    F block[kLanes];
    const __mmask32 there = first_halves(depth - l);
    TANDEM_UNROLL for (int j = 0; j < kLanes; ++j) {
      const uint16_t* const at = from + (all ? j : least(j, columns - 1)) * stride;
      block[j] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(there, at));
      _mm_prefetch(reinterpret_cast<const char*>(at + 4 * kHalves), _MM_HINT_T0);
    }
    transpose(block);
    const int64_t pairs = least((depth - l + 1) / 2, kLanes);
    if (pairs == kLanes) {
      TANDEM_UNROLL for (int i = 0; i < kLanes; ++i)
          _mm512_store_si512(to + i * step, _mm512_castps_si512(block[i]));
    } else {
      for (int64_t i = 0; i < pairs; ++i)
        _mm512_store_si512(to + i * step, _mm512_castps_si512(block[i]));
    }
  }
}

/// As pack_rows, where columns lie in memory.
void pack_columns(const Bf16Operand& x, int64_t first, int64_t depth, int64_t column,
                  int64_t columns, int64_t step, Pairs* to) {
  for (int64_t j = 0; j < columns; j += kLanes, ++to) {
    const uint16_t* const from = x.data + (column + j) * x.stride + first;
    const int64_t left = least(columns - j, kLanes);
    (left == kLanes ? pack_sixteen<true> : pack_sixteen<false>)(from, x.stride, depth, left, step,
                                                                to);
  }
}

/// Columns [column, column + columns) of rows [first, first + depth), in vectors of 16.
void pack(const Bf16Operand& x, int64_t first, int64_t depth, int64_t column, int64_t columns,
          Pairs* to) {
  const int64_t step = rounded_up(columns, kLanes) / kLanes;
  for (int64_t j = 0; j < columns; j += kHalves, to += kHalves / kLanes)
    (x.transposed ? pack_columns : pack_rows)(x, first, depth, column + j,
                                              least(columns - j, kHalves), step, to);
}

// --- tiles

/// Pairs of some rows of A: of row i and pair l at `data` + i * row + l * pair bytes. `last` has
/// one more of each row, where they are in memory only in part.
struct Rows {
  const char* data;
  int64_t row, pair, pairs;
  const uint32_t* last;
};

TANDEM_INLINE Pairs spread(const void* pair) {
  int32_t bits;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

template <int rows, int vectors>
TANDEM_INLINE void add_pair(const Pairs* b, const char* a, int64_t row, F (&sums)[rows][vectors]) {
  Pairs columns[vectors];
  TANDEM_UNROLL for (int v = 0; v < vectors; ++v) columns[v] = _mm512_load_si512(b + v);
  TANDEM_UNROLL for (int i = 0; i < rows; ++i) {
    const Pairs factor = spread(a + i * row);
    TANDEM_UNROLL for (int v = 0; v < vectors; ++v) sums[i][v] =
        add_products(sums[i][v], columns[v], factor);
  }
}

/// `rows` rows from `i` on, by a panel of `columns` columns from `j` on.
template <int rows, int vectors>
void tile(const Target& to, const Rows& a, const Pairs* b, int64_t i, int64_t j, int64_t columns) {
  const auto left = [&](int v) { return columns - v * kLanes; };
  F sums[rows][vectors];
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) TANDEM_UNROLL for (int v = 0; v < vectors; ++v)
      sums[r][v] = sums_before(to, i + r, j + v * kLanes, left(v));
  const char* from = a.data;
  TANDEM_BY_FOUR for (int64_t l = 0; l < a.pairs; ++l, from += a.pair, b += vectors)
      add_pair(b, from, a.row, sums);
  if (a.last) add_pair(b, reinterpret_cast<const char*>(a.last), sizeof(uint32_t), sums);
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) TANDEM_UNROLL for (int v = 0; v < vectors; ++v)
      put(to, i + r, j + v * kLanes, left(v), sums[r][v]);
}

using Tile = void (*)(const Target&, const Rows&, const Pairs*, int64_t, int64_t, int64_t);

template <int... shapes>
Tile tile_of(int64_t rows, int64_t vectors, std::integer_sequence<int, shapes...>) {
  static constexpr Tile kTiles[] = {&tile<shapes / kVectors + 1, shapes % kVectors + 1>...};
  return kTiles[(rows - 1) * kVectors + vectors - 1];
}

// --- a product

/// The parts of working memory.
struct Memory {
  Pairs* a;     // pairs of columns of A, [pairs, m] (rounded up to vectors)
  Pairs* b;     // a panel of B
  float* sums;  // [m, n], where k has several parts
};

int64_t vectors_of_a(int64_t m, int64_t k) {
  return rounded_up(m, kLanes) / kLanes * ((least(k, kDepth) + 1) / 2);
}
int64_t vectors_of_b(int64_t k) { return kVectors * ((least(k, kDepth) + 1) / 2); }

int64_t scratch(int64_t m, int64_t n, int64_t k) {
  return (vectors_of_a(m, k) + vectors_of_b(k)) * kLanes + (k > kDepth ? m * n : 0);
}

Memory memory_in(float* scratch, const Bf16Product& p) {
  auto* const vectors = reinterpret_cast<Pairs*>(scratch);
  Pairs* const b = vectors + vectors_of_a(p.m, p.k);
  return {vectors, b, reinterpret_cast<float*>(b + vectors_of_b(p.k))};
}

/// Of rows from `i` on, of part [first, first + depth) of k.
Rows rows_at(const Bf16Product& p, const Memory& memory, int64_t first, int64_t depth, int64_t i,
             int64_t rows, uint32_t* last) {
  if (p.a.transposed) {
    const auto* const packed = reinterpret_cast<const uint32_t*>(memory.a);
    const int64_t step = rounded_up(p.m, kLanes);
    return {reinterpret_cast<const char*>(packed + i), sizeof(uint32_t),
            static_cast<int64_t>(step * sizeof(uint32_t)), (depth + 1) / 2, nullptr};
  }
  const uint16_t* const from = p.a.at(i, first);
  const bool is_odd = depth % 2 == 1;
  for (int64_t r = 0; is_odd && r < rows; ++r) last[r] = from[r * p.a.stride + depth - 1];
  return {reinterpret_cast<const char*>(from), p.a.stride * 2, sizeof(uint32_t), depth / 2,
          is_odd ? last : nullptr};
}

/// A part [first, first + depth) of k.
struct Part {
  int64_t first, depth;
  Target to;
};

/// Rows of A by columns [j, j + columns), which are packed.
void multiply_panel(const Bf16Product& p, const Part& part, const Memory& memory, int64_t j,
                    int64_t columns) {
  const int64_t vectors = rounded_up(columns, kLanes) / kLanes;
  for (int64_t i = 0; i < p.m; i += kRows) {
    const int64_t rows = least(p.m - i, kRows);
    uint32_t last[kRows];
    const Rows a = rows_at(p, memory, part.first, part.depth, i, rows, last);
    const Tile multiply =
        tile_of(rows, vectors, std::make_integer_sequence<int, kRows * kVectors>{});
    multiply(part.to, a, memory.b, i, j, columns);
  }
}

void multiply_part(const Bf16Product& p, const Part& part, const Memory& memory) {
  if (p.a.transposed) {
    const Bf16Operand by_rows{p.a.data, p.a.stride, false};  // [k, m]
    pack(by_rows, part.first, part.depth, 0, p.m, memory.a);
  }
  for (int64_t j = 0; j < p.n; j += kColumns) {
    const int64_t columns = least(p.n - j, kColumns);
    pack(p.b, part.first, part.depth, j, columns, memory.b);
    multiply_panel(p, part, memory, j, columns);
  }
}

void multiply(const Bf16Product& p, float* scratch) {
  const Memory memory = memory_in(scratch, p);
  for (int64_t first = 0; first < p.k; first += kDepth) {
    const int64_t depth = least(p.k - first, kDepth);
    const bool is_last = first + depth == p.k;
    const Target to{.before = first > 0 ? memory.sums : nullptr,
                    .before_stride = p.n,
                    .sums = is_last ? p.sums : memory.sums,
                    .c = p.c,
                    .stride = is_last ? p.c_stride : p.n,
                    .adds = p.adds};
    multiply_part(p, {first, depth, to}, memory);
  }
}

// --- few rows

constexpr int kColumnsTogether = 4;

/// Rows [i, i + rows) by `columns` columns from `j` on, all of which lie along k.
template <int rows>
void dots(const Bf16Product& p, const Target& to, int64_t i, int64_t j, int64_t columns) {
  const uint16_t *a[rows], *b[kColumnsTogether];
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) a[r] = p.a.data + (i + r) * p.a.stride;
  TANDEM_UNROLL for (int c = 0; c < kColumnsTogether; ++c) b[c] =
      p.b.data + (j + least(c, columns - 1)) * p.b.stride;
  F sums[rows][kColumnsTogether];
  TANDEM_UNROLL for (int r = 0; r < rows; ++r)
      TANDEM_UNROLL for (int c = 0; c < kColumnsTogether; ++c) sums[r][c] = zero();
  const auto add = [&](int64_t l, __mmask32 there) {
    Pairs column[kColumnsTogether];
    TANDEM_UNROLL for (int c = 0; c < kColumnsTogether; ++c) column[c] =
        _mm512_maskz_loadu_epi16(there, b[c] + l);
    TANDEM_UNROLL for (int r = 0; r < rows; ++r) {
      const Pairs row = _mm512_maskz_loadu_epi16(there, a[r] + l);
      TANDEM_UNROLL for (int c = 0; c < kColumnsTogether; ++c) sums[r][c] =
          add_products(sums[r][c], column[c], row);
    }
  };
  int64_t l = 0;
  for (; l + kHalves <= p.k; l += kHalves) {
    TANDEM_UNROLL for (int c = 0; c < kColumnsTogether; ++c)
        _mm_prefetch(reinterpret_cast<const char*>(b[c] + l + kAhead), _MM_HINT_T0);
    add(l, ~__mmask32{0});
  }
  if (l < p.k) add(l, first_halves(p.k - l));
  TANDEM_UNROLL for (int r = 0; r < rows; ++r)
      put(to, i + r, j, columns,
          _mm512_castps128_ps512(sums_of(sums[r][0], sums[r][1], sums[r][2], sums[r][3])));
}

using Dots = decltype(&dots<1>);
constexpr Dots kDots[] = {&dots<1>, &dots<2>, &dots<3>, &dots<4>, &dots<5>, &dots<6>};

void multiply_few(const Bf16Product& p) {
  const Target to{.before = nullptr,
                  .before_stride = 0,
                  .sums = p.sums,
                  .c = p.c,
                  .stride = p.c_stride,
                  .adds = p.adds};
  for (int64_t j = 0; j < p.n; j += kColumnsTogether)
    for (int64_t i = 0; i < p.m; i += kRows)
      kDots[least(p.m - i, kRows) - 1](p, to, i, j, least(p.n - j, kColumnsTogether));
}

}  // namespace

constexpr Bf16Tiles kBf16TilesAvx512{kRows, kColumns, kDepth, scratch, multiply, multiply_few};

}  // namespace tandem::machine::products
