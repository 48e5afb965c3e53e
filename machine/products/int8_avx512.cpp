// Products of f32 with weights in i8, with AVX-512: compiled for it, so nothing here may be a
// function that others share.
//
// A vector of weights is widened once for up to six rows of x. Rows are as many as registers hold
// sums for with four rows of weight, whose parts then lie in the first-level cache for the rows of
// x that follow.
#include "machine/products/int8_fetch.inc"
#include "machine/products/int8_kernels.h"
#include "machine/products/int8_loops.inc"
#include "machine/unroll.h"
#include "machine/vectors/avx512.inc"

namespace tandem::machine::products {
namespace {

constexpr int64_t kLine = 64, kRowsTogether = 6;
constexpr int kColumnsTogether = 4;

/// Up to 16 elements of rows of x, times those of rows of weight, to the sums of each pair.
template <int rows, int columns>
TANDEM_INLINE void add_products(const WeightProduct<float>& p, const float* x, const int8_t* weight,
                                __mmask16 there, F (&sums)[rows][columns]) {
  F factors[columns];
  TANDEM_UNROLL for (int c = 0; c < columns; ++c) factors[c] = _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(there, weight + c * p.weight_stride)));
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) {
    const F row = _mm512_maskz_loadu_ps(there, x + r * p.x_stride);
    TANDEM_UNROLL for (int c = 0; c < columns; ++c) sums[r][c] =
        _mm512_fmadd_ps(row, factors[c], sums[r][c]);
  }
}

/// Rows of x from `i` on, with rows of weight from `j` on.
template <int rows, int columns>
void dots(const WeightProduct<float>& p, int64_t i, int64_t j) {
  F sums[rows][columns];
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) TANDEM_UNROLL for (int c = 0; c < columns; ++c)
      sums[r][c] = _mm512_setzero_ps();
  const float* const x = p.x + i * p.x_stride;
  const int8_t* const weight = p.weight + j * p.weight_stride;
  int64_t l = 0;
  for (; l + kLine <= p.k; l += kLine) {
    if (i == 0) fetch_next<columns>(weight + l, p.weight_stride);
    TANDEM_UNROLL for (int64_t v = l; v < l + kLine; v += kLanes)
        add_products(p, x + v, weight + v, 0xffff, sums);
  }
  for (; l < p.k; l += kLanes) add_products(p, x + l, weight + l, first_lanes(p.k - l), sums);
  const auto stored = static_cast<__mmask8>((1 << columns) - 1);
  const __m128 scales = _mm_maskz_loadu_ps(stored, p.scales + j);
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) {
    const auto of = [&](int c) { return sums[r][c < columns ? c : 0]; };
    const __m128 total = sums_of(of(0), of(1), of(2), of(3));
    _mm_mask_storeu_ps(p.out + (i + r) * p.out_stride + j, stored, _mm_mul_ps(total, scales));
  }
}

using Dots = void (*)(const WeightProduct<float>&, int64_t, int64_t);
template <int columns>
constexpr Dots kDots[] = {dots<1, columns>, dots<2, columns>, dots<3, columns>,
                          dots<4, columns>, dots<5, columns>, dots<6, columns>};

/// All rows of x, in parts of as equal heights as can be, with `columns` rows of weight.
template <int columns>
void weigh(const WeightProduct<float>& p, int64_t j) {
  const int64_t parts = (p.m + kRowsTogether - 1) / kRowsTogether;
  for (int64_t t = 0, i = 0; t < parts; ++t) {
    const int64_t rows = (p.m - i + parts - t - 1) / (parts - t);
    kDots<columns>[rows - 1](p, i, j);
    i += rows;
  }
}

void multiply(const WeightProduct<float>& p) {
  int64_t j = 0;
  for (; j + kColumnsTogether <= p.n; j += kColumnsTogether) weigh<kColumnsTogether>(p, j);
  for (; j < p.n; ++j) weigh<1>(p, j);
}

}  // namespace

const WeightKernels kWeightsAvx512 = {multiply, multiply_by_loops<double>, widen};

}  // namespace tandem::machine::products
