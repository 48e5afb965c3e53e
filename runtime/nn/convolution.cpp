#include <tandem/nn/convolution.h>
#include <tandem/ops/shapes.h>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

template <size_t count>
using Numbers = std::array<int64_t, count>;

constexpr const char *kConv[] = {"Conv1d", "Conv2d", "Conv3d"},
                     *kTranspose[] = {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"};
constexpr decltype(&conv1d) kConvolution[] = {conv1d, conv2d, conv3d};
constexpr decltype(&conv_transpose1d) kTransposed[] = {conv_transpose1d, conv_transpose2d,
                                                       conv_transpose3d};

void require_groups(Dim in, Dim out, int64_t groups) {
  if (groups < 1 || in % groups != 0 || out % groups != 0)
    ir::fail(Errc::Argument,
             fmt::format("{}: groups do not fit; expected a divisor of {} and {} channels, got {}",
                         ir::ErrorScope::function(), int64_t{in}, int64_t{out}, groups));
}

std::string padding_mode_of(std::string_view mode) {
  for (const char* known : {"zeros", "reflect", "replicate", "circular"})
    if (mode == known) return known;
  ir::fail(Errc::Argument, fmt::format("{}: unknown padding_mode; expected zeros, reflect, "
                                       "replicate or circular, got {}",
                                       ir::ErrorScope::function(), mode));
}

/// [outer, inner, kernel...].
template <size_t spatial>
Shape weight_sizes(Dim outer, Dim inner, const Numbers<spatial>& kernel) {
  Shape sizes{outer, inner};
  for (const int64_t k : kernel) sizes.push_back(k);
  return sizes;
}

/// What a window of the kernel's reach needs around it to keep sizes: the last dimension first.
template <size_t spatial>
Numbers<2 * spatial> same_padding(const Numbers<spatial>& kernel, const Numbers<spatial>& dilation,
                                  const Numbers<spatial>& stride) {
  Numbers<2 * spatial> padding{};
  for (size_t d = 0; d < spatial; ++d) {
    if (stride[d] != 1)
      ir::fail(Errc::Argument, fmt::format("{}: padding \"same\" expected a stride of 1, got {}",
                                           ir::ErrorScope::function(), stride[d]));
    const int64_t total = dilation[d] * (kernel[d] - 1), at = 2 * (spatial - 1 - d);
    padding[at] = total / 2;
    padding[at + 1] = total - total / 2;
  }
  return padding;
}

template <size_t spatial>
Numbers<2 * spatial> both_sides(const Numbers<spatial>& amount) {
  Numbers<2 * spatial> padding{};
  for (size_t d = 0; d < spatial; ++d)
    padding[2 * (spatial - 1 - d)] = padding[2 * (spatial - 1 - d) + 1] = amount[d];
  return padding;
}

/// What zeros are put on both sides of each dimension, if as many are.
template <size_t spatial>
std::optional<Numbers<spatial>> equal_sides(const Numbers<2 * spatial>& padding) {
  Numbers<spatial> amount{};
  for (size_t d = 0; d < spatial; ++d) {
    amount[d] = padding[2 * (spatial - 1 - d)];
    if (amount[d] != padding[2 * (spatial - 1 - d) + 1]) return {};
  }
  return amount;
}

/// The output_padding that gives these sizes.
template <size_t spatial>
Spatial padding_for(const ConvTranspose<spatial>& layer, const Tensor& x,
                    const Spatial& output_size) {
  const Numbers<spatial> wanted = each<spatial>(output_size, "output_size");
  Numbers<spatial> out{};
  for (int d = 0; d < static_cast<int>(spatial); ++d) {
    const int from_end = d - static_cast<int>(spatial);
    const int64_t least = (x.size(from_end) - 1) * layer.stride[d] - 2 * layer.padding[d] +
                          layer.dilation[d] * (layer.weight.size(from_end) - 1) + 1;
    out[d] = wanted[d] - least;
    if (out[d] < 0 || out[d] >= layer.stride[d])
      ir::fail(
          Errc::Argument,
          fmt::format("{}: output_size out of range; expected {} to {}, got {}",
                      ir::ErrorScope::function(), least, least + layer.stride[d] - 1, wanted[d]));
  }
  return spatial_of(out);
}

}  // namespace

