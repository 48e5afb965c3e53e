// Norms and covariances.
#include <tandem/ops/linalg.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/shapes.h>

#include <cmath>

#include "runtime/ops/reduce/along.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::Call;
using runtime::V;

/// f(v) where v is not 0, else `at_zero`, with a gradient of 0 there: as ATen's norms.
template <class F>
V away_from_zero(Call& c, V v, double at_zero, F f) {
  const V is_zero = c.b.eq(v, 0);
  return c.b.where(is_zero, at_zero, f(c.b.where(is_zero, 1, v)));
}

/// How many are not 0; with a gradient of zeros.
V count_norm(Call& c, V x, const DimList& dims, bool keepdim) {
  const V ones = c.b.convert(c.b.ne(x, 0), c.b.dtype(x));
  return c.b.sum(c.b.pointwise(Op::copy, {x, ones}), dims.dims, keepdim);
}

V p_norm(Call& c, V x, double p, const DimList& dims, bool keepdim) {
  const auto sum = [&](V v) { return c.b.sum(v, dims.dims, keepdim); };
  if (p == 0) return count_norm(c, x, dims, keepdim);
  if (p == 1) return sum(c.b.abs(x));
  if (std::isinf(p)) return c.b.reduce(p > 0 ? Op::amax : Op::amin, c.b.abs(x), dims.dims, keepdim);
  if (p == 2) return away_from_zero(c, sum(c.b.square(x)), 0, [&](V v) { return c.b.sqrt(v); });
  const V powers =
      away_from_zero(c, c.b.abs(x), p > 0 ? 0 : INFINITY, [&](V v) { return c.b.pow(v, p); });
  return away_from_zero(c, sum(powers), p > 0 ? 0 : INFINITY,
                        [&](V v) { return c.b.pow(v, 1 / p); });
}

/// Halves are summed in f32.
Tensor norm_of(Call&& c, const Tensor& self, double p, const DimList& dims, bool keepdim) {
  const V x = c.in(self);
  runtime::require_floating(self);
  const V wide = ir::size_of(self.dtype()) < 4 ? c.b.convert(x, f32) : x;
  return c.out(c.b.convert(p_norm(c, wide, p, dims, keepdim), self.dtype()));
}

[[noreturn]] void fail_order(std::string_view expected, std::string_view got) {
  ir::fail(Errc::Argument, fmt::format("{}: this norm is not there; expected {}, got {}",
                                       ErrorScope::function(), expected, got));
}

// --- matrix norms

constexpr std::string_view kMatrixNorms = "\"fro\", \"nuc\", 1, -1, 2, -2 or an infinity";

struct MatrixDims {
  int64_t row, column;
};
MatrixDims matrix_dims(const Tensor& self, const DimList& dims) {
  runtime::require_floating(self);
  if (dims.dims.size() != 2 || self.dim() < 2)
    ir::fail(Errc::Shape,
             fmt::format("{}: expected matrices in two dimensions, got {} in {}",
                         ErrorScope::function(), to_string(self.sizes()), to_string(dims.dims)));
  const auto wrapped = [&](ir::Axis d) { return int64_t{d} < 0 ? d + self.dim() : int64_t{d}; };
  return {wrapped(dims.dims[0]), wrapped(dims.dims[1])};
}

/// The largest along a dimension, 0 of none; or the least.
Tensor extremum(const Tensor& self, int64_t dim, bool largest, bool keepdim,
                const SourceLocation& at) {
  if (!largest) return amin(self, dim, keepdim, at);
  return self.size(dim) == 0 ? sum(self, dim, keepdim, at) : amax(self, dim, keepdim, at);
}

/// The extremum along one of the dims of sums along the other.
Tensor largest_sum(const Tensor& self, int64_t summed, int64_t other, bool largest, bool keepdim,
                   const SourceLocation& at) {
  const Tensor norm = extremum(sum(abs(self, at), summed, true, at), other, largest, true, at);
  return keepdim ? norm : squeeze(norm, {summed, other}, at);
}

