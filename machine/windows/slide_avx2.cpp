// Sliding windows with AVX2 and FMA: compiled for them, so nothing here may be a function that
// others share.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "machine/vectors/avx2.inc"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {
namespace {

constexpr int64_t kVectors = 2, kRows = 6;
// (The same Xeon, its features lowered. 32 to 64 channels of 32 x 32: 0.98, 0.67; 64 x 64: 0.97 to
// 1.16; 128 x 128: 2.06, 2.11; 64 channels of 224 x 224: 1.08, 1.00.)
constexpr int64_t kLongRow = 112, kLongWholeRow = 112;
constexpr double kWorthwhileWaste = 1.3;
// (3 x 3 for each channel by itself: 0.62 to 0.97.)
constexpr int64_t kDepthwiseRow = std::numeric_limits<int64_t>::max();
// (The same, of the weight's gradient. 64 channels of 14 x 14 to 112 x 112: 0.94 to 1.21, 1.21,
// 1.21, 1.34; 128: 0.94 to 1.09, 0.98, 1.12, 1.28; 3 to 64: 1.50, 1.31, 1.35, 1.23.)
constexpr int64_t kWeightRow = 28, kWeightVectors = 2, kTapsOfWide = 6;
constexpr uint32_t kAllLanes = 0xFF;

using Lanes = __m256i;

TANDEM_INLINE Lanes lanes_between(int64_t begin, int64_t end) {
  return _mm256_andnot_si256(first_lanes(begin), first_lanes(end));
}
TANDEM_INLINE F load_lanes(const float* p, Lanes lanes) { return _mm256_maskload_ps(p, lanes); }
TANDEM_INLINE F gather(const float* p, int64_t step, Lanes lanes) {
  const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i at = _mm256_mullo_epi32(numbers, _mm256_set1_epi32(static_cast<int>(step)));
  return _mm256_mask_i32gather_ps(zero(), p, at, _mm256_castsi256_ps(lanes), sizeof(float));
}

/// Lanes 0, 2, ... of both.
TANDEM_INLINE F every_other(F x, F y) {
  const __m256 pairs = _mm256_shuffle_ps(x, y, 0x88);  // two of x, two of y, in each half
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xD8));
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

TANDEM_INLINE F lanes_below(F x, int64_t n) {
  return _mm256_and_ps(x, _mm256_castsi256_ps(first_lanes(n)));
}

/// What taps meet of a row.
class RowPixels {
 public:
  TANDEM_INLINE explicit RowPixels(const float* p) : p_(p) {}
  template <int t>
  TANDEM_INLINE F from() const {
    return load(p_ + t);
  }

 private:
  const float* p_;
};
constexpr int kSquareRows = 4, kSquareSums = 9;

#include "machine/windows/slide.inc"

}  // namespace

const SlideKernels kSlideAvx2 = kSlide;

}  // namespace tandem::machine
