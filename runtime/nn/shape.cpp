#include <tandem/nn/shape.h>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

template <class Layer>
void take_blocks(Layer& layer, const Spatial& kernel_size, const BlockOptions& options) {
  layer.kernel_size = each<2>(kernel_size, "kernel_size");
  layer.dilation = each<2>(options.dilation, "dilation");
  layer.padding = each<2>(options.padding, "padding");
  layer.stride = each<2>(options.stride, "stride");
}

template <class Layer>
BlockOptions blocks_of(const Layer& layer) {
  return {.dilation = spatial_of(layer.dilation),
          .padding = spatial_of(layer.padding),
          .stride = spatial_of(layer.stride)};
}

}  // namespace

Tensor Upsample::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, "Upsample");
  return interpolate(x,
                     {.size = size.empty() ? Spatial() : Spatial(Shape(size)),
                      .scale_factor = scale_factor,
                      .mode = mode,
                      .align_corners = align_corners,
                      .recompute_scale_factor = recompute_scale_factor},
                     at);
}

Unfold::Unfold(const Spatial& kernel, const BlockOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  take_blocks(*this, kernel, options);
}

Tensor Unfold::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, "Unfold");
  return im2col(x, spatial_of(kernel_size), blocks_of(*this), at);
}

Fold::Fold(const Spatial& size, const Spatial& kernel, const BlockOptions& options,
           SourceLocation at) {
  const ir::ErrorScope errors(at);
  output_size = each<2>(size, "output_size");
  take_blocks(*this, kernel, options);
}

Tensor Fold::operator()(const Tensor& x, SourceLocation at) const {
  const ir::ErrorScope errors(at, "Fold");
  return fold(x, spatial_of(output_size), spatial_of(kernel_size), blocks_of(*this), at);
}

template <size_t spatial>
Padding<spatial>::Padding(const Spatial& sides, SourceLocation at) {
  const ir::ErrorScope errors(at, "pad");
  padding = each<2 * spatial>(sides, "padding");
}

template <size_t spatial>
Tensor Padding<spatial>::padded(const Tensor& x, std::string_view mode, double value,
                                const SourceLocation& at) const {
  const ir::ErrorScope errors(at, "pad");
  const std::vector<Dim> sides(padding.begin(), padding.end());
  if (mode == "constant") return pad(x, sides, value, at);
  require_rank(x, spatial + 1, spatial + 2);
  return pad(x, sides, mode, {}, at);
}

template struct Padding<1>;
template struct Padding<2>;
template struct Padding<3>;

}  // namespace tandem::nn
