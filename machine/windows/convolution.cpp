#include "machine/windows/convolution.h"

#include <algorithm>

#include "machine/cpu.h"
#include "machine/library/convolution_primitive.h"
#include "machine/memory/arena.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/grouped_weight.h"
#include "machine/windows/interleaved/channelwise.h"
#include "machine/windows/interleaved/interleaved_convolution.h"
#include "machine/windows/interleaved/interleaved_weight.h"
#include "machine/windows/pixel_convolution.h"
#include "machine/windows/signals/phased_gradient.h"
#include "machine/windows/single_convolution.h"
#include "machine/windows/sliding_convolution.h"
#include "machine/windows/sliding_weight.h"
#include "machine/windows/strip_convolution.h"
#include "machine/windows/taps.h"
#include "machine/windows/unfolded_convolution.h"

namespace tandem::machine {
namespace {

/// to[i * to_step] += factor * from[i * from_step].
template <class T>
void add_scaled(T* __restrict to, int64_t to_step, const T* __restrict from, int64_t from_step,
                T factor, int64_t n) {
  if (to_step == 1 && from_step == 1)
    for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
  else
    for (int64_t i = 0; i < n; ++i) to[i * to_step] += factor * from[i * from_step];
}

/// The sum of a[i] * b[i * step], in eight lanes whatever the processor has.
template <class T>
T dot(const T* a, const T* b, int64_t step, int64_t n) {
  constexpr int64_t kLanes = 8;
  std::array<T, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[static_cast<size_t>(l)] += a[i + l] * b[(i + l) * step];
  for (int64_t l = 0; i < n; ++i, ++l) lanes[static_cast<size_t>(l)] += a[i] * b[i * step];
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

template <class T>
struct Planes {
  const ConvolutionSpec& s;
  const ConvolutionData<T>& data;
  int64_t pixels = product(s.input), made = product(s.output), taps = product(s.kernel);
  int64_t in = s.in / s.groups, out = s.out / s.groups;  // of a group

  T* x(int64_t image, int64_t channel) const { return data.x + (image * s.in + channel) * pixels; }
  T* y(int64_t image, int64_t channel) const { return data.y + (image * s.out + channel) * made; }
  /// Of output channel `o` and the i-th input channel of its group.
  T* w(int64_t o, int64_t i) const { return data.w + (o * in + i) * taps; }
};

template <class T>
void output_plane(const Planes<T>& p, int64_t image, int64_t o) {
  T* const y = p.y(image, o);
  std::fill_n(y, p.made, p.data.bias ? p.data.bias[o] : T(0));
  for (int64_t i = 0; i < p.in; ++i) {
    const T *x = p.x(image, o / p.out * p.in + i), *w = p.w(o, i);
    for_each_tap(p.s, [&](const Extents& tap, int64_t t) {
      for_each_row(p.s, tap, [&](int64_t to, int64_t from, int64_t n) {
        add_scaled(y + to, 1, x + from, p.s.stride[2], w[t], n);
      });
    });
  }
}

template <class T>
void input_plane(const Planes<T>& p, int64_t image, int64_t i) {
  T* const x = p.x(image, i);
  std::fill_n(x, p.pixels, p.data.bias ? p.data.bias[i] : T(0));
  for (int64_t j = 0; j < p.out; ++j) {
    const int64_t o = i / p.in * p.out + j;
    const T *y = p.y(image, o), *w = p.w(o, i % p.in);
    for_each_tap(p.s, [&](const Extents& tap, int64_t t) {
      for_each_row(p.s, tap, [&](int64_t from, int64_t to, int64_t n) {
        add_scaled(x + to, p.s.stride[2], y + from, 1, w[t], n);
      });
    });
  }
}

template <class T>
void weight_plane(const Planes<T>& p, int64_t o, int64_t i) {
  T* const w = p.w(o, i);
  std::fill_n(w, p.taps, T(0));
  for (int64_t image = 0; image < p.s.images; ++image) {
    const T *x = p.x(image, o / p.out * p.in + i), *y = p.y(image, o);
    for_each_tap(p.s, [&](const Extents& tap, int64_t t) {
      for_each_row(p.s, tap, [&](int64_t from, int64_t at, int64_t n) {
        w[t] += dot(y + from, x + at, p.s.stride[2], n);
      });
    });
  }
}

template <class T>
void plane(const Planes<T>& p, Sought sought, int64_t unit) {
  switch (sought) {
    case Sought::Output:
      return output_plane(p, unit / p.s.out, unit % p.s.out);
    case Sought::Input:
      return input_plane(p, unit / p.s.in, unit % p.s.in);
    case Sought::Weight:
      return weight_plane(p, unit / p.in, unit % p.in);
  }
}

int64_t planes(const ConvolutionSpec& s, Sought sought) {
  if (sought == Sought::Weight) return s.out * (s.in / s.groups);
  return s.images * (sought == Sought::Output ? s.out : s.in);
}

/// Fewer operations are not worth a thread.
constexpr double kGrain = 65536;

template <class T>
void convolve_directly(const ConvolutionSpec& s, Sought sought, const ConvolutionData<T>& data) {
  const Planes<T> p{s, data};
  const int64_t units = planes(s, sought);
  const double each = flops(s) / static_cast<double>(std::max<int64_t>(units, 1));
  const auto grain = static_cast<int64_t>(kGrain / std::max(each, 1.0)) + 1;
  parallel_for(units, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t unit = begin; unit < end; ++unit) plane(p, sought, unit);
  });
}

/// False where the library has no fast kernel, or would round a sum twice: it adds no bias to a
/// gradient.
template <class T>
bool convolved_by_library(const ConvolutionSpec& s, Sought sought, const ConvolutionData<T>& data) {
  constexpr bool kBf16 = std::is_same_v<T, Bf16>;
  if constexpr (kBf16 || std::is_same_v<T, float>) {
    const bool has_bias = data.bias != nullptr;
    if (kBf16 && (!has_bf16_convolutions() || (has_bias && sought == Sought::Input))) return false;
    const auto library =
        shared_convolution({.spec = s,
                            .sought = sought,
                            .element = kBf16 ? ConvolutionElement::Bf16 : ConvolutionElement::F32,
                            .has_bias = has_bias && sought != Sought::Weight});
    if (library) library->run({data.x, data.w, data.y, data.bias});
    return library != nullptr;
  }
  return false;
}

template <class From, class To>
void convert(const From* from, To* to, int64_t n) {
  parallel_for(n, static_cast<int64_t>(kGrain), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) to[i] = store<To>(load(from[i]));
  });
}

