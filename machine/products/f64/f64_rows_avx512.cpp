// Compiled for AVX-512, so nothing here may be a function that others share.
#include <immintrin.h>

#include <cstdint>

#include "machine/unroll.h"

namespace tandem::machine::products {
namespace {

using D = __m512d;

constexpr int kRows = 6, kVectors = 4;
constexpr int64_t kLanes = 8;

TANDEM_INLINE __mmask8 first_lanes(int64_t count) {
  return static_cast<__mmask8>((1 << count) - 1);
}
TANDEM_INLINE D load(const double* p) { return _mm512_loadu_pd(p); }
TANDEM_INLINE D load_below(const double* p, int64_t count) {
  return _mm512_maskz_loadu_pd(first_lanes(count), p);
}
TANDEM_INLINE void store(double* p, D x) { _mm512_storeu_pd(p, x); }
TANDEM_INLINE void store_below(double* p, int64_t count, D x) {
  _mm512_mask_storeu_pd(p, first_lanes(count), x);
}
TANDEM_INLINE D broadcast(double x) { return _mm512_set1_pd(x); }
TANDEM_INLINE D fma(D x, D y, D z) { return _mm512_fmadd_pd(x, y, z); }

}  // namespace
}  // namespace tandem::machine::products

#include "machine/products/f64/f64_rows.inc"

namespace tandem::machine::products {

void add_product_avx512(const F64Rows& product) { add_tiles(product); }

}  // namespace tandem::machine::products
