// Layers that normalise.
#ifndef TANDEM_NN_NORMALIZATION_H
#define TANDEM_NN_NORMALIZATION_H

#include <tandem/ops/networks.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// momentum: how much the running statistics take up of a batch's; left out: all batches count the
/// same.
struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;
  bool affine = true, track_running_stats = true;
  DType dtype = f32;
};
struct InstanceNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = false, track_running_stats = false;
  DType dtype = f32;
};

/// What norms over channels have: weight (ones) and bias (zeros) [channels], undefined unless
/// affine; running statistics [channels] (zeros and ones), undefined unless tracked.
struct ChannelNorm {
  Tensor weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;
  bool training = true;
  TANDEM_LAZY_FIELDS(ChannelNorm, weight, bias, running_mean, running_var, num_batches_tracked, eps,
                     momentum, training)

  ChannelNorm() = default;
  TANDEM_API ChannelNorm(Dim channels, const BatchNormOptions& options);
};

/// Over all but the channels: in training (and without running statistics) by those of the batch,
/// which the running ones take up, else by the running ones.
template <size_t spatial>
struct TANDEM_API BatchNorm : ChannelNorm {
  BatchNorm() = default;
  explicit BatchNorm(Dim channels, const BatchNormOptions& options = {})
      : ChannelNorm(channels, options) {}
  /// x [n, channels, ...]; of BatchNorm1d also [n, channels].
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

/// Each channel of each image by its own statistics; out of training by the running ones, if they
/// are tracked.
template <size_t spatial>
struct TANDEM_API InstanceNorm : ChannelNorm {
  InstanceNorm() = default;
  explicit InstanceNorm(Dim channels, const InstanceNormOptions& options = {});
  /// x [n, channels, ...] or [channels, ...].
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true, bias = true;
  DType dtype = f32;
};

/// Normalises the last dimensions, then scales by weight (ones at first) and shifts by bias
/// (zeros), both of these sizes or undefined.
struct LayerNorm {
  Tensor weight, bias;
  std::vector<int64_t> normalized_shape;
  double eps = 1e-5;
  TANDEM_LAZY_FIELDS(LayerNorm, weight, bias, normalized_shape, eps)

  LayerNorm() = default;
  TANDEM_API explicit LayerNorm(const Shape& sizes, const LayerNormOptions& options = {});
  template <std::convertible_to<Dim> Size>
  explicit LayerNorm(Size size, const LayerNormOptions& options = {})
      : LayerNorm(Shape{Dim(size)}, options) {}
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return layer_norm(x, Shape(normalized_shape), weight, bias, eps, at);
  }
};

/// eps: the dtype's epsilon if left out.
struct RmsNormOptions {
  std::optional<double> eps = {};
  bool elementwise_affine = true;
  DType dtype = f32;
};

/// Divides the last dimensions by the root of their mean square, then scales by weight (ones at
/// first).
struct RMSNorm {
  Tensor weight;
  std::vector<int64_t> normalized_shape;
  std::optional<double> eps;
  TANDEM_LAZY_FIELDS(RMSNorm, weight, normalized_shape, eps)

  RMSNorm() = default;
  TANDEM_API explicit RMSNorm(const Shape& sizes, const RmsNormOptions& options = {});
  template <std::convertible_to<Dim> Size>
  explicit RMSNorm(Size size, const RmsNormOptions& options = {})
      : RMSNorm(Shape{Dim(size)}, options) {}
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return rms_norm(x, Shape(normalized_shape), weight, eps, at);
  }
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  DType dtype = f32;
};

/// Over each of num_groups groups of neighbouring channels, then by weight (ones) and bias (zeros)
/// [channels]. Error{Argument} for groups that do not divide the channels.
struct GroupNorm {
  Tensor weight, bias;
  int64_t num_groups = 1;
  double eps = 1e-5;
  TANDEM_LAZY_FIELDS(GroupNorm, weight, bias, num_groups, eps)

  GroupNorm() = default;
  TANDEM_API GroupNorm(Dim num_groups, Dim channels, const GroupNormOptions& options = {},
                       TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return group_norm(x, num_groups, weight, bias, eps, at);
  }
};

/// By the squares of `size` neighbouring channels.
struct LocalResponseNorm {
  int64_t size = 1;
  double alpha = 1e-4, beta = 0.75, k = 1;
  TANDEM_LAZY_FIELDS(LocalResponseNorm, size, alpha, beta, k)
  Tensor operator()(const Tensor& x, TANDEM_AT) const {
    return local_response_norm(x, size, alpha, beta, k, at);
  }
};

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_NORMALIZATION_H
