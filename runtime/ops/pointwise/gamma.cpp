// The gamma function's derivatives, and what else is made of it.
#include <fmt/format.h>
#include <tandem/ops/special.h>

#include <cmath>
#include <numbers>

#include "ir/base/error.h"
#include "runtime/ops/pointwise/operands.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::before_write;
using runtime::Call;
using runtime::operands;
using runtime::place_of;
using runtime::require_floating;
using runtime::V;
using runtime::write;

/// Of what promotes to a floating dtype: as ATen has no others.
Tensor incomplete_gamma(Call&& c, Op op, const Located& self, const Located& other) {
  const auto [a, x] = operands(c, self, other);
  const V both[] = {a, x};
  const auto promoted = c.b.promote(both);
  require_floating(c, promoted[0]);
  return c.out(c.b.emit(op, {promoted[0], promoted[1]}));
}

Tensor multivariate_lgamma(Call&& c, const Tensor& self, int64_t p) {
  if (p < 1)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected p of at least 1, got {}", ErrorScope::function(), p));
  const V x = c.in(self);
  if (c.b.dtype(x) == boolean)
    ir::fail(Errc::DType,
             ErrorScope::function() + ": not defined for bool; expected numbers, got bool");
  V sum = c.b.pointwise(Op::lgamma, {x});
  for (int64_t j = 1; j < p; ++j)
    sum = c.b.add(sum, c.b.pointwise(Op::lgamma, {c.b.sub(x, 0.5 * static_cast<double>(j))}));
  const auto dimension = static_cast<double>(p);
  const double constant = dimension * (dimension - 1) / 4 * std::log(std::numbers::pi);
  return c.out(p == 1 ? sum : c.b.add(sum, constant));
}

}  // namespace

Tensor igamma(const Located& self, const Located& other) {
  return incomplete_gamma(Call(place_of(self, other)), Op::igamma, self, other);
}
Tensor igammac(const Located& self, const Located& other) {
  return incomplete_gamma(Call(place_of(self, other)), Op::igammac, self, other);
}

// digamma itself is the first one, so that gradients of all orders are of these two.
Tensor polygamma(int64_t n, const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  if (n < 0)
    ir::fail(Errc::Argument, fmt::format("polygamma: expected n of at least 0, got {}", n));
  return c.out(n == 0 ? c.b.pointwise(Op::digamma, {x}) : c.b.pointwise(Op::polygamma, {x}, {n}));
}
Tensor Tensor::polygamma(int64_t n, SourceLocation at) const {
  return tandem::polygamma(n, *this, at);
}
const Tensor& Tensor::polygamma_(int64_t n, SourceLocation at) const {
  const ErrorScope errors(at, "polygamma", true);
  return write(*this, tandem::polygamma(n, before_write(*this, at), at), at);
}

Tensor mvlgamma(const Tensor& self, int64_t p, SourceLocation at) {
  return multivariate_lgamma(Call(at), self, p);
}
Tensor Tensor::mvlgamma(int64_t p, SourceLocation at) const {
  return tandem::mvlgamma(*this, p, at);
}
const Tensor& Tensor::mvlgamma_(int64_t p, SourceLocation at) const {
  const ErrorScope errors(at, "mvlgamma", true);
  return write(*this, tandem::mvlgamma(before_write(*this, at), p, at), at);
}

}  // namespace tandem
