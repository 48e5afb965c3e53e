// Pools over one, two or three spatial dimensions: of x [n, channels, spatial...] or [channels,
// spatial...]. A stride that is left out is the window's size.
#ifndef TANDEM_NN_POOLING_H
#define TANDEM_NN_POOLING_H

#include <tandem/ops/networks.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

template <size_t spatial>
struct TANDEM_API MaxPool {
  std::array<int64_t, spatial> kernel_size{}, stride{}, padding{}, dilation{};
  bool ceil_mode = false;
  TANDEM_LAZY_FIELDS(MaxPool, kernel_size, stride, padding, dilation, ceil_mode)

  MaxPool() = default;
  explicit MaxPool(const Spatial& kernel_size, const MaxPoolOptions& options = {}, TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
  /// With the places of the maxima in each channel, for MaxUnpool (PyTorch: return_indices).
  ValuesAndIndices with_indices(const Tensor& x, TANDEM_AT) const;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

/// Puts maxima back where they were, zeros elsewhere.
template <size_t spatial>
struct TANDEM_API MaxUnpool {
  std::array<int64_t, spatial> kernel_size{}, stride{}, padding{};
  TANDEM_LAZY_FIELDS(MaxUnpool, kernel_size, stride, padding)

  MaxUnpool() = default;
  /// Of the options all but the output_size, which comes with the call.
  explicit MaxUnpool(const Spatial& kernel_size, const MaxUnpoolOptions& options = {}, TANDEM_AT);
  Tensor operator()(const Tensor& x, const Tensor& indices, const Spatial& output_size = {},
                    TANDEM_AT) const;
};
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;

template <size_t spatial>
struct TANDEM_API AvgPool {
  std::array<int64_t, spatial> kernel_size{}, stride{}, padding{};
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override;
  TANDEM_LAZY_FIELDS(AvgPool, kernel_size, stride, padding, ceil_mode, count_include_pad,
                     divisor_override)

  AvgPool() = default;
  explicit AvgPool(const Spatial& kernel_size, const AvgPoolOptions& options = {}, TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

/// The norm_type-norm of each window.
template <size_t spatial>
struct TANDEM_API LPPool {
  double norm_type = 2;
  std::array<int64_t, spatial> kernel_size{}, stride{};
  bool ceil_mode = false;
  TANDEM_LAZY_FIELDS(LPPool, norm_type, kernel_size, stride, ceil_mode)

  LPPool() = default;
  LPPool(double norm_type, const Spatial& kernel_size, const LpPoolOptions& options = {},
         TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};
using LPPool1d = LPPool<1>;
using LPPool2d = LPPool<2>;
using LPPool3d = LPPool<3>;

/// To these spatial sizes, whatever x's; -1 keeps one.
template <size_t spatial>
struct TANDEM_API AdaptiveAvgPool {
  std::array<int64_t, spatial> output_size{};
  TANDEM_LAZY_FIELDS(AdaptiveAvgPool, output_size)

  AdaptiveAvgPool() = default;
  explicit AdaptiveAvgPool(const Spatial& output_size, TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

template <size_t spatial>
struct TANDEM_API AdaptiveMaxPool {
  std::array<int64_t, spatial> output_size{};
  TANDEM_LAZY_FIELDS(AdaptiveMaxPool, output_size)

  AdaptiveMaxPool() = default;
  explicit AdaptiveMaxPool(const Spatial& output_size, TANDEM_AT);
  Tensor operator()(const Tensor& x, TANDEM_AT) const;
  ValuesAndIndices with_indices(const Tensor& x, TANDEM_AT) const;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

/// To `output_size` windows along each dimension, or to the part `output_ratio` of x's sizes; where
/// they begin is random for each channel, or as `random_samples` of the call say.
template <size_t spatial>
struct TANDEM_API FractionalMaxPool {
  std::array<int64_t, spatial> kernel_size{};
  std::vector<int64_t> output_size;  // empty: by output_ratio
  std::vector<double> output_ratio;
  TANDEM_LAZY_FIELDS(FractionalMaxPool, kernel_size, output_size, output_ratio)

  FractionalMaxPool() = default;
  /// Of the options all but the random_samples, which come with the call.
  FractionalMaxPool(const Spatial& kernel_size, const FractionalMaxPoolOptions& options, TANDEM_AT);
  Tensor operator()(const Tensor& x, const Tensor& random_samples = {}, TANDEM_AT) const;
  ValuesAndIndices with_indices(const Tensor& x, const Tensor& random_samples = {},
                                TANDEM_AT) const;
};
using FractionalMaxPool2d = FractionalMaxPool<2>;
using FractionalMaxPool3d = FractionalMaxPool<3>;

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_POOLING_H
