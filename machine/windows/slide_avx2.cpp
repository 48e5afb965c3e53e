// Sliding windows with AVX2 and FMA: compiled for them, so nothing here may be a function that
// others share.
#include <immintrin.h>

#include <array>
#include <utility>

#include "machine/unroll.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {
namespace {

using F = __m256;

constexpr int64_t kLanes = 8, kVectors = 2, kRows = 6;
// (The same Xeon, its features lowered. 32 to 64 channels of 32 x 32: 0.98, 0.67; 64 x 64: 0.97 to
// 1.16; 128 x 128: 2.06, 2.11; 64 channels of 224 x 224: 1.08, 1.00.)
constexpr int64_t kLongRow = 112, kLongWholeRow = 112;
constexpr uint32_t kAllLanes = 0xFF;

TANDEM_INLINE F zero() { return _mm256_setzero_ps(); }
TANDEM_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
TANDEM_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x); }
TANDEM_INLINE F broadcast(float x) { return _mm256_set1_ps(x); }
TANDEM_INLINE F add(F x, F y) { return _mm256_add_ps(x, y); }
TANDEM_INLINE F fma(F x, F y, F z) { return _mm256_fmadd_ps(x, y, z); }

using Lanes = __m256i;

TANDEM_INLINE __m256i numbers() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
TANDEM_INLINE Lanes lanes_between(int64_t begin, int64_t end) {
  const auto clamp = [](int64_t n) {
    return _mm256_set1_epi32(static_cast<int>(n < 0 ? 0 : n > kLanes ? kLanes : n));
  };
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(clamp(begin), numbers()),
                             _mm256_cmpgt_epi32(clamp(end), numbers()));
}
TANDEM_INLINE F load_lanes(const float* p, Lanes lanes) { return _mm256_maskload_ps(p, lanes); }
TANDEM_INLINE F gather(const float* p, int64_t step, Lanes lanes) {
  const __m256i at = _mm256_mullo_epi32(numbers(), _mm256_set1_epi32(static_cast<int>(step)));
  return _mm256_mask_i32gather_ps(zero(), p, at, _mm256_castsi256_ps(lanes), sizeof(float));
}

/// The lanes that are wanted, side by side, or added to what is there.
TANDEM_INLINE void store_some(float* p, uint32_t lanes, F x, bool adds) {
  alignas(32) float all[kLanes];
  _mm256_store_ps(all, x);
  for (int i = 0; i < kLanes; ++i)
    if (lanes >> i & 1) {
      *p = adds ? *p + all[i] : all[i];
      ++p;
    }
}

#include "machine/windows/slide.inc"

}  // namespace

const SlideKernels kSlideAvx2 = kSlide;

}  // namespace tandem::machine