/// In f32, between conversions.
void convolve_widened(const ConvolutionSpec& s, Sought sought, const ConvolutionData<Bf16>& data) {
  const int64_t x = s.images * s.in * product(s.input), y = s.images * s.out * product(s.output),
                w = s.out * (s.in / s.groups) * product(s.kernel),
                bias = data.bias == nullptr      ? 0
                       : sought == Sought::Input ? s.in
                                                 : s.out;
  const ArenaLease lease = borrow_arena(static_cast<size_t>(x + y + w + bias) * sizeof(float));
  auto* const floats = reinterpret_cast<float*>(lease.data());
  const ConvolutionData<float> wide{floats, floats + x + y, floats + x,
                                    bias > 0 ? floats + x + y + w : nullptr};
  if (sought != Sought::Input) convert(data.x, wide.x, x);
  if (sought != Sought::Weight) convert(data.w, wide.w, w);
  if (sought != Sought::Output) convert(data.y, wide.y, y);
  convert(data.bias, floats + x + y + w, bias);
  convolve(s, sought, wide);
  if (sought == Sought::Input) convert(wide.x, data.x, x);
  if (sought == Sought::Weight) convert(wide.w, data.w, w);
  if (sought == Sought::Output) convert(wide.y, data.y, y);
}

/// Of few channels the library's blocks of bf16 are mostly zeros, and of many taps of a channel by
/// itself it has only loops. (One thread of a Zen 4, ms in bf16, and widened, for output, input,
/// weight: 64 channels to 1, of 64 x 64, 4.0, 3.3, 4.5, and 0.8, 0.8, 0.8; 3 to 64 1.3, 4.0, 1.9,
/// and 1.5, 2.3, 2.0; each of 64 by itself, of 28 x 28, 3 x 3 0.24, 0.26, 0.22, and 0.32, 0.32,
/// 0.20; 5 x 5 0.41, 0.44, 9.8, and 0.45, 0.45, 0.35; 7 x 7 0.67, 0.81, 19, and 0.66, 0.67, 0.61;
/// 31 x 31 230, 11, 315, and 21, 17, 36; 3 x 3 x 3 27, 36, 28, and 1.4.)
bool pays_to_widen(const ConvolutionSpec& s, Sought sought) {
  constexpr int64_t kFewChannels = 4, kBlock = 16, kFewTaps = 25;
  if (sought == Sought::Weight) return is_weight_grouped(s);
  const bool is_few =
      s.groups == 1 && (s.out <= kFewChannels || (sought == Sought::Input && s.in <= kFewChannels));
  if ((is_few && is_sliding(s, sought)) || is_channelwise(s, sought)) return true;
  const bool are_blocks = s.in == s.out && s.groups % kBlock == 0 && !has_depth(s);
  return is_single(s, sought) && !(are_blocks && product(s.kernel) <= kFewTaps);
}

}  // namespace

