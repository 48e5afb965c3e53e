// Layers that rearrange, pad or resample.
#ifndef TANDEM_NN_SHAPE_H
#define TANDEM_NN_SHAPE_H

#include <tandem/ops/networks.h>
#include <tandem/ops/shapes.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// Dimensions start_dim to end_dim as one.
struct Flatten {
  int64_t start_dim = 1, end_dim = -1;
  TANDEM_LAZY_FIELDS(Flatten, start_dim, end_dim)
  Tensor operator()(const Tensor& x, TANDEM_AT) const { return flatten(x, start_dim, end_dim, at); }
};

/// Dimension `dim` as several; one of `sizes` may be -1.
struct Unflatten {
  int64_t dim = 1;
  std::vector<int64_t> sizes = {};
  TANDEM_LAZY_FIELDS(Unflatten, dim, sizes)
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return unflatten(x, dim, Shape(sizes), at);
  }
};

/// x [..., c f f, h, w] -> [..., c, h f, w f].
struct PixelShuffle {
  int64_t upscale_factor = 1;
  TANDEM_LAZY_FIELDS(PixelShuffle, upscale_factor)
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return pixel_shuffle(x, upscale_factor, at);
  }
};
/// Its inverse.
struct PixelUnshuffle {
  int64_t downscale_factor = 1;
  TANDEM_LAZY_FIELDS(PixelUnshuffle, downscale_factor)
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return pixel_unshuffle(x, downscale_factor, at);
  }
};
struct ChannelShuffle {
  int64_t groups = 1;
  TANDEM_LAZY_FIELDS(ChannelShuffle, groups)
  Tensor operator()(const Tensor& x, TANDEM_AT) const { return channel_shuffle(x, groups, at); }
};

/// interpolate() with options that stay: to spatial sizes, or by factors (one number, or one for
/// each dimension).
struct Upsample {
  std::vector<int64_t> size = {};
  std::vector<double> scale_factor = {};
  std::string mode = "nearest";
  bool align_corners = false, recompute_scale_factor = false;
  TANDEM_LAZY_FIELDS(Upsample, size, scale_factor, mode, align_corners, recompute_scale_factor)
  TANDEM_API Tensor operator()(const Tensor& x, TANDEM_AT) const;
};

/// Windows of images [n, c, h, w] as columns [n, c kernel, windows].
struct TANDEM_API Unfold {
  std::array<int64_t, 2> kernel_size{}, dilation{}, padding{}, stride{};
  TANDEM_LAZY_FIELDS(Unfold, kernel_size, dilation, padding, stride)

  Unfold() = default;
  explicit Unfold(const Spatial& kernel_size, const BlockOptions& options = {}, TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};
/// Columns added up to images of output_size.
struct TANDEM_API Fold {
  std::array<int64_t, 2> output_size{}, kernel_size{}, dilation{}, padding{}, stride{};
  TANDEM_LAZY_FIELDS(Fold, output_size, kernel_size, dilation, padding, stride)

  Fold() = default;
  Fold(const Spatial& output_size, const Spatial& kernel_size, const BlockOptions& options = {},
       TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};

/// What pads have: one number for all sides, or [before, after] of the last dimension, then of the
/// one before it, ...
template <size_t spatial>
struct TANDEM_API Padding {
  std::array<int64_t, 2 * spatial> padding{};
  TANDEM_LAZY_FIELDS(Padding, padding)

  Padding() = default;
  explicit Padding(const Spatial& padding, TANDEM_AT);

 protected:
  Tensor padded(const Tensor& x, std::string_view mode, double value,
                const SourceLocation& at) const;
};

#define TANDEM_PAD(Name, mode)                                                                   \
  template <size_t spatial>                                                                      \
  struct Name : Padding<spatial> {                                                               \
    using Padding<spatial>::Padding;                                                             \
    Tensor operator()(const Tensor& x, TANDEM_AT) const { return this->padded(x, mode, 0, at); } \
  };                                                                                             \
  using Name##1d = Name<1>;                                                                      \
  using Name##2d = Name<2>;                                                                      \
  using Name##3d = Name<3>;
TANDEM_PAD(ZeroPad, "constant")
TANDEM_PAD(ReflectionPad, "reflect")
TANDEM_PAD(ReplicationPad, "replicate")
TANDEM_PAD(CircularPad, "circular")
#undef TANDEM_PAD

template <size_t spatial>
struct ConstantPad : Padding<spatial> {
  double value = 0;
  TANDEM_FIELDS_AND_BASE(ConstantPad, Padding<spatial>, value)

  ConstantPad() = default;
  ConstantPad(const Spatial& padding, double fill, TANDEM_AT)
      : Padding<spatial>(padding, at), value(fill) {}
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return this->padded(x, "constant", value, at);
  }
};
using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_SHAPE_H
