#include "runtime/nn/layer.h"

#include <cmath>

namespace tandem::nn {

Tensor uniform_parameter(const Shape& sizes, double bound, DType dtype) {
  return ((rand(sizes, dtype) * 2.0 - 1.0) * bound).requires_grad_();
}

double bound_of(Dim fan_in) {
  return fan_in > 0 ? 1 / std::sqrt(static_cast<double>(int64_t{fan_in})) : 0;
}

void require_rank(const Tensor& x, int rank, int other) {
  if (x.defined() && x.dim() != rank && x.dim() != other)
    ir::fail(Errc::Shape, fmt::format("{}: wrong number of dimensions; expected {} or {}, got {}",
                                      ir::ErrorScope::function(), std::min(rank, other),
                                      std::max(rank, other), to_string(x.sizes())));
}

}  // namespace tandem::nn
