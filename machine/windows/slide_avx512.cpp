// Sliding windows with AVX-512: compiled for it, so nothing here may be a function that others
// share.
#include <algorithm>
#include <array>
#include <utility>

#include "machine/vectors/avx512.inc"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {
namespace {

constexpr int64_t kVectors = 3, kRows = 9;
// (Two threads of a Xeon, 2026-11: how many times as fast as the library are the output and the
// gradient of the input. 64 channels of 14 x 14 to 28 x 28: 0.89 to 0.95; 32 x 32: 1.11, 1.16;
// 40 x 40: 1.02, 1.05; 56 x 56: 1.06, 1.10; 64 x 64: 1.24, 1.43; 128 x 128: 1.28, 1.34.)
constexpr int64_t kLongRow = 56, kLongWholeRow = 32;
constexpr double kWorthwhileWaste = 1.3;
// (The same, of 3 x 3 for each channel by itself. 7 x 7: 0.59, 0.68; 14 x 14: 1.10, 1.07; 28 x 28:
// 1.08 to 1.17; 56 x 56: 1.05 to 1.28.)
constexpr int64_t kDepthwiseRow = 14;
// (The same, of the weight's gradient. 64 channels of 14 x 14 to 112 x 112: 1.20, 1.27, 1.21, 1.37;
// 128: 1.06, 1.13, 1.19, 1.48; 256: 0.88 to 1.18, 1.20, 1.33, 1.61; with stride 2 1.2 to 1.4; 3 to
// 64: 1.40, 1.06, 1.14, 1.06; of 7 x 7 0.88 to 1.34.)
constexpr int64_t kWeightRow = 8, kWeightVectors = 4, kTapsOfWide = 6;
constexpr uint32_t kAllLanes = 0xFFFF;

using Lanes = __mmask16;

TANDEM_INLINE Lanes lanes_between(int64_t begin, int64_t end) {
  return static_cast<Lanes>(first_lanes(end) & ~first_lanes(begin));
}
TANDEM_INLINE F load_lanes(const float* p, Lanes lanes) { return _mm512_maskz_loadu_ps(lanes, p); }
TANDEM_INLINE F gather(const float* p, int64_t step, Lanes lanes) {
  const __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(numbers, _mm512_set1_epi32(static_cast<int>(step)));
  return _mm512_mask_i32gather_ps(zero(), lanes, at, p, sizeof(float));
}

/// Lanes 0, 2, ... of both.
TANDEM_INLINE F every_other(F x, F y) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(x, even, y);
}

/// The lanes that are wanted, side by side, or added to what is there.
TANDEM_INLINE void store_some(float* p, uint32_t lanes, F x, bool adds) {
  const __mmask16 first = first_lanes(__builtin_popcount(lanes));
  F some = _mm512_maskz_compress_ps(static_cast<__mmask16>(lanes), x);
  if (adds) some = add(_mm512_maskz_loadu_ps(first, p), some);
  _mm512_mask_storeu_ps(p, first, some);
}

/// Lanes from `t` on of two neighbours.
template <int t>
TANDEM_INLINE F lanes_from(F x, F next) {
  if constexpr (t == 0) return x;
  return _mm512_castsi512_ps(
      _mm512_alignr_epi32(_mm512_castps_si512(next), _mm512_castps_si512(x), t));
}
#define TANDEM_HAS_NEIGHBOURS

TANDEM_INLINE F lanes_below(F x, int64_t n) { return _mm512_maskz_mov_ps(first_lanes(n), x); }

/// What taps meet of a row, at the beginning of a line.
class RowPixels {
 public:
  TANDEM_INLINE explicit RowPixels(const float* p) : x_(load(p)), next_(load(p + kLanes)) {}
  template <int t>
  TANDEM_INLINE F from() const {
    return lanes_from<t>(x_, next_);
  }

 private:
  F x_, next_;
};
constexpr int kSquareRows = 7, kSquareSums = 18;

#include "machine/windows/slide.inc"

}  // namespace

const SlideKernels kSlideAvx512 = kSlide;

}  // namespace tandem::machine