/// Of the singular values the largest (2), the least (-2), or the sum (of "nuc").
Tensor norm_of_values(const Tensor& self, const MatrixDims& d, const Number& ord, bool keepdim,
                      const SourceLocation& at) {
  const Tensor matrices = movedim(self, {d.row, d.column}, {-2, -1}, at);
  const Tensor values = linalg::svdvals(matrices, at);
  const double p = ord.to_double();
  Tensor norm = p == 1 ? sum(values, {-1}, false, at) : extremum(values, -1, p > 0, false, at);
  if (!keepdim) return norm;
  for (const int64_t dim : {std::min(d.row, d.column), std::max(d.row, d.column)})
    norm = unsqueeze(norm, dim, at);
  return norm;
}

// --- covariances

void require_weights(const Tensor& weights, std::string_view name, int64_t count, bool integral) {
  if (!weights.defined()) return;
  if (weights.dim() > 1 || weights.numel() != count)
    ir::fail(Errc::Shape, fmt::format("cov: {} do not fit; expected one for each of {} "
                                      "observations, got {}",
                                      name, count, to_string(weights.sizes())));
  const bool fits = integral ? ir::is_integer(weights.dtype()) : ir::is_floating(weights.dtype());
  if (!fits)
    ir::fail(Errc::DType,
             fmt::format("cov: {} have the wrong dtype; expected {}, got {}", name,
                         integral ? "integers" : "a floating one", ir::name(weights.dtype())));
  if (runtime::Trace::current() != nullptr) return;
  for (const double weight : weights.to_vector<double>())
    if (weight < 0)
      ir::fail(Errc::Argument,
               fmt::format("cov: negative {}; expected at least 0, got {}", name, weight));
}

/// What the sum of products is divided by; 0-d.
Tensor degrees_of_freedom(const Tensor& weights, const Tensor& aweights, const Tensor& total,
                          int64_t count, int64_t correction, DType dtype) {
  if (!weights.defined()) return full({}, std::max<int64_t>(count - correction, 0), dtype);
  if (correction == 0) return total;
  const Tensor lost = aweights.defined() ? (weights * aweights).sum() / total : Tensor();
  const Tensor left = lost.defined() ? total - lost * correction : total - correction;
  return clamp_min(left, 0);
}

/// Those of a matrix if none are given.
DimList two_dims(const Tensor& self, const DimList& dims) {
  const size_t given = dims.dims.empty() ? static_cast<size_t>(self.dim()) : dims.dims.size();
  if (given != 2)
    ir::fail(Errc::Shape, fmt::format("{}: expected one or two dimensions, or dims, got {} of {}",
                                      ErrorScope::function(), given, to_string(self.sizes())));
  return dims.dims.empty() ? DimList{0, 1} : dims;
}

}  // namespace

Tensor norm(const Tensor& self, SourceLocation at) { return norm_of(Call(at), self, 2, {}, false); }
Tensor norm(const Tensor& self, const Number& p, const DimList& dims, bool keepdim,
            SourceLocation at) {
  return norm_of(Call(at), self, p.to_double(), dims, keepdim);
}
Tensor norm_of_name(const Tensor& self, std::string_view p, const DimList& dims, bool keepdim,
                    const SourceLocation& at) {
  const ErrorScope errors(at, "norm");
  if (p == "nuc")
    return linalg::matrix_norm_of_name(self, p, dims.dims.empty() ? DimList{-2, -1} : dims, keepdim,
                                       at);
  if (p != "fro") fail_order("a number, \"fro\" or \"nuc\"", fmt::format("\"{}\"", p));
  return norm(self, 2, dims, keepdim, at);
}
Tensor dist(const Tensor& self, const Tensor& other, const Number& p, SourceLocation at) {
  const ErrorScope errors(at);
  return norm(sub(Located(self, at), Located(other, at)), p, {}, false, at);
}

