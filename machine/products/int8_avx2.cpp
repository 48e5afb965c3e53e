// Products with matrices of i8, with AVX2 and FMA: compiled for them, so nothing here may be a
// function that others share.
//
// i8 times i8 goes by pairs: neighbours along k, widened to i16, are multiplied and added in one
// instruction, which no two products of i8 overflow. (That which takes bytes themselves saturates.)
// Otherwise as panels_avx2.cpp: both operands are brought into panels, in parts of k, and tiles of
// 6 rows and 2 vectors are summed in registers.
#include <cstring>

#include "machine/products/int8_fetch.inc"
#include "machine/products/int8_kernels.h"
#include "machine/products/int8_loops.inc"
#include "machine/unroll.h"
#include "machine/vectors/avx2.inc"

namespace tandem::machine::products {
namespace {

using I = __m256i;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// 16 bytes of which `count` are there, zeros behind them.
TANDEM_INLINE __m128i bytes(const int8_t* p, int64_t count) {
  if (count >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  alignas(16) int8_t whole[16] = {};
  std::memcpy(whole, p, static_cast<size_t>(count));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(whole));
}

// --- f32 times i8, of few rows

TANDEM_INLINE float sum(F x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/// 16 elements of each of some rows of x, times those of rows of weight, to sums of each pair.
template <int rows, int columns>
TANDEM_INLINE void add_products(const F (&x)[rows][2], const I (&w)[columns][2],
                                F (&sums)[rows][columns][2]) {
  TANDEM_UNROLL for (int j = 0; j < columns; ++j) TANDEM_UNROLL for (int h = 0; h < 2; ++h) {
    const F factor = _mm256_cvtepi32_ps(w[j][h]);
    TANDEM_UNROLL for (int i = 0; i < rows; ++i) sums[i][j][h] =
        _mm256_fmadd_ps(x[i][h], factor, sums[i][j][h]);
  }
}

/// Eight bytes.
TANDEM_INLINE __m128i eight(const int8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}

/// Rows of x from `i` on, with rows of weight from `j` on.
template <int rows, int columns>
void dots(const WeightProduct<float>& p, int64_t i, int64_t j) {
  F sums[rows][columns][2], x[rows][2];
  I w[columns][2];
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) TANDEM_UNROLL for (int c = 0; c < columns; ++c)
      sums[r][c][0] = sums[r][c][1] = _mm256_setzero_ps();
  const float* const from = p.x + i * p.x_stride;
  const int8_t* const weight = p.weight + j * p.weight_stride;
  int64_t l = 0;
  for (; l + 16 <= p.k; l += 16) {
    if (i == 0 && l % 64 == 0) fetch_next<columns>(weight + l, p.weight_stride);
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) {
      TANDEM_UNROLL for (int r = 0; r < rows; ++r) x[r][h] =
          _mm256_loadu_ps(from + r * p.x_stride + l + 8 * h);
      TANDEM_UNROLL for (int c = 0; c < columns; ++c) w[c][h] =
          _mm256_cvtepi8_epi32(eight(weight + c * p.weight_stride + l + 8 * h));
    }
    add_products(x, w, sums);
  }
  if (l < p.k) {
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) TANDEM_UNROLL for (int r = 0; r < rows; ++r) x[r][h] =
        _mm256_maskload_ps(from + r * p.x_stride + l + 8 * h, first_lanes(p.k - l - 8 * h));
    TANDEM_UNROLL for (int c = 0; c < columns; ++c) {
      const __m128i all = bytes(weight + c * p.weight_stride + l, p.k - l);
      w[c][0] = _mm256_cvtepi8_epi32(all);
      w[c][1] = _mm256_cvtepi8_epi32(_mm_srli_si128(all, 8));
    }
    add_products(x, w, sums);
  }
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) TANDEM_UNROLL for (int c = 0; c < columns; ++c)
      p.out[(i + r) * p.out_stride + j + c] =
      sum(_mm256_add_ps(sums[r][c][0], sums[r][c][1])) * p.scales[j + c];
}

/// All rows of x with `columns` rows of weight, which stay in the first-level cache.
template <int columns>
void weigh(const WeightProduct<float>& p, int64_t j) {
  int64_t i = 0;
  for (; p.m - i > 4 || p.m - i == 3; i += 3) dots<3, columns>(p, i, j);
  for (; p.m - i >= 2; i += 2) dots<2, columns>(p, i, j);
  if (i < p.m) dots<1, columns>(p, i, j);
}

void multiply_weight(const WeightProduct<float>& p) {
  int64_t j = 0;
  for (; p.m == 1 && j + 4 <= p.n; j += 4) dots<1, 4>(p, 0, j);
  for (; j + 2 <= p.n; j += 2) weigh<2>(p, j);
  if (j < p.n) weigh<1>(p, j);
}

// --- i8 times i8

