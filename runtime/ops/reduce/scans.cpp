// Scans and what is made of them.
#include <tandem/ops/reductions.h>

#include <algorithm>

#include "runtime/ops/reduce/along.h"
#include "runtime/tape/autograd.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::Along;
using runtime::Call;
using runtime::V;

Tensor scanned(Call&& c, Op op, const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  const Along a(c, self, dim);
  const DType own = ir::is_integral(self.dtype()) ? i64 : self.dtype();
  return a.out(a.scanned(op, c.b.convert(a.x, dtype.value_or(own))));
}

ValuesAndIndices extremes_so_far(Call&& c, Op op, const Tensor& self, int64_t dim) {
  const Along a(c, self, dim);
  const V positions = a.scanned(op, a.x);
  return {a.out(c.b.gather(a.x, a.dim, positions)), a.out(positions)};
}

/// What x.op_() writes: of x's dtype, whatever it was computed in.
const Tensor& write(const Tensor& self, const Tensor& value, const SourceLocation& at) {
  if (ir::category(value.dtype()) > ir::category(self.dtype()))
    ir::fail(Errc::DType,
             fmt::format("{}: the result does not fit self's dtype; expected one that "
                         "{} converts to, got {}",
                         ErrorScope::function(), ir::name(value.dtype()), ir::name(self.dtype())));
  return self.copy_(Located(value, at));
}

// --- differences

Tensor difference(const Tensor& x, int64_t dim, const SourceLocation& at) {
  const Tensor left = slice(x, dim, 0, -1, 1, at), right = slice(x, dim, 1, {}, 1, at);
  return x.dtype() == boolean ? logical_xor(right, left) : sub(right, left);
}

Tensor between(const Tensor& prepend, const Tensor& self, const Tensor& append, int64_t dim,
               const SourceLocation& at) {
  std::vector<Tensor> parts;
  for (const Tensor* part : {&prepend, &self, &append})
    if (part->defined()) parts.push_back(*part);
  return parts.size() == 1 ? self : cat(parts, dim, at);
}

// --- trapezoids

void require_numbers(const Tensor& y) {
  if (y.dtype() == boolean)
    ir::fail(Errc::DType, fmt::format("{}: not defined for bool; expected numbers, got bool",
                                      ErrorScope::function()));
}

/// The distances of the places x, which are a vector along `dim`, or broadcast with y.
Tensor distances(const Tensor& y, const Tensor& x, int64_t dim, const SourceLocation& at) {
  require_numbers(x);
  const int64_t d = dim < 0 ? dim + y.dim() : dim;
  if (x.dim() != 1) {
    const bool is_short = x.dim() < y.dim();
    Shape sizes = Shape::filled(is_short ? static_cast<int>(y.dim() - x.dim()) : 0, 1);
    for (const Dim n : x.sizes()) sizes.push_back(n);
    return difference(is_short ? view(x, sizes, at) : x, dim, at);
  }
  if (x.size(0) != y.size(d))
    ir::fail(Errc::Shape,
             fmt::format("{}: there are not as many places as values; expected x [{}], got {}",
                         ErrorScope::function(), int64_t{y.size(d)}, to_string(x.sizes())));
  Shape sizes = Shape::filled(static_cast<int>(y.dim()), 1);
  sizes[static_cast<int>(d)] = std::max<int64_t>(x.size(0) - 1, 0);
  return view(difference(x, 0, at), sizes, at);
}

/// Sums of neighbours along `dim`, each weighted by the distance of their places (undefined: not).
V areas(Call& c, const Tensor& y, const Tensor& apart, int dim) {
  const V v = c.in(y, "y");
  const V pairs = c.b.add(c.b.slice(v, dim, 1, {}, 1), c.b.slice(v, dim, 0, -1, 1));
  return apart.defined() ? c.b.mul(c.in(apart), pairs) : pairs;
}

/// (One call, so that areas need not lie in memory.)
Tensor integral(Call& c, const Tensor& y, const Tensor& apart, double factor, int64_t dim) {
  const int along = runtime::as_int(dim);
  return c.out(c.b.mul(c.b.sum(areas(c, y, apart, along), {along}), factor));
}
Tensor running_integral(Call& c, const Tensor& y, const Tensor& apart, double factor, int64_t dim,
                        const SourceLocation& at) {
  const Tensor each = c.out(areas(c, y, apart, runtime::as_int(dim)));
  return mul(Located(cumsum(each, dim, {}, at), at), Located(factor, at));
}

}  // namespace

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype, SourceLocation at) {
  return scanned(Call(at), Op::cumsum, self, dim, dtype);
}
Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype, SourceLocation at) {
  return scanned(Call(at), Op::cumprod, self, dim, dtype);
}
Tensor logcumsumexp(const Tensor& self, int64_t dim, SourceLocation at) {
  const ErrorScope errors(at);
  runtime::require_floating(self);
  return scanned(Call(at), Op::logcumsumexp, self, dim, {});
}
ValuesAndIndices cummax(const Tensor& self, int64_t dim, SourceLocation at) {
  return extremes_so_far(Call(at), Op::cummax_indices, self, dim);
}
ValuesAndIndices cummin(const Tensor& self, int64_t dim, SourceLocation at) {
  return extremes_so_far(Call(at), Op::cummin_indices, self, dim);
}
const Tensor& Tensor::cumsum_(int64_t dim, std::optional<DType> dtype, SourceLocation at) const {
  const ErrorScope errors(at, "cumsum", true);
  return write(*this, tandem::cumsum(*this, dim, dtype.value_or(this->dtype()), at), at);
}
const Tensor& Tensor::cumprod_(int64_t dim, std::optional<DType> dtype, SourceLocation at) const {
  const ErrorScope errors(at, "cumprod", true);
  return write(*this, tandem::cumprod(*this, dim, dtype.value_or(this->dtype()), at), at);
}

Tensor diff(const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append,
            SourceLocation at) {
  const ErrorScope errors(at);
  if (self.dim() == 0) ir::fail(Errc::Shape, "diff: no dimension; expected at least one, got []");
  if (n < 0)
    ir::fail(Errc::Argument, fmt::format("diff: n out of range; expected at least 0, got {}", n));
  Tensor result = between(prepend, self, append, dim, at);
  if (n == 0) return clone(self, at);
  const int64_t most = result.size(dim);
  for (int64_t i = 0; i < std::min(n, std::max<int64_t>(most, 1)); ++i)
    result = difference(result, dim, at);
  return result;
}

Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim, SourceLocation at) {
  Call c(at);
  require_numbers(y);
  return integral(c, y, distances(y, x, dim, at), 0.5, dim);
}
Tensor trapezoid(const Tensor& y, const Number& dx, int64_t dim, SourceLocation at) {
  Call c(at);
  require_numbers(y);
  return integral(c, y, {}, dx.to_double() / 2, dim);
}
Tensor trapz(const Tensor& y, const Tensor& x, int64_t dim, SourceLocation at) {
  const ErrorScope errors(at);
  return trapezoid(y, x, dim, at);
}
Tensor trapz(const Tensor& y, const Number& dx, int64_t dim, SourceLocation at) {
  const ErrorScope errors(at);
  return trapezoid(y, dx, dim, at);
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim, SourceLocation at) {
  Call c(at);
  require_numbers(y);
  return running_integral(c, y, distances(y, x, dim, at), 0.5, dim, at);
}
Tensor cumulative_trapezoid(const Tensor& y, const Number& dx, int64_t dim, SourceLocation at) {
  Call c(at);
  require_numbers(y);
  return running_integral(c, y, {}, dx.to_double() / 2, dim, at);
}

}  // namespace tandem
