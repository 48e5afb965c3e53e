// Small planes whose images are interleaved: a vector of them at each pixel.
#ifndef TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_PLANES_H
#define TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_PLANES_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/slide_kernels.h"
#include "machine/windows/taps.h"

namespace tandem::machine {

/// [vector of images, channel, pixel, image], of [image, channel, pixel].
struct InterleavedPlanes {
  /// Of an odd number of vectors, so that one pixel's do not share sets of the cache.
  int64_t channel() const { return (pixels | 1) * lanes; }
  int64_t batch() const { return channels * channel(); }
  int64_t batches() const { return ceil_div(images, lanes); }
  int64_t size() const { return batches() * batch(); }
  /// Of a vector.
  int64_t images_of(int64_t batch) const { return std::min(lanes, images - batch * lanes); }

  void fill(const SlideKernels& k, const float* from, float* to) const {
    constexpr int64_t kGrain = 8192;
    const int64_t image = channels * pixels;
    parallel_for(batches() * channels, kGrain / channel() + 1,
                 [&](int64_t begin, int64_t end, int) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t b = i / channels, c = i % channels;
                     k.transpose(from + b * lanes * image + c * pixels, image, images_of(b), pixels,
                                 to + i * channel(), lanes, lanes);
                   }
                 });
  }

  int64_t images, channels, pixels, lanes;
};

/// How often all taps meet a pixel, in one plane.
inline int64_t count_visits(const ConvolutionSpec& s) {
  int64_t all = 1;
  for (size_t d = 0; d < 3; ++d) {
    int64_t count = 0;
    for (int64_t t = 0; t < s.kernel[d]; ++t) {
      const TapRange met =
          range_of(s.output[d], s.input[d], s.stride[d], t * s.dilation[d] - s.padding[d]);
      count += std::max<int64_t>(0, met.end - met.begin);
    }
    all *= count;
  }
  return all;
}

/// By tap, from which of the input's pixels to which of the output's, or the reverse.
class Visits {
 public:
  Visits(const ConvolutionSpec& s, int64_t lanes, bool reverse) {
    all_.reserve(static_cast<size_t>(count_visits(s)));
    for_each_tap(s, [&](const Extents& tap, int64_t) {
      for_each_row(s, tap, [&](int64_t output, int64_t input, int64_t n) {
        for (; n > 0; --n, ++output, input += s.stride[2])
          all_.push_back(reverse ? Visit{output * lanes, input * lanes}
                                 : Visit{input * lanes, output * lanes});
      });
      first_.push_back(all_.size());
    });
  }
  std::span<const Visit> of(int64_t tap) const {
    const auto t = static_cast<size_t>(tap);
    return std::span(all_).subspan(first_[t], first_[t + 1] - first_[t]);
  }

 private:
  std::vector<Visit> all_;
  std::vector<size_t> first_{0};
};

/// Of what taps cover, as much is multiplied: padding is not.
inline double share_of_windows(const ConvolutionSpec& s) {
  return static_cast<double>(count_visits(s)) /
         static_cast<double>(product(s.output) * product(s.kernel));
}

/// Copies of more elements are not worth their memory.
constexpr int64_t kMostInterleaved = int64_t{1} << 23;

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_PLANES_H
