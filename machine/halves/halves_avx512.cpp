// Runs of halves with AVX-512: compiled for it, so nothing here may be a function that others
// share.
#include <immintrin.h>

#include <cstring>

#include "machine/halves/halves.h"
#include "machine/unroll.h"

namespace tandem::machine {
namespace {

constexpr int64_t kLanes = 16;

TANDEM_INLINE __m256i halves_at(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
TANDEM_INLINE void put_halves(void* p, __m256i halves) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), halves);
}

TANDEM_INLINE void widen_vector(const F16* from, float* to) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(halves_at(from)));
}
TANDEM_INLINE void narrow_vector(const float* from, F16* to) {
  put_halves(to, _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

TANDEM_INLINE void widen_vector(const Bf16* from, float* to) {
  const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves_at(from)), 16);
  _mm512_storeu_ps(to, _mm512_castsi512_ps(bits));
}
TANDEM_INLINE void narrow_vector(const float* from, Bf16* to) {
  const __m512 x = _mm512_loadu_ps(from);
  const __m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i nan = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
  put_halves(to, _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, nan)));
}

#include "machine/halves/halves.inc"

}  // namespace

constinit const Halves kHalvesAvx512{runs_of<Bf16>(), runs_of<F16>()};

}  // namespace tandem::machine
