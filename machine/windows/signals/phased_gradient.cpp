#include "machine/windows/signals/phased_gradient.h"

#include <algorithm>

#include "machine/memory/arena.h"
#include "machine/parts.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/sliding_convolution.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

constexpr int64_t kLine = 16;                  // elements
constexpr int64_t kFloats = int64_t{1} << 18;  // of the phases of some images, about
constexpr int64_t kPlaces = int64_t{1} << 10;  // of phases, which are merged at once

/// Place `count` i + p - `before` of a channel of x is place i of its p-th phase: the sum over j of
/// tap count j + p times place i - j of y. So phases are the channels of a convolution of y whose
/// kernel lies the other way round. Beyond the last place that y meets there is nothing to sum.
struct Phasing {
  explicit Phasing(const ConvolutionSpec& spec)
      : s(spec),
        count(s.stride[2]),
        before(s.padding[2]),
        size(s.input[2]),
        taps(s.kernel[2] / count),
        places(std::min(ceil_div(size + before, count), s.output[2] + taps - 1)) {}

  ConvolutionSpec spec_of(int64_t images) const {
    ConvolutionSpec to{.images = images, .in = s.out, .out = s.in * count};
    to.input[2] = s.output[2];
    to.kernel[2] = taps;
    to.output[2] = places;
    to.padding[2] = taps - 1;
    return to;
  }
  int64_t channels() const { return s.in * count; }
  int64_t weights() const { return channels() * s.out * taps; }
  int64_t made() const { return channels() * places; }  // of an image
  int64_t images() const { return std::clamp<int64_t>(kFloats / made(), 1, s.images); }

  const ConvolutionSpec& s;
  int64_t count, before, size;
  int64_t taps, places;  // of a phase
};

/// to [channel of x, phase, channel of y, tap].
void fill_weights(const Phasing& p, const float* w, float* to) {
  for (int64_t i = 0; i < p.channels(); ++i)
    for (int64_t o = 0; o < p.s.out; ++o)
      for (int64_t j = p.taps - 1; j >= 0; --j)
        *to++ = w[((o * p.s.in + i / p.count) * p.taps + j) * p.count + i % p.count];
}

/// Places of a channel's phases, side by side. At the ends some of them are outside.
void merge_places(const SlideKernels& k, const Phasing& p, const float* phases, Range at,
                  float* to) {
  const auto merge_one = [&](int64_t i) {
    for (int64_t phase = 0; phase < p.count; ++phase) {
      const int64_t place = i * p.count + phase - p.before;
      if (place >= 0 && place < p.size) to[place] = phases[phase * p.places + i];
    }
  };
  const int64_t first = std::clamp(ceil_div(p.before, p.count), at.begin, at.end),
                last = std::clamp((p.before + p.size) / p.count, first, at.end);
  for (int64_t i = at.begin; i < first; ++i) merge_one(i);
  k.transpose_all(phases + first, p.places, p.count, last - first, to + first * p.count - p.before,
                  p.count);
  for (int64_t i = last; i < at.end; ++i) merge_one(i);
}

/// Of each channel the places that no window meets.
void fill_rest(const Phasing& p, const ConvolutionData<float>& d) {
  const int64_t met = std::clamp<int64_t>(p.places * p.count - p.before, 0, p.size);
  for (int64_t i = 0; i < p.s.images * p.s.in; ++i)
    std::fill(d.x + i * p.size + met, d.x + (i + 1) * p.size,
              d.bias != nullptr ? d.bias[i % p.s.in] : 0.0F);
}

/// to [image, channel, place] of from [image, channel, phase, place].
void merge_phases(const SlideKernels& k, const Phasing& p, int64_t images, const float* from,
                  float* to) {
  const EvenParts parts(p.places, kPlaces);
  const int64_t grain = ceil_div(kFloats / 16, parts.largest() * p.count);
  parallel_for(images * p.s.in * parts.count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i / parts.count;
      merge_places(k, p, from + channel * p.count * p.places, parts[i % parts.count],
                   to + channel * p.size);
    }
  });
}

/// A single channel the library computes well, unless its signal is long, or the stride, or y's
/// channels are few. (One thread of a Zen 4, GFlops in the library and so, of [images, channels of
/// x, of y, size, kernel, stride]: [8, 1, 64, 262144, 1024, 512] 19, 76; [8, 1, 64, 32000, 2048,
/// 512] 21, 71; [1, 1, 64, 1000000, 256, 64] 49, 82; [1, 1, 4, 65536, 512, 128] 8, 49; [8, 1, 64,
/// 65536, 64, 32] 54, 52. [2, 2, 32, 65536, 32, 16] 21, 53;
/// [2, 4, 32, 65536, 16, 8] 27, 53; [2, 16, 32, 65536, 4, 2] 31, 48; [4, 32, 64, 8192, 4, 2] 71,
/// 66; [16, 2, 64, 1024, 16, 8] 61, 43.)
bool pays(const Phasing& p) {
  constexpr int64_t kFarApart = 256, kApart = 32, kLongSignal = int64_t{1} << 18, kFewResults = 16,
                    kFewChannels = 16, kVector = 16, kFewestPlaces = 4096;
  const ConvolutionSpec& s = p.s;
  if (s.in == 1)
    return p.count >= kFarApart ||
           (p.count >= kApart && (p.size >= kLongSignal || s.out <= kFewResults));
  return p.count > 1 && s.in <= kFewChannels && p.channels() >= kVector && p.size >= kFewestPlaces;
}

}  // namespace

bool has_phases(const ConvolutionSpec& s) {
  return is_signal(s) && s.groups == 1 && s.dilation[2] == 1 && s.kernel[2] % s.stride[2] == 0;
}

bool is_phased(const ConvolutionSpec& s, Sought sought) {
  if (sought != Sought::Input || slide_kernels() == nullptr || !has_phases(s)) return false;
  const Phasing p(s);
  return pays(p) && is_sliding(p.spec_of(s.images), Sought::Output);
}

void sum_in_phases(const SlideKernels& kernels, const ConvolutionSpec& s,
                   const ConvolutionData<float>& d) {
  const Phasing p(s);
  const int64_t images = p.images(), weights = round_up(p.weights(), kLine),
                biases = round_up(p.channels(), kLine);
  const ArenaLease lease =
      borrow_arena(static_cast<size_t>(weights + biases + images * p.made()) * sizeof(float));
  auto* const w = reinterpret_cast<float*>(lease.data());
  float *const bias = w + weights, *const phases = bias + biases;
  fill_weights(p, d.w, w);
  if (d.bias != nullptr)
    for (int64_t i = 0; i < p.channels(); ++i) bias[i] = d.bias[i / p.count];
  fill_rest(p, d);
  for (int64_t i = 0; i < s.images; i += images) {
    const int64_t some = std::min(images, s.images - i);
    convolve_sliding(
        kernels, p.spec_of(some), Sought::Output,
        {d.y + i * s.out * s.output[2], w, phases, d.bias != nullptr ? bias : nullptr});
    merge_phases(kernels, p, some, phases, d.x + i * s.in * p.size);
  }
}

}  // namespace tandem::machine
