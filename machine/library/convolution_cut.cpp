#include "machine/library/convolution_cut.h"

#include <algorithm>

#include "machine/rounding.h"

namespace tandem::machine {
namespace {

/// How many channels a part has at least, and of what it has a multiple.
constexpr int64_t kChannels = 16, kFewest = 32;
constexpr double kLeastFlops = 1 << 21, kMostParts = 16;
/// Parts that are not given up to save reads: threads are to have some each.
constexpr int64_t kWantedParts = 8;

// Nanoseconds an element, on a Xeon with AVX-512: to read weights that the second-level cache
// holds, or does not; and to bring images into the layout that the library wants.
constexpr double kReadNs = 0.02, kReadFarNs = 0.12, kReorderNs = 0.3;
constexpr double kNearWeights = 1 << 17;

/// Into how many parts images and channels are cut.
struct Parts {
  int64_t images, channels;
};

/// What is read several times: the weights for each part of the images, the images for each part
/// of the channels.
double ns_of_reads(const ConvolutionSpec& s, Sought sought, const Parts& parts) {
  const auto weights = static_cast<double>(s.out * s.in * product(s.kernel));
  const auto images = static_cast<double>(
      s.images * (sought == Sought::Output ? s.in * product(s.input) : s.out * product(s.output)));
  return static_cast<double>(parts.images) * weights *
             (weights > kNearWeights ? kReadFarNs : kReadNs) +
         static_cast<double>(parts.channels) * images * kReorderNs;
}

/// About `most` parts, of so many cuts of the images.
Parts with_images(int64_t images, int64_t most, int64_t channel_cuts) {
  return {images, std::clamp<int64_t>(most / images, 1, channel_cuts)};
}

/// About `most` parts of a convolution that is no sum over images; fewer where that saves reads,
/// but not less than half of those that images can be cut into, nor less than are wanted.
Parts fewest_reads(const ConvolutionSpec& s, Sought sought, int64_t most, int64_t channel_cuts) {
  const Parts first = with_images(std::min(s.images, most), most, channel_cuts);
  const int64_t parts_of_images = first.images * first.channels,
                enough =
                    std::max(ceil_div(parts_of_images, 2), std::min(parts_of_images, kWantedParts));
  Parts best = first;
  for (int64_t images = first.images / 2; images >= 1; images /= 2) {
    const Parts parts = with_images(images, most, channel_cuts);
    if (parts.images * parts.channels >= enough &&
        ns_of_reads(s, sought, parts) < ns_of_reads(s, sought, best))
      best = parts;
  }
  return best;
}

/// A sum over images is cut where there are few channels; groups have weights of their own, so
/// images come first.
Parts parts_of(const ConvolutionSpec& s, Sought sought, int64_t most, int64_t channel_cuts) {
  if (sought != Sought::Weight && s.groups == 1) return fewest_reads(s, sought, most, channel_cuts);
  const int64_t images =
      sought == Sought::Weight ? ceil_div(most, std::min(most, channel_cuts)) : most;
  return with_images(std::min(s.images, images), most, channel_cuts);
}

}  // namespace

int64_t cut_extent(const ConvolutionSpec& s, Sought sought) {
  if (s.groups > 1) return s.groups;
  return sought == Sought::Input ? s.in : s.out;
}

Cut cut_of(const ConvolutionSpec& s, Sought sought) {
  const auto most = static_cast<int64_t>(std::clamp(flops(s) / kLeastFlops, 1.0, kMostParts));
  const int64_t extent = cut_extent(s, sought);
  const int64_t channel_cuts = std::max<int64_t>(extent / kFewest, 1);
  const auto [images, channels] = parts_of(s, sought, most, channel_cuts);
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