constexpr int64_t kRows = 6, kColumns = 16;  // of a tile
constexpr int64_t kDepth = 512;              // of a part of k: a panel of B is 16 KiB
constexpr int64_t kFewIntegerRows = 8, kRowsTogether = 4;

/// Pairs along k that `depth` makes, and what a panel of A takes: a group is written as of eight.
int64_t pairs_of(int64_t depth) { return (depth + 1) / 2; }
int64_t a_panel(int64_t depth) { return pairs_of(depth) * kRows + 8; }

/// Eight rows of eight become eight columns.
TANDEM_INLINE void transpose(I* x) {
  I pairs[8], fours[8];
  TANDEM_UNROLL for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  }
  TANDEM_UNROLL for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  TANDEM_UNROLL for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20);
    x[i + 4] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31);
  }
}

void store(int32_t* p, I x) { _mm256_storeu_si256(reinterpret_cast<I*>(p), x); }
I load(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const I*>(p)); }

/// Up to eight lines along k, `stride` apart, as groups of their pairs, `step` apart; zeros for
/// lines that are not there. What a group of less than eight writes too much, the next overwrites.
void pack_along(const int8_t* from, int64_t stride, int64_t lines, int64_t depth, int32_t* to,
                int64_t step) {
  for (int64_t l = 0; l < depth; l += 16) {
    const int64_t count = least(16, depth - l);
    I x[8];
    TANDEM_UNROLL for (int i = 0; i < 8; ++i) x[i] =
        i < lines ? _mm256_cvtepi8_epi16(bytes(from + i * stride + l, count))
                  : _mm256_setzero_si256();
    transpose(x);
    for (int64_t i = 0; i < pairs_of(count); ++i) store(to + (l / 2 + i) * step, x[i]);
  }
}

/// The same of lines that lie side by side.
void pack_across(const int8_t* from, int64_t stride, int64_t lines, int64_t depth, int32_t* to,
                 int64_t step) {
  const int64_t count = least(8, lines);
  const auto row = [&](int64_t l) {
    if (l >= depth) return _mm_setzero_si128();
    if (count == 8) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + l * stride));
    return bytes(from + l * stride, count);
  };
  for (int64_t l = 0; l < depth; l += 2)
    store(to + l / 2 * step, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(row(l), row(l + 1))));
}

/// Lines [line, line + lines) of a matrix whose lines along k are its rows (`across`: columns), and
/// depth [l, l + depth).
void pack(const int8_t* data, int64_t stride, bool across, int64_t line, int64_t lines, int64_t l,
          int64_t depth, int32_t* to, int64_t step) {
  if (across)
    pack_across(data + l * stride + line, stride, lines, depth, to, step);
  else
    pack_along(data + line * stride + l, stride, lines, depth, to, step);
}

/// c [rows, columns] (+)= a panel of A times one of B.
template <int rows>
void tile(const int32_t* a, const int32_t* b, int64_t pairs, int32_t* c, int64_t stride,
          int64_t columns, bool adds) {
  I sums[rows][2];
  TANDEM_UNROLL for (int i = 0; i < rows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
  TANDEM_BY_FOUR for (int64_t l = 0; l < pairs; ++l) {
    const I low = load(b + l * kColumns), high = load(b + l * kColumns + 8);
    TANDEM_UNROLL for (int i = 0; i < rows; ++i) {
      const I factor = _mm256_set1_epi32(a[l * kRows + i]);
      sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(factor, low));
      sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(factor, high));
    }
  }
  TANDEM_UNROLL for (int i = 0; i < rows; ++i) for (int h = 0; h < 2; ++h) {
    const I there = first_lanes(columns - 8 * h);
    int32_t* const to = c + i * stride + 8 * h;
    const I before = adds ? _mm256_maskload_epi32(to, there) : _mm256_setzero_si256();
    _mm256_maskstore_epi32(to, there, _mm256_add_epi32(before, sums[i][h]));
  }
}

using Tile = void (*)(const int32_t*, const int32_t*, int64_t, int32_t*, int64_t, int64_t, bool);
constexpr Tile kTiles[] = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};

void multiply_in_panels(const IntegerProduct& p, int32_t* scratch) {
  int32_t* const panels_of_a = scratch + kColumns * pairs_of(kDepth);
  for (int64_t l = 0; l < p.k; l += kDepth) {
    const int64_t depth = least(kDepth, p.k - l), pairs = pairs_of(depth);
    for (int64_t i = 0; i < p.m; i += kRows)
      pack(p.a.data, p.a.stride, p.a.transposed, i, least(kRows, p.m - i), l, depth,
           panels_of_a + i / kRows * a_panel(depth), kRows);
    for (int64_t j = 0; j < p.n; j += kColumns) {
      const int64_t columns = least(kColumns, p.n - j);
      for (int64_t h = 0; h < kColumns; h += 8)
        if (h < columns)
          pack(p.b.data, p.b.stride, !p.b.transposed, j + h, least(8, columns - h), l, depth,
               scratch + h, kColumns);
      for (int64_t i = 0; i < p.m; i += kRows)
        kTiles[least(kRows, p.m - i) - 1](panels_of_a + i / kRows * a_panel(depth), scratch, pairs,
                                          p.out + i * p.out_stride + j, p.out_stride, columns,
                                          l > 0);
    }
  }
}

