// Tiles of convolutions whose windows slide over padded planes: sums of shifted rows of pixels,
// each times a weight. Some channels of the result by some vectors of pixels are summed in
// registers.
#ifndef TANDEM_MACHINE_WINDOWS_SLIDE_KERNELS_H
#define TANDEM_MACHINE_WINDOWS_SLIDE_KERNELS_H

#include <cstdint>

namespace tandem::machine {

/// A vector of pixels: where their windows begin in the padded plane, where the first of them that
/// is wanted goes in a plane of the result, and which are (a bit each; those in between, where
/// windows reach from one row to the next, are not).
struct Spot {
  int64_t from, to;
  uint32_t lanes;
};

/// c [rows, pixels of the spots] = bias + weights * windows, or += weights * windows.
struct Slide {
  const float* weights;    // [depth, SlideKernels::rows]
  const float* windows;    // the first padded plane
  const int32_t* offsets;  // [depth], from where a window begins
  int64_t depth;
  const Spot* spots;
  float* c;
  int64_t c_stride;   // of its rows
  const float* bias;  // [rows], or null; not where it adds
  bool adds;
};

/// Of one instruction set: tiles of at most so many rows and vectors of so many pixels.
struct SlideKernels {
  int64_t rows, vectors, lanes;
  /// From so many pixels on in rows of the result sliding beats the library; or where these are
  /// whole vectors.
  int64_t long_row, long_whole_row;
  void (*tile)(const Slide& slide, int64_t rows, int64_t vectors);
  /// `padding` zeros and a row of `n` pixels, or as many zeros if it is null; of what is written
  /// the last vector may reach beyond.
  void (*pad)(const float* row, int64_t padding, int64_t n, float* to);
  /// to [SlideKernels::rows]: `n` weights, `stride` apart; a vector is written.
  void (*pack)(const float* from, int64_t stride, int64_t n, float* to);
};

extern const SlideKernels kSlideAvx2, kSlideAvx512;

/// Those of this processor; null if it has no AVX2.
const SlideKernels* slide_kernels();

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_SLIDE_KERNELS_H
