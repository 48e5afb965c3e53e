#include "machine/windows/unfolded_convolution.h"

#include <algorithm>

#include "machine/library/matmul.h"
#include "machine/memory/arena.h"
#include "machine/products/panels.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

constexpr int64_t kFewestWeights = int64_t{1} << 18;

/// How many channels of the output there are for each place in all images, at least. (Two threads
/// of a Xeon with AVX-512, 2026-11; ms in the library and so, for output, input, weight. 16 images
/// of 512 channels by 2 x 2: 1.74, 1.55; 1.63, 1.71; 2.62, 1.52. 256 to 512 channels, 4 x 4, stride
/// 2: 1.23, 0.74; 1.27, 0.82; 1.56, 0.77. One of 512 by 7 x 7: 1.39, 1.26; 1.38, 1.03; 1.75, 0.97.
/// 16 of 256 by 4 x 4: 1.10, 1.33; 1.05, 1.35; 1.59, 1.35. Of those, the ones of 16 images are
/// interleaved since, in half to two thirds of that; few images remain.)
int64_t out_for_each_place(Sought sought) { return sought == Sought::Weight ? 1 : 4; }

constexpr int64_t kGrain = 8192;  // elements worth a thread

int64_t grain_of(int64_t elements) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, elements));
}

/// The convolution as a product: the weight is [out, window], and there are `places` of the output
/// in all images, `made` in each.
struct Unfolding {
  explicit Unfolding(const ConvolutionSpec& spec) : s(spec) {}

  const ConvolutionSpec& s;
  int64_t pixels = product(s.input), made = product(s.output), taps = product(s.kernel);
  int64_t window = s.in * taps, places = s.images * made;

  /// to [window, places]: what each tap of each channel meets.
  void unfold(const float* x, float* to) const {
    parallel_for(s.in, grain_of(taps * places), [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c)
        for_each_tap(s, [&](const Extents& tap, int64_t t) {
          float* const row = to + (c * taps + t) * places;
          std::fill_n(row, places, 0.0f);
          for (int64_t i = 0; i < s.images; ++i)
            for_each_row(s, tap, [&](int64_t at, int64_t from, int64_t n) {
              const float* const pixel = x + (i * s.in + c) * pixels + from;
              for (int64_t q = 0; q < n; ++q) row[i * made + at + q] = pixel[q * s.stride[2]];
            });
        });
    });
  }

  /// x: the sums of what each tap of each channel brings, from [places, window].
  void fold(const float* from, const float* bias, float* x) const {
    parallel_for(s.images * s.in, grain_of(taps * made), [&](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t i = plane / s.in, c = plane % s.in;
        float* const pixel = x + plane * pixels;
        std::fill_n(pixel, pixels, bias ? bias[c] : 0.0f);
        for_each_tap(s, [&](const Extents& tap, int64_t t) {
          for_each_row(s, tap, [&](int64_t at, int64_t to, int64_t n) {
            const float* const brought = from + (i * made + at) * window + c * taps + t;
            for (int64_t q = 0; q < n; ++q) pixel[to + q * s.stride[2]] += brought[q * window];
          });
        });
      }
    });
  }

  /// y [images, out, made] as [out, places], at `to` unless it is that already.
  const float* gather(const float* y, float* to) const {
    if (s.images == 1) return y;
    parallel_for(s.out, grain_of(places), [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t i = 0; i < s.images; ++i)
          std::copy_n(y + (i * s.out + o) * made, made, to + o * places + i * made);
    });
    return to;
  }

  /// y [images, out, made] of [out, places], each channel with its bias.
  void scatter(const float* from, const float* bias, float* y) const {
    parallel_for(s.out, grain_of(places), [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t i = 0; i < s.images; ++i)
          for (int64_t q = 0; q < made; ++q)
            y[(i * s.out + o) * made + q] =
                bias ? bias[o] + from[o * places + i * made + q] : from[o * places + i * made + q];
    });
  }

  /// Memory for the windows and, beside them, for y by channels.
  size_t bytes() const { return static_cast<size_t>((window + s.out) * places) * sizeof(float); }

  MatmulSpec weight_by_windows() const { return dense_matmul(1, s.out, places, window); }
  MatmulSpec y_by_weight() const { return dense_matmul(1, places, window, s.out, true); }
  MatmulSpec y_by_windows() const { return dense_matmul(1, s.out, window, places, false, true); }
};

}  // namespace

bool is_unfolded(const ConvolutionSpec& s, Sought sought) {
  const Unfolding u(s);
  return products::panels() && s.groups == 1 && s.out * u.window >= kFewestWeights &&
         out_for_each_place(sought) * u.places <= s.out;
}

void convolve_unfolded(const ConvolutionSpec& s, Sought sought, const ConvolutionData<float>& d) {
  const Unfolding u(s);
  const ArenaLease lease = borrow_arena(u.bytes());
  float* const windows = reinterpret_cast<float*>(lease.data());
  float* const channels = windows + u.window * u.places;
  if (sought != Sought::Input) u.unfold(d.x, windows);
  const float* const y = sought == Sought::Output ? nullptr : u.gather(d.y, channels);
  switch (sought) {
    case Sought::Output:
      shared_matmul(u.weight_by_windows())->run(d.w, windows, channels);
      return u.scatter(channels, d.bias, d.y);
    case Sought::Input:
      shared_matmul(u.y_by_weight())->run(y, d.w, windows);
      return u.fold(windows, d.bias, d.x);
    case Sought::Weight:
      return shared_matmul(u.y_by_windows())->run(y, windows, d.w);
  }
}

}  // namespace tandem::machine
