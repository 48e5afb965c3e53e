// Pointwise functions that are made of other operations: no rows of ops.def.
#include <fmt/format.h>
#include <tandem/ops/special.h>

#include <limits>
#include <numbers>

#include "ir/base/error.h"
#include "runtime/ops/pointwise/operands.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::at_least_float;
using runtime::before_write;
using runtime::Call;
using runtime::is_root;
using runtime::operands;
using runtime::place_of;
using runtime::V;
using runtime::write;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// False of integers.
V is_infinity(Call& c, V x, double infinity) {
  return ir::is_floating(c.b.dtype(x)) ? c.b.eq(x, infinity) : c.b.ne(x, x);
}

Tensor scaled_by(const Tensor& self, double factor, Call&& c) {
  return c.out(c.b.mul(c.in(self), factor));
}

}  // namespace

Tensor deg2rad(const Tensor& self, SourceLocation at) {
  return scaled_by(self, std::numbers::pi / 180, Call(at));
}
Tensor rad2deg(const Tensor& self, SourceLocation at) {
  return scaled_by(self, 180 / std::numbers::pi, Call(at));
}

// The branch that 0 does not take has a derivative there too, which divides by a square: numbers
// whose squares are 0 count as 0, as in ATen's gradient.
Tensor sinc(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = at_least_float(c, c.in(self)), at_zero = c.b.eq(c.b.mul(x, x), 0);
  const V angle = c.b.where(at_zero, 1, c.b.mul(x, std::numbers::pi));
  return c.out(c.b.where(at_zero, 1, c.b.div(c.b.sin(angle), angle)));
}

// Its gradient is zeros, as trunc's.
Tensor angle(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = at_least_float(c, c.in(self));
  const V of_rest = c.b.where(c.b.isnan(x), c.b.trunc(x), 0);
  return c.out(c.b.where(c.b.lt(x, 0), std::numbers::pi, of_rest));
}

Tensor signbit(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  const DType dtype = c.b.dtype(x);
  if (!ir::is_floating(dtype)) return c.out(c.b.lt(x, 0));
  const DType bits = ir::integer_of(static_cast<int64_t>(ir::size_of(dtype)));
  return c.out(c.b.lt(c.b.bitcast(x, bits), 0));
}

Tensor isposinf(const Tensor& self, SourceLocation at) {
  Call c(at);
  return c.out(is_infinity(c, c.in(self), kInfinity));
}
Tensor isneginf(const Tensor& self, SourceLocation at) {
  Call c(at);
  return c.out(is_infinity(c, c.in(self), -kInfinity));
}

Tensor positive(const Tensor& self, SourceLocation at) {
  Call c(at);
  if (c.b.dtype(c.in(self)) == boolean)
    ir::fail(Errc::DType, "positive: not defined for bool; expected numbers, got bool");
  return self;
}

Tensor float_power(const Located& self, const Located& exponent) {
  Call c(place_of(self, exponent));
  const auto [a, b] = operands(c, self, exponent);
  const V wide = c.b.convert(a, f64);
  return c.out(is_root(f64, exponent) ? c.b.sqrt(wide) : c.b.pow(wide, c.b.convert(b, f64)));
}
const Tensor& Tensor::float_power_(const Located& exponent) const {
  const ErrorScope errors(exponent.location, "float_power", true);
  if (defined() && dtype() != f64)
    ir::fail(Errc::DType,
             fmt::format("float_power_: self has another dtype than the result; expected f64, got "
                         "{}",
                         ir::name(dtype())));
  const Tensor self = before_write(*this, exponent.location, &exponent);
  const Tensor value = tandem::float_power(Located(self, exponent.location), exponent);
  return write(*this, value, exponent.location, &exponent);
}

Tensor ldexp(const Located& self, const Located& other) {
  Call c(place_of(self, other));
  const auto [a, b] = operands(c, self, other);
  const V both[] = {a, b};
  const DType dtype = ir::at_least_float(c.b.result_type(both));
  return c.out(c.b.mul(c.b.convert(a, dtype), c.b.pow(2.0, c.b.convert(b, dtype))));
}

Tensor lcm(const Located& self, const Located& other) {
  Call c(place_of(self, other));
  const auto [a, b] = operands(c, self, other);
  const V divisor = c.b.pointwise(Op::gcd, {a, b});
  const V none = c.b.eq(divisor, 0);
  const V part = c.b.floor_divide(a, c.b.where(none, 1, divisor));
  // (As in C++: the product of what is narrower than i32 wraps behind its magnitude.)
  const DType dtype = c.b.dtype(divisor), wide = dtype == i8 || dtype == i16 ? i32 : dtype;
  const V multiple = c.b.abs(c.b.mul(c.b.convert(part, wide), c.b.convert(b, wide)));
  return c.out(c.b.where(none, 0, c.b.convert(multiple, dtype)));
}

// The first of equals; the gradient goes to what was taken.
Tensor fmax(const Located& self, const Located& other) {
  Call c(place_of(self, other));
  const auto [a, b] = operands(c, self, other);
  return c.out(c.b.where(c.b.logical_or(c.b.ge(a, b), c.b.isnan(b)), a, b));
}
Tensor fmin(const Located& self, const Located& other) {
  Call c(place_of(self, other));
  const auto [a, b] = operands(c, self, other);
  return c.out(c.b.where(c.b.logical_or(c.b.le(a, b), c.b.isnan(b)), a, b));
}

#define X(op) \
  Tensor Tensor::op(SourceLocation at) const { return tandem::op(*this, at); }
TANDEM_MADE_UNARY_IN_PLACE(X)
TANDEM_MADE_UNARY(X)
#undef X
#define X(op)                                                         \
  const Tensor& Tensor::op##_(SourceLocation at) const {              \
    const ErrorScope errors(at, #op, true);                           \
    return write(*this, tandem::op(before_write(*this, at), at), at); \
  }
TANDEM_MADE_UNARY_IN_PLACE(X)
#undef X
#define X(op)                                                 \
  Tensor Tensor::op(const Located& other) const {             \
    return tandem::op(Located(*this, other.location), other); \
  }
TANDEM_MADE_BINARY_IN_PLACE(X)
TANDEM_MADE_BINARY(X)
#undef X
const Tensor& Tensor::ldexp_(const Located& other) const {
  const ErrorScope errors(other.location, "ldexp", true);
  const Tensor self = before_write(*this, other.location, &other);
  return write(*this, tandem::ldexp(Located(self, other.location), other), other.location);
}
#define X(op)                                                              \
  const Tensor& Tensor::op##_(const Located& other) const {                \
    const ErrorScope errors(other.location, #op, true);                    \
    const Tensor self = before_write(*this, other.location, &other);       \
    const Tensor value = tandem::op(Located(self, other.location), other); \
    return write(*this, value, other.location, &other);                    \
  }
X(lcm)
X(igamma)
X(igammac)
#undef X

}  // namespace tandem