Tensor linalg::vector_norm(const Tensor& self, const Number& ord, const DimList& dims, bool keepdim,
                           SourceLocation at) {
  return norm_of(Call(at), self, ord.to_double(), dims, keepdim);
}
Tensor linalg::matrix_norm_of_name(const Tensor& self, std::string_view ord, const DimList& dims,
                                   bool keepdim, const SourceLocation& at) {
  const ErrorScope errors(at, "matrix_norm");
  const MatrixDims d = matrix_dims(self, dims);
  if (ord == "nuc") return norm_of_values(self, d, 1, keepdim, at);
  if (ord != "fro") fail_order(kMatrixNorms, fmt::format("\"{}\"", ord));
  return linalg::vector_norm(self, 2, dims, keepdim, at);
}
Tensor linalg::matrix_norm(const Tensor& self, const Number& ord, const DimList& dims, bool keepdim,
                           SourceLocation at) {
  const ErrorScope errors(at);
  const auto [row, column] = matrix_dims(self, dims);
  const double p = ord.to_double();
  if (std::abs(p) == 1) return largest_sum(self, row, column, p > 0, keepdim, at);
  if (std::isinf(p)) return largest_sum(self, column, row, p > 0, keepdim, at);
  if (std::abs(p) == 2) return norm_of_values(self, {row, column}, ord, keepdim, at);
  fail_order(kMatrixNorms, fmt::format("{}", p));
}

Tensor linalg::norm_of_name(const Tensor& self, std::string_view ord, const DimList& dims,
                            bool keepdim, const SourceLocation& at) {
  const ErrorScope errors(at, "norm");
  return matrix_norm_of_name(self, ord, two_dims(self, dims), keepdim, at);
}
Tensor linalg::norm(const Tensor& self, const std::optional<Number>& ord, const DimList& dims,
                    bool keepdim, SourceLocation at) {
  const ErrorScope errors(at);
  if (!ord) return vector_norm(self, 2, dims, keepdim, at);
  const size_t given = dims.dims.empty() ? static_cast<size_t>(self.dim()) : dims.dims.size();
  if (given != 1) return matrix_norm(self, *ord, two_dims(self, dims), keepdim, at);
  return vector_norm(self, *ord, dims, keepdim, at);
}

Tensor cov(const Tensor& self, int64_t correction, const Tensor& fweights, const Tensor& aweights,
           SourceLocation at) {
  const ErrorScope errors(at);
  if (self.dim() > 2 || self.dtype() == boolean)
    ir::fail(Errc::Argument, fmt::format("cov: expected numbers of at most two dimensions, got {} "
                                         "of {}",
                                         to_string(self.sizes()), ir::name(self.dtype())));
  const Tensor rows = self.dim() < 2 ? view(self, {1, self.numel()}, at) : self;
  const int64_t count = rows.size(1);
  require_weights(fweights, "fweights", count, true);
  require_weights(aweights, "aweights", count, false);
  Tensor weights = aweights.defined() ? aweights : fweights;
  if (fweights.defined() && aweights.defined()) weights = fweights * aweights;
  const Tensor total = weights.defined() ? weights.sum({}, false, at) : full({}, count, i64, at);
  const Tensor weighted = weights.defined() ? rows * weights : rows;
  const Tensor centred = rows - (weighted.sum({1}, true, at) / total);
  const Tensor other = weights.defined() ? centred * weights : centred;
  const Tensor divisor =
      degrees_of_freedom(weights, aweights, total, count, correction, centred.dtype());
  return squeeze(matmul(centred, transpose(other, 0, 1, at).to(centred.dtype(), at), at) / divisor,
                 DimList::every(), at);
}

Tensor corrcoef(const Tensor& self, SourceLocation at) {
  const ErrorScope errors(at);
  const Tensor c = cov(self, 1, {}, {}, at);
  if (c.dim() == 0) return c / c;
  const Tensor deviations = sqrt(diagonal(c, 0, 0, 1, at), at);
  return clamp(c / unsqueeze(deviations, -1, at) / unsqueeze(deviations, 0, at), -1, 1, at);
}

}  // namespace tandem