template <size_t spatial>
Conv<spatial>::Conv(Dim in, Dim out, const Spatial& kernel_size, const ConvOptions& options,
                    SourceLocation at)
    : groups(options.groups) {
  const ir::ErrorScope errors(at, kConv[spatial - 1]);
  require_groups(in, out, groups);
  padding_mode = padding_mode_of(options.padding_mode);
  const auto kernel = each<spatial>(kernel_size, "kernel_size");
  stride = each<spatial>(options.stride, "stride");
  dilation = each<spatial>(options.dilation, "dilation");
  const std::string& named = options.padding.mode();
  if (named == "same")
    padding = same_padding<spatial>(kernel, dilation, stride);
  else if (named.empty())
    padding = both_sides<spatial>(each<spatial>(options.padding.amount(), "padding"));
  else if (named != "valid")
    ir::fail(Errc::Argument, fmt::format("{}: unknown padding; expected numbers, same or valid, "
                                         "got {}",
                                         ir::ErrorScope::function(), named));
  const Shape sizes = weight_sizes<spatial>(out, in / groups, kernel);
  const double bound = bound_of(out == 0 ? Dim(0) : ir::numel(sizes) / out);
  weight = uniform_parameter(sizes, bound, options.dtype);
  if (options.bias) bias = uniform_parameter({out}, bound, options.dtype);
}

template <size_t spatial>
Tensor Conv<spatial>::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, kConv[spatial - 1]);
  const bool zeros = padding_mode == "zeros";
  tandem::ConvOptions options{
      .stride = spatial_of(stride), .dilation = spatial_of(dilation), .groups = groups};
  const auto equal = equal_sides<spatial>(padding);
  if (zeros && equal) {
    options.padding = Shape(*equal);
    return kConvolution[spatial - 1](x, weight, bias, options, at);
  }
  require_rank(x, spatial + 1, spatial + 2);
  const std::vector<Dim> sides(padding.begin(), padding.end());
  const Tensor padded = zeros ? pad(x, sides, 0, at) : pad(x, sides, padding_mode, {}, at);
  return kConvolution[spatial - 1](padded, weight, bias, options, at);
}

template <size_t spatial>
ConvTranspose<spatial>::ConvTranspose(Dim in, Dim out, const Spatial& kernel_size,
                                      const ConvTransposeOptions& options, SourceLocation at)
    : groups(options.groups) {
  const ir::ErrorScope errors(at, kTranspose[spatial - 1]);
  require_groups(in, out, groups);
  const auto kernel = each<spatial>(kernel_size, "kernel_size");
  stride = each<spatial>(options.stride, "stride");
  padding = each<spatial>(options.padding, "padding");
  output_padding = each<spatial>(options.output_padding, "output_padding");
  dilation = each<spatial>(options.dilation, "dilation");
  const Shape sizes = weight_sizes<spatial>(in, out / groups, kernel);
  const double bound = bound_of(in == 0 ? Dim(0) : ir::numel(sizes) / in);
  weight = uniform_parameter(sizes, bound, options.dtype);
  if (options.bias) bias = uniform_parameter({out}, bound, options.dtype);
}

template <size_t spatial>
Tensor ConvTranspose<spatial>::operator()(const Tensor& x, const Spatial& output_size,
                                          SourceLocation at) const {
  const ir::ErrorScope errors(at, kTranspose[spatial - 1]);
  require_rank(x, spatial + 1, spatial + 2);
  const Spatial more = output_size.dims().empty() ? spatial_of(output_padding)
                                                  : padding_for<spatial>(*this, x, output_size);
  return kTransposed[spatial - 1](x, weight, bias,
                                  {.stride = spatial_of(stride),
                                   .padding = spatial_of(padding),
                                   .output_padding = more,
                                   .groups = groups,
                                   .dilation = spatial_of(dilation)},
                                  at);
}

template struct Conv<1>;
template struct Conv<2>;
template struct Conv<3>;
template struct ConvTranspose<1>;
template struct ConvTranspose<2>;
template struct ConvTranspose<3>;

}  // namespace tandem::nn
