// Compiled for AVX2 with FMA, so nothing here may be a function that others share.
#include <immintrin.h>

#include <cstdint>

#include "machine/unroll.h"

namespace tandem::machine::products {
namespace {

using D = __m256d;

constexpr int kRows = 4, kVectors = 3;
constexpr int64_t kLanes = 4;

TANDEM_INLINE __m256i first_lanes(int64_t count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
TANDEM_INLINE D load(const double* p) { return _mm256_loadu_pd(p); }
TANDEM_INLINE D load_below(const double* p, int64_t count) {
  return _mm256_maskload_pd(p, first_lanes(count));
}
TANDEM_INLINE void store(double* p, D x) { _mm256_storeu_pd(p, x); }
TANDEM_INLINE void store_below(double* p, int64_t count, D x) {
  _mm256_maskstore_pd(p, first_lanes(count), x);
}
TANDEM_INLINE D broadcast(double x) { return _mm256_set1_pd(x); }
TANDEM_INLINE D fma(D x, D y, D z) { return _mm256_fmadd_pd(x, y, z); }

}  // namespace
}  // namespace tandem::machine::products

#include "machine/products/f64/f64_rows.inc"

namespace tandem::machine::products {

void add_product_avx2(const F64Rows& product) { add_tiles(product); }

}  // namespace tandem::machine::products
