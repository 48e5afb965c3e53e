#include "runtime/nn/layer.h"

#include <tandem/nn/options.h>

#include <cmath>

namespace tandem::nn {
namespace {

CheckedOptions require(bool holds, std::string_view layer, const SourceLocation& at,
                       const std::string& problem) {
  const ir::ErrorScope errors(at, layer);
  if (!holds) ir::fail(Errc::Argument, fmt::format("{}: {}", layer, problem));
  return {};
}

}  // namespace

CheckedOptions require_probability(double p, std::string_view layer, SourceLocation at) {
  return require(p >= 0 && p <= 1, layer, at, fmt::format("expected a probability, got {}", p));
}

CheckedOptions require_order(double min, double max, std::string_view layer, SourceLocation at) {
  return require(min <= max, layer, at,
                 fmt::format("min is above max; expected min <= max, got {} and {}", min, max));
}

CheckedOptions require_power(int64_t p, std::string_view layer, SourceLocation at) {
  return require(p == 1 || p == 2, layer, at, fmt::format("expected p of 1 or 2, got {}", p));
}

CheckedOptions require_margin(double margin, std::string_view layer, SourceLocation at) {
  return require(margin > 0, layer, at, fmt::format("expected a margin above 0, got {}", margin));
}

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
