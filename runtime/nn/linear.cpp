#include <tandem/nn/linear.h>
#include <tandem/ops/linalg.h>

#include "runtime/nn/layer.h"

namespace tandem::nn {

Linear::Linear(Dim in, Dim out, bool with_bias, DType dtype) {
  weight = uniform_parameter({out, in}, bound_of(in), dtype);
  if (with_bias) bias = uniform_parameter({out}, bound_of(in), dtype);
}

Bilinear::Bilinear(Dim in1, Dim in2, Dim out, bool with_bias, DType dtype) {
  weight = uniform_parameter({out, in1, in2}, bound_of(in1), dtype);
  if (with_bias) bias = uniform_parameter({out}, bound_of(in1), dtype);
}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2, SourceLocation at) const {
  return bilinear(x1, x2, weight, bias, at);
}

}  // namespace tandem::nn
