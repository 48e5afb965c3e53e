#include <tandem/nn/linear.h>
#include <tandem/ops/linalg.h>
#include <tandem/ops/quantized.h>

#include "runtime/nn/layer.h"

namespace tandem::nn {

Linear::Linear(Dim in, Dim out, bool with_bias, DType dtype) {
  weight = uniform_parameter({out, in}, bound_of(in), dtype);
  if (with_bias) bias = uniform_parameter({out}, bound_of(in), dtype);
}

Tensor Linear::operator()(const Tensor& x, SourceLocation at) const {
  if (!scale.defined()) return linear(x, weight, bias, at);
  return (dynamic ? dynamic_int8_linear : int8_linear)(x, weight, scale, bias, at);
}

Bilinear::Bilinear(Dim in1, Dim in2, Dim out, bool with_bias, DType dtype) {
  weight = uniform_parameter({out, in1, in2}, bound_of(in1), dtype);
  if (with_bias) bias = uniform_parameter({out}, bound_of(in1), dtype);
}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2, SourceLocation at) const {
  return bilinear(x1, x2, weight, bias, at);
}

}  // namespace tandem::nn