/// 16 elements of each of some rows of a, times those of lines of b.
template <int rows, int columns>
TANDEM_INLINE void add_integer_products(const int16_t* a, int64_t row, const I (&b)[columns],
                                        I (&sums)[rows][columns]) {
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) {
    const I x = _mm256_loadu_si256(reinterpret_cast<const I*>(a + r * row));
    TANDEM_UNROLL for (int c = 0; c < columns; ++c) sums[r][c] =
        _mm256_add_epi32(sums[r][c], _mm256_madd_epi16(x, b[c]));
  }
}

TANDEM_INLINE int32_t integer_sum(I x) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

/// Rows of a as i16, `row` elements apart, with lines of b from `j` on.
template <int rows, int columns>
void integer_dots(const IntegerProduct& p, const int16_t* a, int64_t row, int64_t j) {
  I sums[rows][columns], w[columns];
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) TANDEM_UNROLL for (int c = 0; c < columns; ++c)
      sums[r][c] = _mm256_setzero_si256();
  const int8_t* const b = p.b.data + j * p.b.stride;
  int64_t l = 0;
  for (; l + 16 <= p.k; l += 16) {
    if (l % 64 == 0) fetch_next<columns>(b + l, p.b.stride);
    TANDEM_UNROLL for (int c = 0; c < columns; ++c) w[c] = _mm256_cvtepi8_epi16(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + c * p.b.stride + l)));
    add_integer_products(a + l, row, w, sums);
  }
  if (l < p.k) {
    TANDEM_UNROLL for (int c = 0; c < columns; ++c) w[c] =
        _mm256_cvtepi8_epi16(bytes(b + c * p.b.stride + l, p.k - l));
    add_integer_products(a + l, row, w, sums);
  }
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) TANDEM_UNROLL for (int c = 0; c < columns; ++c)
      p.out[r * p.out_stride + j + c] = integer_sum(sums[r][c]);
}

template <int rows>
void multiply_few(const IntegerProduct& p, const int16_t* a, int64_t row) {
  constexpr int kTogether = rows == 1 ? 4 : 2;
  int64_t j = 0;
  for (; j + kTogether <= p.n; j += kTogether) integer_dots<rows, kTogether>(p, a, row, j);
  for (; j < p.n; ++j) integer_dots<rows, 1>(p, a, row, j);
}

using Few = void (*)(const IntegerProduct&, const int16_t*, int64_t);
constexpr Few kFew[] = {multiply_few<1>, multiply_few<2>, multiply_few<3>, multiply_few<4>};

/// Few rows, of a b whose lines along k are read where they lie.
bool is_few(const IntegerProduct& p) { return p.b.transposed && p.m <= kFewIntegerRows; }

int64_t integer_scratch(int64_t m, int64_t /*n*/, int64_t k) {
  const int64_t few = kFewIntegerRows * up(k, 16) / 2;
  const int64_t panels = kColumns * pairs_of(kDepth) + (m + kRows - 1) / kRows * a_panel(kDepth);
  return few > panels ? few : panels;
}

/// Row `i` of a [.., k] as i16, zeros up to `length`.
void widen_line(const Bytes& a, int64_t i, int64_t k, int64_t length, int16_t* to) {
  const int8_t* const from = a.data + i * (a.transposed ? 1 : a.stride);
  const int64_t step = a.transposed ? a.stride : 1;
  if (step == 1)
    for (int64_t l = 0; l < k; ++l) to[l] = from[l];
  else
    for (int64_t l = 0; l < k; ++l) to[l] = from[l * step];
  for (int64_t l = k; l < length; ++l) to[l] = 0;
}

void multiply_integers(const IntegerProduct& p, int32_t* scratch) {
  if (!is_few(p)) return multiply_in_panels(p, scratch);
  auto* const wide = reinterpret_cast<int16_t*>(scratch);
  const int64_t row = up(p.k, 16);
  for (int64_t i = 0; i < p.m; ++i) widen_line(p.a, i, p.k, row, wide + i * row);
  for (int64_t i = 0; i < p.m; i += kRowsTogether) {
    IntegerProduct some = p;
    some.out += i * p.out_stride;
    kFew[least(kRowsTogether, p.m - i) - 1](some, wide + i * row, row);
  }
}

}  // namespace

const WeightKernels kWeightsAvx2 = {multiply_weight, multiply_by_loops<double>, widen};
const IntegerKernels kIntegersAvx2 = {kRows,           kColumns,        44 * kRows,
                                      kFewIntegerRows, integer_scratch, multiply_integers};

}  // namespace tandem::machine::products
