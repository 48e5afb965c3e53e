#include <tandem/nn/pooling.h>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

// The functions by spatial dimensions, and the layers' names for errors.
#define TANDEM_OF_EACH(name, op) constexpr decltype(&op##1d) name[] = {op##1d, op##2d, op##3d};
TANDEM_OF_EACH(kMax, max_pool)
TANDEM_OF_EACH(kUnpool, max_unpool)
TANDEM_OF_EACH(kAvg, avg_pool)
TANDEM_OF_EACH(kLp, lp_pool)
TANDEM_OF_EACH(kAdaptiveAvg, adaptive_avg_pool)
TANDEM_OF_EACH(kAdaptiveMax, adaptive_max_pool)
#undef TANDEM_OF_EACH
constexpr decltype(&max_pool1d_with_indices) kMaxIndices[] = {
    max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices};
constexpr decltype(&adaptive_max_pool1d_with_indices) kAdaptiveMaxIndices[] = {
    adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices};
constexpr decltype(&fractional_max_pool2d_with_indices) kFractionalMaxIndices[] = {
    fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices};
constexpr const char* kFractionalMaxPool[] = {"FractionalMaxPool2d", "FractionalMaxPool3d"};
#define TANDEM_NAMES(name, layer) \
  constexpr const char* name[] = {layer "1d", layer "2d", layer "3d"};
TANDEM_NAMES(kMaxPool, "MaxPool")
TANDEM_NAMES(kMaxUnpool, "MaxUnpool")
TANDEM_NAMES(kAvgPool, "AvgPool")
TANDEM_NAMES(kLPPool, "LPPool")
TANDEM_NAMES(kAdaptiveAvgPool, "AdaptiveAvgPool")
TANDEM_NAMES(kAdaptiveMaxPool, "AdaptiveMaxPool")
#undef TANDEM_NAMES

template <size_t spatial>
std::array<int64_t, spatial> each_or(const Spatial& numbers,
                                     const std::array<int64_t, spatial>& other, const char* name) {
  return numbers.dims().empty() ? other : each<spatial>(numbers, name);
}

template <size_t spatial>
MaxPoolOptions options_of(const MaxPool<spatial>& pool) {
  return {.stride = spatial_of(pool.stride),
          .padding = spatial_of(pool.padding),
          .dilation = spatial_of(pool.dilation),
          .ceil_mode = pool.ceil_mode};
}

}  // namespace

template <size_t spatial>
MaxPool<spatial>::MaxPool(const Spatial& window, const MaxPoolOptions& options, SourceLocation at)
    : ceil_mode(options.ceil_mode) {
  const ir::ErrorScope errors(at, kMaxPool[spatial - 1]);
  kernel_size = each<spatial>(window, "kernel_size");
  stride = each_or<spatial>(options.stride, kernel_size, "stride");
  padding = each<spatial>(options.padding, "padding");
  dilation = each<spatial>(options.dilation, "dilation");
}

template <size_t spatial>
Tensor MaxPool<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kMaxPool[spatial - 1]);
  return kMax[spatial - 1](x, spatial_of(kernel_size), options_of(*this), at);
}

template <size_t spatial>
ValuesAndIndices MaxPool<spatial>::with_indices(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kMaxPool[spatial - 1]);
  return kMaxIndices[spatial - 1](x, spatial_of(kernel_size), options_of(*this), at);
}

template <size_t spatial>
MaxUnpool<spatial>::MaxUnpool(const Spatial& window, const MaxUnpoolOptions& options,
                              SourceLocation at) {
  const ir::ErrorScope errors(at, kMaxUnpool[spatial - 1]);
  kernel_size = each<spatial>(window, "kernel_size");
  stride = each_or<spatial>(options.stride, kernel_size, "stride");
  padding = each<spatial>(options.padding, "padding");
}

template <size_t spatial>
Tensor MaxUnpool<spatial>::operator()(const Tensor& x, const Tensor& indices,
                                      const Spatial& output_size, SourceLocation at) const {
  const ir::ErrorScope errors(at, kMaxUnpool[spatial - 1]);
  return kUnpool[spatial - 1](
      x, indices, spatial_of(kernel_size),
      {.stride = spatial_of(stride), .padding = spatial_of(padding), .output_size = output_size},
      at);
}

template <size_t spatial>
AvgPool<spatial>::AvgPool(const Spatial& window, const AvgPoolOptions& options, SourceLocation at)
    : ceil_mode(options.ceil_mode),
      count_include_pad(options.count_include_pad),
      divisor_override(options.divisor_override) {
  const ir::ErrorScope errors(at, kAvgPool[spatial - 1]);
  kernel_size = each<spatial>(window, "kernel_size");
  stride = each_or<spatial>(options.stride, kernel_size, "stride");
  padding = each<spatial>(options.padding, "padding");
}

