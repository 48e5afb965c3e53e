// Runs of halves with AVX2 and F16C: compiled for them, so nothing here may be a function that
// others share.
#include <immintrin.h>

#include <cstring>

#include "machine/halves/halves.h"
#include "machine/unroll.h"

namespace tandem::machine {
namespace {

constexpr int64_t kLanes = 8;

TANDEM_INLINE __m128i halves_at(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
TANDEM_INLINE void put_halves(void* p, __m128i halves) {
  _mm_storeu_si128(static_cast<__m128i*>(p), halves);
}

TANDEM_INLINE void widen_vector(const F16* from, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(halves_at(from)));
}
TANDEM_INLINE void narrow_vector(const float* from, F16* to) {
  put_halves(to, _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

TANDEM_INLINE void widen_vector(const Bf16* from, float* to) {
  const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves_at(from)), 16);
  _mm256_storeu_ps(to, _mm256_castsi256_ps(bits));
}
TANDEM_INLINE void narrow_vector(const float* from, Bf16* to) {
  const __m256 x = _mm256_loadu_ps(from);
  const __m256i bits = _mm256_castps_si256(x), upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  const __m256i nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i result = _mm256_blendv_epi8(rounded, nan, is_nan);
  put_halves(to,
             _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1)));
}

#include "machine/halves/halves.inc"

}  // namespace

constinit const Halves kHalvesAvx2{runs_of<Bf16>(), runs_of<F16>()};

}  // namespace tandem::machine
