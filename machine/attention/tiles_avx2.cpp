// Tiles with AVX2 and FMA: compiled for them, so nothing here may be a function that others share.
#include "machine/attention/tiles.h"
#include "machine/vectors/avx2.inc"

namespace tandem::machine::attention {
namespace {

constexpr int kRows = 6, kVectors = 2;

F sub(F a, F b) { return _mm256_sub_ps(a, b); }
F mul(F a, F b) { return _mm256_mul_ps(a, b); }
F largest(F a, F b) { return _mm256_max_ps(a, b); }
F rounded(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/// Where it is a normal number.
F times_power(F x, F n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
/// `a` where x < y, else `b`.
F less(F x, F y, F a, F b) { return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ)); }
/// Bytes as numbers.
F widened(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

}  // namespace
}  // namespace tandem::machine::attention

#include "machine/attention/tiles.inc"

namespace tandem::machine::attention {
const Tiles kTilesAvx2 = kTiles;
}
