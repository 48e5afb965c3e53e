#include "machine/library/convolution_cut.h"

#include <algorithm>
#include <optional>

#include "machine/rounding.h"

namespace tandem::machine {
namespace {

/// How many channels a part has at least, and of what it has a multiple.
constexpr int64_t kChannels = 16, kFewest = 32;
constexpr double kLeastFlops = 1 << 21, kMostParts = 16;
/// Parts of the rows bring rows between them into the library's layout twice.
constexpr double kLeastFlopsOfRows = 1 << 23;
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
Parts parts_in(const ConvolutionSpec& s, Sought sought, int64_t most, int64_t channel_cuts) {
  if (sought != Sought::Weight && s.groups == 1) return fewest_reads(s, sought, most, channel_cuts);
  const int64_t images =
      sought == Sought::Weight ? ceil_div(most, std::min(most, channel_cuts)) : most;
  return with_images(std::min(s.images, images), most, channel_cuts);
}

/// What channels are cut of: of what is sought, or groups, where there are several.
int64_t channel_extent(const ConvolutionSpec& s, Sought sought) {
  if (s.groups > 1) return s.groups;
  return sought == Sought::Input ? s.in : s.out;
}

// --- rows

struct Range {
  int64_t begin, end;
};

int64_t extent_of(const ConvolutionSpec& s, Sought sought, size_t d) {
  return (sought == Sought::Input ? s.input : s.output)[d];
}

/// What a window reaches over, less one.
int64_t reach(const ConvolutionSpec& s, size_t d) { return (s.kernel[d] - 1) * s.dilation[d]; }

/// Into how many parts a dimension is cut at most: so that windows see no more than half as many
/// rows of other parts as of their own.
int64_t most_parts(const ConvolutionSpec& s, Sought sought, size_t d) {
  const int64_t stride = sought == Sought::Input ? s.stride[d] : 1;
  const int64_t least = std::max<int64_t>(2 * reach(s, d), 2) * stride;
  return std::max<int64_t>(extent_of(s, sought, d) / least, 1);
}

/// Rows number `part` of `parts`, as many as of the others where strides allow: rows of the input
/// begin where windows do.
Range rows_of(const ConvolutionSpec& s, Sought sought, int64_t part, int64_t parts) {
  const size_t d = row_dim(s, sought);
  const int64_t extent = extent_of(s, sought, d);
  const auto begin = [&](int64_t number) {
    const int64_t row = extent * number / parts;
    if (sought != Sought::Input || number == 0 || number == parts) return row;
    return (row + s.padding[d]) / s.stride[d] * s.stride[d] - s.padding[d];
  };
  return {begin(part), begin(part + 1)};
}

/// Rows of the input that windows of rows `y` of the output see.
Range rows_seen(const ConvolutionSpec& s, size_t d, Range y) {
  const int64_t first = y.begin * s.stride[d] - s.padding[d];
  const int64_t last = (y.end - 1) * s.stride[d] - s.padding[d] + reach(s, d);
  return {std::max<int64_t>(first, 0), std::min(last + 1, s.input[d])};
}

/// Rows of the output whose windows see any of rows `x` of the input.
Range rows_seeing(const ConvolutionSpec& s, size_t d, Range x) {
  const int64_t first = x.begin + s.padding[d] - reach(s, d);
  const int64_t last = x.end - 1 + s.padding[d];
  return {ceil_div(std::max<int64_t>(first, 0), s.stride[d]),
          std::min(last / s.stride[d] + 1, s.output[d])};
}

/// Nothing where rows by themselves are no convolution.
std::optional<ConvolutionPart> part_of_rows(const ConvolutionSpec& whole, Sought sought,
                                            Range sought_rows) {
  const size_t d = row_dim(whole, sought);
  const bool is_input = sought == Sought::Input;
  const Range x = is_input ? sought_rows : rows_seen(whole, d, sought_rows);
  const Range y = is_input ? rows_seeing(whole, d, sought_rows) : sought_rows;
  ConvolutionPart part{.spec = whole, .x_row = x.begin, .y_row = y.begin};
  part.spec.input[d] = x.end - x.begin;
  part.spec.output[d] = y.end - y.begin;
  part.spec.padding[d] = x.begin + whole.padding[d] - y.begin * whole.stride[d];
  const bool is_one =
      part.spec.input[d] > 0 && part.spec.output[d] > 0 && part.spec.padding[d] >= 0;
  return is_one ? std::optional(part) : std::nullopt;
}

/// Rows are cut where images and channels leave threads without a part; not so finely that weights,
/// whose parts are added up, are more than what they are summed of.
int64_t row_parts_of(const ConvolutionSpec& s, Sought sought, int64_t other_parts) {
  const double most = std::clamp(flops(s) / kLeastFlopsOfRows, 1.0, kMostParts);
  const auto wanted = std::max<int64_t>(static_cast<int64_t>(most) / other_parts, 1);
  int64_t parts = std::min(most_parts(s, sought, row_dim(s, sought)), wanted);
  if (sought == Sought::Weight) {
    const int64_t weights = s.out * (s.in / s.groups) * product(s.kernel);
    const int64_t images = s.images * (s.in * product(s.input) + s.out * product(s.output));
    parts = std::clamp<int64_t>(images / weights, 1, parts);
  }
  for (int64_t p = 0; p < parts; ++p)
    if (!part_of_rows(s, sought, rows_of(s, sought, p, parts))) return 1;
  return parts;
}

ConvolutionSpec with_channels(ConvolutionSpec s, Sought sought, int64_t channels) {
  if (s.groups > 1) {
    s.in = s.in / s.groups * channels;
    s.out = s.out / s.groups * channels;
    s.groups = channels;
  } else {
    (sought == Sought::Input ? s.in : s.out) = channels;
  }
  return s;
}

}  // namespace

size_t row_dim(const ConvolutionSpec& s, Sought sought) {
  size_t best = 0;
  for (size_t d = 1; d < 3; ++d)
    if (most_parts(s, sought, d) > most_parts(s, sought, best)) best = d;
  return best;
}

Cut cut_of(const ConvolutionSpec& s, Sought sought) {
  const auto most = static_cast<int64_t>(std::clamp(flops(s) / kLeastFlops, 1.0, kMostParts));
  const int64_t extent = channel_extent(s, sought);
  const int64_t channel_cuts = std::max<int64_t>(extent / kFewest, 1);
  const auto [images, channels] = parts_in(s, sought, most, channel_cuts);
  Cut cut;
  cut.images = ceil_div(s.images, images);
  cut.channels =
      channels == 1 ? extent : ceil_div(ceil_div(extent, channels), kChannels) * kChannels;
  cut.image_parts = ceil_div(s.images, cut.images);
  cut.channel_parts = ceil_div(extent, cut.channels);
  cut.row_parts = row_parts_of(s, sought, cut.image_parts * cut.channel_parts);
  return cut;
}

std::vector<ConvolutionPart> parts_of(const ConvolutionSpec& s, Sought sought, const Cut& cut) {
  std::vector<ConvolutionPart> parts;
  const int64_t extent = channel_extent(s, sought);
  for (int64_t i = 0; i < s.images; i += cut.images)
    for (int64_t r = 0; r < cut.row_parts; ++r) {
      ConvolutionPart rows{.spec = s};
      if (cut.row_parts > 1) rows = *part_of_rows(s, sought, rows_of(s, sought, r, cut.row_parts));
      for (int64_t c = 0; c < extent; c += cut.channels) {
        ConvolutionPart part = rows;
        part.spec = with_channels(part.spec, sought, std::min(cut.channels, extent - c));
        part.spec.images = std::min(cut.images, s.images - i);
        part.image = i, part.channel = c;
        parts.push_back(part);
      }
    }
  return parts;
}

}  // namespace tandem::machine
