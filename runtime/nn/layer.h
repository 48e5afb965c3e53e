// What layers are made with.
#ifndef TANDEM_RUNTIME_NN_LAYER_H
#define TANDEM_RUNTIME_NN_LAYER_H

#include <fmt/format.h>
#include <tandem/ops/networks.h>

#include <array>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/networks/images.h"

namespace tandem::nn {

/// A parameter, uniform in +-bound.
Tensor uniform_parameter(const Shape& sizes, double bound, DType dtype);
/// 1 / sqrt(fan_in), 0 of none.
double bound_of(Dim fan_in);

/// One of `numbers` for each of `spatial` dimensions.
template <size_t spatial>
std::array<int64_t, spatial> each(const Spatial& numbers, const char* name) {
  const ir::Dims dims = runtime::each(numbers, spatial, name);
  std::array<int64_t, spatial> out{};
  std::copy(dims.begin(), dims.end(), out.begin());
  return out;
}

template <size_t count>
Spatial spatial_of(const std::array<int64_t, count>& numbers) {
  return Shape(numbers);
}

/// Error{Shape} unless x has one of these numbers of dimensions.
void require_rank(const Tensor& x, int rank, int other);

}  // namespace tandem::nn

#endif  // TANDEM_RUNTIME_NN_LAYER_H
