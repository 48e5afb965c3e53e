// Layers that are one matrix, or none.
#ifndef TANDEM_NN_LINEAR_H
#define TANDEM_NN_LINEAR_H

#include <tandem/ops.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// weight [out, in] and bias [out] (undefined without bias), uniform in +-1/sqrt(in) at first.
/// Quantised (<tandem/nn/quantize.h>) the weight is of i8 and has a scale [out]; else undefined.
struct Linear {
  Tensor weight, bias;
  Buffer scale;
  bool dynamic = false;  // quantised: x is brought into i8 as well
  TANDEM_LAZY_FIELDS(Linear, weight, bias, scale, dynamic)

  Linear() = default;
  TANDEM_API Linear(Dim in, Dim out, bool with_bias = true, DType dtype = f32);
  /// x [..., in] -> [..., out].
  TANDEM_API Tensor operator()(const Tensor& x, TANDEM_AT) const;
};

/// weight [out, in1, in2] and bias [out] (undefined without bias), uniform in +-1/sqrt(in1).
struct Bilinear {
  Tensor weight, bias;
  TANDEM_LAZY_FIELDS(Bilinear, weight, bias)

  Bilinear() = default;
  TANDEM_API Bilinear(Dim in1, Dim in2, Dim out, bool with_bias = true, DType dtype = f32);
  /// x1 [..., in1], x2 [..., in2] -> [..., out].
  TANDEM_API Tensor operator()(const Tensor& x1, const Tensor& x2, TANDEM_AT) const;
};

/// x itself.
struct Identity {
  TANDEM_LAZY_FIELDS(Identity)
  Tensor operator()(const Tensor& x) const { return x; }
};

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_LINEAR_H
