// Tiles with AVX-512: compiled for it, so nothing here may be a function that others share.
#include "machine/attention/tiles.h"
#include "machine/vectors/avx512.inc"

namespace tandem::machine::attention {
namespace {

constexpr int kRows = 8, kVectors = 2;

F sub(F a, F b) { return _mm512_sub_ps(a, b); }
F mul(F a, F b) { return _mm512_mul_ps(a, b); }
F largest(F a, F b) { return _mm512_max_ps(a, b); }
F rounded(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
F times_power(F x, F n) { return _mm512_scalef_ps(x, n); }
/// `a` where x < y, else `b`.
F less(F x, F y, F a, F b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
/// Bytes as numbers.
F widened(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

}  // namespace
}  // namespace tandem::machine::attention

#include "machine/attention/tiles.inc"

namespace tandem::machine::attention {
const Tiles kTilesAvx512 = kTiles;
}