double flops(const ConvolutionSpec& s) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  return 2 * real(s.images) * real(s.out) * real(product(s.output)) * real(s.in / s.groups) *
         real(product(s.kernel));
}

bool has_bf16_convolutions() { return cpu_features().avx512_bf16; }

template <class T>
void convolve(const ConvolutionSpec& s, Sought sought, const ConvolutionData<T>& data) {
  if (flops(s) > 0) {
    if constexpr (std::is_same_v<T, float>) {
      if (is_of_pixels(s)) return convolve_pixels(s, sought, data);
      if (is_interleaved(s, sought)) return convolve_interleaved(*slide_kernels(), s, sought, data);
      if (sought == Sought::Weight && is_weight_interleaved(s))
        return sum_interleaved(*slide_kernels(), s, data);
      if (is_unfolded(s, sought)) return convolve_unfolded(s, sought, data);
      if (is_channelwise(s, sought)) return convolve_channelwise(*slide_kernels(), s, sought, data);
      if (is_phased(s, sought)) return sum_in_phases(*slide_kernels(), s, data);
      if (is_single(s, sought)) return convolve_single(*slide_kernels(), s, sought, data);
      if (is_sliding(s, sought)) return convolve_sliding(*slide_kernels(), s, sought, data);
      if (sought == Sought::Weight && is_weight_sliding(s))
        return sum_sliding(*slide_kernels(), s, data);
      if (sought == Sought::Weight && is_weight_grouped(s))
        return sum_grouped(*slide_kernels(), s, data);
    }
    if constexpr (std::is_same_v<T, Bf16>)
      if (pays_to_widen(s, sought)) return convolve_widened(s, sought, data);
    if constexpr (std::is_same_v<T, double>)
      if (is_of_strips(s)) return convolve_strips(s, sought, data);
    if (convolved_by_library(s, sought, data)) return;
  }
  if constexpr (std::is_same_v<T, Bf16>)
    convolve_widened(s, sought, data);
  else
    convolve_directly(s, sought, data);
}

template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<Bf16>&);
template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<float>&);
template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<double>&);
template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<int64_t>&);

}  // namespace tandem::machine
