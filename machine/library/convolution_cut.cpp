#include "machine/library/convolution_cut.h"

#include <algorithm>

namespace tandem::machine {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How many channels a part has at least, and of what it has a multiple.
constexpr int64_t kChannels = 16, kFewest = 32;
constexpr double kLeastFlops = 1 << 21, kMostParts = 16;

}  // namespace

int64_t cut_extent(const ConvolutionSpec& s, Sought sought) {
  if (s.groups > 1) return s.groups;
  return sought == Sought::Input ? s.in : s.out;
}

Cut cut_of(const ConvolutionSpec& s, Sought sought) {
  const auto most = static_cast<int64_t>(std::clamp(flops(s) / kLeastFlops, 1.0, kMostParts));
  const int64_t extent = cut_extent(s, sought);
  const int64_t channel_cuts = std::max<int64_t>(extent / kFewest, 1);
  const bool is_weight = sought == Sought::Weight;
  const int64_t images = is_weight
                             ? std::min(s.images, ceil_div(most, std::min(most, channel_cuts)))
                             : std::min(s.images, most);
  const int64_t channels = std::clamp<int64_t>(most / images, 1, channel_cuts);
  Cut cut;
  cut.images = ceil_div(s.images, images);
  cut.channels =
      channels == 1 ? extent : ceil_div(ceil_div(extent, channels), kChannels) * kChannels;
  cut.image_parts = ceil_div(s.images, cut.images);
  cut.channel_parts = ceil_div(extent, cut.channels);
  return cut;
}

ConvolutionSpec part_spec(ConvolutionSpec s, Sought sought, int64_t images, int64_t channels) {
  s.images = images;
  if (s.groups > 1) {
    s.in = s.in / s.groups * channels;
    s.out = s.out / s.groups * channels;
    s.groups = channels;
  } else {
    (sought == Sought::Input ? s.in : s.out) = channels;
  }
  return s;
}

}  // namespace tandem::machine
