// Convolutions and their transposes over one, two or three spatial dimensions.
#ifndef TANDEM_NN_CONVOLUTION_H
#define TANDEM_NN_CONVOLUTION_H

#include <tandem/ops/networks.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// padding_mode: "zeros", "reflect", "replicate" or "circular".
struct ConvOptions {
  Spatial stride = 1;
  ConvPadding padding = 0;
  Spatial dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  std::string_view padding_mode = "zeros";
  DType dtype = f32;
};

/// weight [out, in / groups, kernel...] and bias [out] (undefined without bias), uniform in
/// +-1/sqrt(in / groups * kernel...) at first. `padding` is before and after each dimension, the
/// last one first, as pad takes it. Error{Argument} for groups that do not divide the channels, for
/// an unknown mode, and for padding "same" with strides.
template <size_t spatial>
struct TANDEM_API Conv {
  Tensor weight, bias;
  std::array<int64_t, spatial> stride{}, dilation{};
  std::array<int64_t, 2 * spatial> padding{};
  int64_t groups = 1;
  std::string padding_mode = "zeros";
  TANDEM_LAZY_FIELDS(Conv, weight, bias, stride, dilation, padding, groups, padding_mode)

  Conv() = default;
  Conv(Dim in, Dim out, const Spatial& kernel_size, const ConvOptions& options = {}, TANDEM_AT);
  /// x [n, in, ...] or [in, ...] -> [n, out, ...] or [out, ...].
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

struct ConvTransposeOptions {
  Spatial stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Spatial dilation = 1;
  DType dtype = f32;
};

/// weight [in, out / groups, kernel...] and bias [out] (undefined without bias), uniform in
/// +-1/sqrt(out / groups * kernel...) at first. Padding is with zeros alone, as in PyTorch.
template <size_t spatial>
struct TANDEM_API ConvTranspose {
  Tensor weight, bias;
  std::array<int64_t, spatial> stride{}, padding{}, output_padding{}, dilation{};
  int64_t groups = 1;
  TANDEM_LAZY_FIELDS(ConvTranspose, weight, bias, stride, padding, output_padding, dilation, groups)

  ConvTranspose() = default;
  ConvTranspose(Dim in, Dim out, const Spatial& kernel_size,
                const ConvTransposeOptions& options = {}, TANDEM_AT);
  /// x [n, in, ...] or [in, ...]. output_size: the spatial sizes of the result, of those that the
  /// stride leaves open; what output_padding says if it is left out.
  Tensor operator()(const Tensor& x, const Spatial& output_size = {}, TANDEM_AT) const;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_CONVOLUTION_H