template <size_t spatial>
Tensor AvgPool<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kAvgPool[spatial - 1]);
  return kAvg[spatial - 1](x, spatial_of(kernel_size),
                           {.stride = spatial_of(stride),
                            .padding = spatial_of(padding),
                            .ceil_mode = ceil_mode,
                            .count_include_pad = count_include_pad,
                            .divisor_override = divisor_override},
                           at);
}

template <size_t spatial>
LPPool<spatial>::LPPool(double norm, const Spatial& window, const LpPoolOptions& options,
                        SourceLocation at)
    : norm_type(norm), ceil_mode(options.ceil_mode) {
  const ir::ErrorScope errors(at, kLPPool[spatial - 1]);
  kernel_size = each<spatial>(window, "kernel_size");
  stride = each_or<spatial>(options.stride, kernel_size, "stride");
}

template <size_t spatial>
Tensor LPPool<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kLPPool[spatial - 1]);
  return kLp[spatial - 1](x, norm_type, spatial_of(kernel_size),
                          {.stride = spatial_of(stride), .ceil_mode = ceil_mode}, at);
}

template <size_t spatial>
AdaptiveAvgPool<spatial>::AdaptiveAvgPool(const Spatial& size, SourceLocation at) {
  const ir::ErrorScope errors(at, kAdaptiveAvgPool[spatial - 1]);
  output_size = each<spatial>(size, "output_size");
}

template <size_t spatial>
Tensor AdaptiveAvgPool<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kAdaptiveAvgPool[spatial - 1]);
  return kAdaptiveAvg[spatial - 1](x, spatial_of(output_size), at);
}

template <size_t spatial>
AdaptiveMaxPool<spatial>::AdaptiveMaxPool(const Spatial& size, SourceLocation at) {
  const ir::ErrorScope errors(at, kAdaptiveMaxPool[spatial - 1]);
  output_size = each<spatial>(size, "output_size");
}

template <size_t spatial>
Tensor AdaptiveMaxPool<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kAdaptiveMaxPool[spatial - 1]);
  return kAdaptiveMax[spatial - 1](x, spatial_of(output_size), at);
}

template <size_t spatial>
ValuesAndIndices AdaptiveMaxPool<spatial>::with_indices(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kAdaptiveMaxPool[spatial - 1]);
  return kAdaptiveMaxIndices[spatial - 1](x, spatial_of(output_size), at);
}

template <size_t spatial>
FractionalMaxPool<spatial>::FractionalMaxPool(const Spatial& window,
                                              const FractionalMaxPoolOptions& options,
                                              SourceLocation at)
    : output_ratio(options.output_ratio) {
  const ir::ErrorScope errors(at, kFractionalMaxPool[spatial - 2]);
  kernel_size = each<spatial>(window, "kernel_size");
  runtime::require_sizes_or_ratios(options, spatial);
  if (options.output_size.dims().empty()) return;
  const auto sizes = each<spatial>(options.output_size, "output_size");
  output_size.assign(sizes.begin(), sizes.end());
}

template <size_t spatial>
Tensor FractionalMaxPool<spatial>::operator()(const Tensor& x, const Tensor& random_samples,
                                              SourceLocation at) const {
  return with_indices(x, random_samples, at).values;
}

template <size_t spatial>
ValuesAndIndices FractionalMaxPool<spatial>::with_indices(const Tensor& x,
                                                          const Tensor& random_samples,
                                                          SourceLocation at) const {
  const ir::ErrorScope errors(at, kFractionalMaxPool[spatial - 2]);
  Shape sizes;
  for (const int64_t size : output_size) sizes.push_back(size);
  return kFractionalMaxIndices[spatial - 2](
      x, spatial_of(kernel_size),
      {.output_size = sizes, .output_ratio = output_ratio, .random_samples = random_samples}, at);
}

#define TANDEM_OF_EACH(Layer) \
  template struct Layer<1>;   \
  template struct Layer<2>;   \
  template struct Layer<3>;
TANDEM_OF_EACH(MaxPool)
TANDEM_OF_EACH(MaxUnpool)
TANDEM_OF_EACH(AvgPool)
TANDEM_OF_EACH(LPPool)
TANDEM_OF_EACH(AdaptiveAvgPool)
TANDEM_OF_EACH(AdaptiveMaxPool)
#undef TANDEM_OF_EACH
template struct FractionalMaxPool<2>;
template struct FractionalMaxPool<3>;

}  // namespace tandem::nn
