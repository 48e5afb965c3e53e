#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/nn/parametrizations.h>
#include <tandem/ops.h>
#include <tandem/ops/linalg.h>
#include <tandem/ops/networks.h>
#include <tandem/ops/shapes.h>

#include "ir/base/error.h"

namespace tandem::nn {
namespace {

constexpr int64_t kFirstIterations = 15;

/// The norms over all dimensions but one; of all elements for -1.
Tensor norm_except(const Tensor& t, int64_t dim) {
  if (dim == -1) return norm(t);
  DimList others;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d != dim) others.dims.push_back(d);
  return others.dims.empty() ? abs(t) : norm(t, 2, others, true);
}

void require_dim(const Tensor& weight, const char* function, int64_t dim, int64_t least) {
  if (!weight.defined())
    ir::fail(Errc::Argument,
             fmt::format("{}: expected a module with a weight, got none", function));
  if (dim < least || dim >= weight.dim())
    ir::fail(Errc::Argument, fmt::format("{}: expected {} <= dim < {}, got {}", function, least,
                                         weight.dim(), dim));
}

/// A leaf with these values, trained if `like` is.
Tensor leaf(const Tensor& values, const Tensor& like) {
  return values.detach().clone().requires_grad_(like.requires_grad());
}

/// Rows are the indices of dim.
Tensor matrix_of(const Tensor& weight, int64_t dim) { return movedim(weight, dim, 0).flatten(1); }

}  // namespace

WeightNormTensors::WeightNormTensors(const Tensor& weight, const Options& options)
    : dim(options.dim) {
  require_dim(weight, "weight_norm", dim, -1);
  const NoGrad no_grad;
  magnitude = leaf(norm_except(weight, dim), weight);
  direction = leaf(weight, weight);
}

Tensor WeightNormTensors::weight() const {
  return direction * (magnitude / norm_except(direction, dim));
}

SpectralNormTensors::SpectralNormTensors(const Tensor& weight, const Options& options)
    : n_power_iterations(options.n_power_iterations), dim(options.dim), eps(options.eps) {
  require_dim(weight, "spectral_norm", dim, 0);
  if (n_power_iterations <= 0)
    ir::fail(Errc::Argument, fmt::format("spectral_norm: expected n_power_iterations > 0, got {}",
                                         n_power_iterations));
  const NoGrad no_grad;
  original = leaf(weight, weight);
  if (weight.dim() == 1) return;
  const Tensor matrix = matrix_of(original, dim);
  vectors.u = normalize(randn({matrix.size(0)}, weight.dtype()), 2, {0}, eps);
  vectors.v = normalize(randn({matrix.size(1)}, weight.dtype()), 2, {0}, eps);
  iterate(matrix, kFirstIterations);
}

void SpectralNormTensors::iterate(const Tensor& matrix, int64_t times) const {
  for (int64_t i = 0; i < times; ++i) {
    vectors.u.copy_(normalize(mv(matrix, vectors.v), 2, {0}, eps));
    vectors.v.copy_(normalize(mv(matrix.t(), vectors.u), 2, {0}, eps));
  }
}

Tensor SpectralNormTensors::weight() const {
  if (original.dim() == 1) return normalize(original, 2, {0}, eps);
  const Tensor matrix = matrix_of(original, dim);
  if (training) {
    const NoGrad no_grad;
    iterate(matrix.detach(), n_power_iterations);
  }
  // Of copies: another call before backward writes the vectors.
  return original / dot(vectors.u.clone(), mv(matrix, vectors.v.clone()));
}

}  // namespace tandem::nn
