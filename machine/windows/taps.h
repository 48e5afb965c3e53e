// Which places of the input the taps of a kernel meet.
#ifndef TANDEM_MACHINE_WINDOWS_TAPS_H
#define TANDEM_MACHINE_WINDOWS_TAPS_H

#include <algorithm>
#include <array>
#include <cstdint>

#include "machine/windows/convolution.h"

namespace tandem::machine {

/// Whether each window is a single pixel, and each pixel one: x is then what the windows are.
inline bool windows_are_pixels(const ConvolutionSpec& s) {
  constexpr Extents kOnes{1, 1, 1}, kNone{0, 0, 0};
  return s.kernel == kOnes && s.stride == kOnes && s.padding == kNone;
}

/// Whether an image is one window: y is then a product of the weight with the images.
inline bool windows_are_images(const ConvolutionSpec& s) {
  constexpr Extents kOnes{1, 1, 1}, kNone{0, 0, 0};
  return s.kernel == s.input && s.dilation == kOnes && s.padding == kNone;
}

inline bool has_depth(const ConvolutionSpec& s) { return s.input[0] > 1 || s.kernel[0] > 1; }

/// Whether images are rows by themselves.
inline bool is_signal(const ConvolutionSpec& s) {
  const auto is_one = [&](size_t d) {
    return s.input[d] == 1 && s.kernel[d] == 1 && s.padding[d] == 0;
  };
  return is_one(0) && is_one(1);
}

/// Whether windows are more than a pixel apart.
inline bool has_strides(const ConvolutionSpec& s) { return product(s.stride) > 1; }

/// Places [begin, end) of an output's row at which a tap lies inside the input.
struct TapRange {
  int64_t begin, end;
};

inline TapRange range_of(int64_t output, int64_t input, int64_t stride, int64_t offset) {
  const int64_t begin = offset >= 0 ? 0 : (stride - 1 - offset) / stride;
  const int64_t end = input - 1 < offset ? 0 : (input - 1 - offset) / stride + 1;
  return {begin, std::min(output, end)};
}

/// One tap of the kernel, over the rows of a plane of the output and one of the input: f(where the
/// row begins in the output, and in the input, and its places, which in the input lie
/// `s.stride[2]` apart).
template <class F>
void for_each_row(const ConvolutionSpec& s, const Extents& tap, F f) {
  Extents offset;
  std::array<TapRange, 3> at;
  for (size_t d = 0; d < 3; ++d) {
    offset[d] = tap[d] * s.dilation[d] - s.padding[d];
    at[d] = range_of(s.output[d], s.input[d], s.stride[d], offset[d]);
  }
  const int64_t n = at[2].end - at[2].begin;
  if (n <= 0) return;
  for (int64_t i = at[0].begin; i < at[0].end; ++i)
    for (int64_t j = at[1].begin; j < at[1].end; ++j) {
      const int64_t di = i * s.stride[0] + offset[0], dj = j * s.stride[1] + offset[1];
      f((i * s.output[1] + j) * s.output[2] + at[2].begin,
        (di * s.input[1] + dj) * s.input[2] + at[2].begin * s.stride[2] + offset[2], n);
    }
}

/// f(tap, its number).
template <class F>
void for_each_tap(const ConvolutionSpec& s, F f) {
  int64_t number = 0;
  for (int64_t i = 0; i < s.kernel[0]; ++i)
    for (int64_t j = 0; j < s.kernel[1]; ++j)
      for (int64_t k = 0; k < s.kernel[2]; ++k) f(Extents{i, j, k}, number++);
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_TAPS_H
