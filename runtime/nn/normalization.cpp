#include <tandem/autograd.h>
#include <tandem/nn/normalization.h>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

constexpr const char *kBatchNorm[] = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"},
                     *kInstanceNorm[] = {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"};

/// All batches count the same: each new one 1 / num_batches_tracked.
void take_average(const ChannelNorm& norm, const Tensor& x) {
  const NoGrad no_grad;
  DimList dims{0};
  for (int d = 2; d < x.dim(); ++d) dims.dims.push_back(d);
  const auto [var, mean] = var_mean(x, dims);
  norm.running_mean += (mean - norm.running_mean) / norm.num_batches_tracked;
  norm.running_var += (var - norm.running_var) / norm.num_batches_tracked;
}

Tensor batch_normed(const ChannelNorm& norm, const Tensor& x, const SourceLocation& at) {
  const bool tracks = norm.running_mean.defined();
  const bool by_batch = norm.training || !tracks, averages = by_batch && tracks && !norm.momentum;
  const Tensor none;
  const Tensor &mean = averages ? none : norm.running_mean,
               &var = averages ? none : norm.running_var;
  Tensor out = batch_norm(x, mean, var, norm.weight, norm.bias, by_batch, norm.momentum.value_or(0),
                          norm.eps, at);
  if (by_batch && norm.num_batches_tracked.defined()) norm.num_batches_tracked.add_(1);
  if (averages) take_average(norm, x);
  return out;
}

std::vector<int64_t> numbers_of(const Shape& sizes) { return {sizes.begin(), sizes.end()}; }

}  // namespace

ChannelNorm::ChannelNorm(Dim channels, const BatchNormOptions& options)
    : eps(options.eps), momentum(options.momentum) {
  if (options.affine) {
    weight = ones({channels}, options.dtype).requires_grad_();
    bias = zeros({channels}, options.dtype).requires_grad_();
  }
  if (options.track_running_stats) {
    running_mean = zeros({channels}, options.dtype);
    running_var = ones({channels}, options.dtype);
    num_batches_tracked = zeros({}, i64);
  }
}

template <size_t spatial>
Tensor BatchNorm<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kBatchNorm[spatial - 1]);
  require_rank(x, spatial + 2, spatial == 1 ? 2 : spatial + 2);
  return batch_normed(*this, x, at);
}

template <size_t spatial>
InstanceNorm<spatial>::InstanceNorm(Dim channels, const InstanceNormOptions& options)
    : ChannelNorm(channels, {.eps = options.eps,
                             .momentum = options.momentum,
                             .affine = options.affine,
                             .track_running_stats = options.track_running_stats,
                             .dtype = options.dtype}) {}

template <size_t spatial>
Tensor InstanceNorm<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kInstanceNorm[spatial - 1]);
  require_rank(x, spatial + 1, spatial + 2);
  const bool single = x.dim() == spatial + 1, by_image = training || !running_mean.defined();
  const Tensor out = instance_norm(single ? x.unsqueeze(0, at) : x, running_mean, running_var,
                                   weight, bias, by_image, momentum.value_or(0), eps, at);
  return single ? out.squeeze(0, at) : out;
}

template struct BatchNorm<1>;
template struct BatchNorm<2>;
template struct BatchNorm<3>;
template struct InstanceNorm<1>;
template struct InstanceNorm<2>;
template struct InstanceNorm<3>;

LayerNorm::LayerNorm(const Shape& sizes, const LayerNormOptions& options)
    : normalized_shape(numbers_of(sizes)), eps(options.eps) {
  if (!options.elementwise_affine) return;
  weight = ones(sizes, options.dtype).requires_grad_();
  if (options.bias) bias = zeros(sizes, options.dtype).requires_grad_();
}

RMSNorm::RMSNorm(const Shape& sizes, const RmsNormOptions& options)
    : normalized_shape(numbers_of(sizes)), eps(options.eps) {
  if (options.elementwise_affine) weight = ones(sizes, options.dtype).requires_grad_();
}

GroupNorm::GroupNorm(Dim groups, Dim channels, const GroupNormOptions& options, SourceLocation at)
    : num_groups(groups), eps(options.eps) {
  const ir::ErrorScope errors(at);
  if (groups < 1 || channels % groups != 0)
    ir::fail(Errc::Argument,
             fmt::format("GroupNorm: num_groups does not fit; expected a divisor of {} channels, "
                         "got {}",
                         int64_t{channels}, int64_t{groups}));
  if (!options.affine) return;
  weight = ones({channels}, options.dtype).requires_grad_();
  bias = zeros({channels}, options.dtype).requires_grad_();
}

}  // namespace tandem::nn
