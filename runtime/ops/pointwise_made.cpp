// Pointwise functions that are made of other operations: no rows of ops.def.
#include <fmt/format.h>
#include <tandem/special.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "ir/base/error.h"
#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::Call;
using runtime::V;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const SourceLocation& place_of(const Located& a, const Located& b) {
  return a.tensor != nullptr ? a.location : b.location;
}

struct Pair {
  V a, b;
};
/// Two operands, of which at least one is a tensor.
Pair operands(Call& c, const Located& a, const Located& b) {
  if (a.tensor == nullptr && b.tensor == nullptr)
    ir::fail(Errc::Argument,
             ErrorScope::function() + ": two numbers; expected at least one tensor");
  if (a.tensor != nullptr) {
    const V left = c.in(*a.tensor);
    return {left, c.in(b, left, "other")};
  }
  const V right = c.in(*b.tensor, "other");
  return {c.in(a, right), right};
}

V at_least_float(Call& c, V x) { return c.b.convert(x, ir::at_least_float(c.b.dtype(x))); }

void require_floating(Call& c, V x) {
  if (!ir::is_floating(c.b.dtype(x)))
    ir::fail(Errc::DType, fmt::format("{}: expected a floating dtype, got {}",
                                      ErrorScope::function(), ir::name(c.b.dtype(x))));
}

/// False of integers.
V is_infinity(Call& c, V x, double infinity) {
  return ir::is_floating(c.b.dtype(x)) ? c.b.eq(x, infinity) : c.b.ne(x, x);
}

/// self, which is to be written, as an operand: a copy where a gradient may need what it was.
Tensor before_write(const Tensor& self, const SourceLocation& at, const Located* other = nullptr) {
  const auto differentiable = [](const Tensor* t) {
    return t != nullptr && t->defined() && t->requires_grad();
  };
  const bool is_saved =
      runtime::grad_enabled() &&
      (differentiable(&self) || (other != nullptr && differentiable(other->tensor)));
  return is_saved ? self.clone(at) : self;
}

/// The elements of `value`, which was made of self and `other`, written over self. (What was
/// converted lies elsewhere.)
const Tensor& write(const Tensor& self, const Tensor& value, const SourceLocation& at,
                    const Located* other = nullptr) {
  const bool is_read =
      other != nullptr && other->tensor != nullptr && other->tensor->dtype() == self.dtype();
  if (is_read) runtime::check_apart(self, *other->tensor, runtime::Sharing::AllOrNothing);
  const bool fits = ir::is_floating(value.dtype())
                        ? ir::is_floating(self.dtype())
                        : value.dtype() == boolean || self.dtype() != boolean;
  if (!fits)
    ir::fail(Errc::DType,
             fmt::format("{}: result type {} can't be cast to {}; expected a dtype of "
                         "self's category or a lower one",
                         ErrorScope::function(), ir::name(value.dtype()), ir::name(self.dtype())));
  return self.copy_(Located(value, at));
}

Tensor scaled_by(const Tensor& self, double factor, Call&& c) {
  return c.out(c.b.mul(c.in(self), factor));
}

/// 10^decimals, or of negative ones of their magnitude.
Tensor rounded_to_decimals(Call&& c, const Tensor& self, int64_t decimals) {
  const V x = c.in(self);
  require_floating(c, x);
  const double factor = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (decimals < 0) return c.out(c.b.mul(c.b.round(c.b.div(x, factor)), factor));
  return c.out(c.b.div(c.b.round(c.b.mul(x, factor)), factor));
}

// Of floating numbers with the gradient of div_floor, zeros: those of trunc would be divided by
// zero. Of integers the quotient rounded down, and one more where it is negative and has a rest.
V truncated_quotient(Call& c, V a, V b) {
  const V both[] = {a, b};
  const DType dtype = c.b.result_type(both);
  if (ir::is_floating(dtype)) {
    const V quotient = c.b.trunc(c.b.stop_gradient(c.b.div(a, b)));
    return c.b.pointwise(Op::copy, {c.b.div_floor(a, b), quotient});
  }
  const V lower = c.b.floor_divide(a, b);
  const V has_rest = c.b.ne(c.b.mul(lower, b), a);
  const V negative = c.b.ne(c.b.lt(a, 0), c.b.lt(b, 0));
  return c.b.add(lower, c.b.convert(c.b.logical_and(has_rest, negative), dtype));
}

Tensor quotient(Call&& c, const Located& self, const Located& other, std::string_view mode) {
  const auto [a, b] = operands(c, self, other);
  if (mode == "floor") return c.out(c.b.div_floor(a, b));
  if (mode == "trunc") return c.out(truncated_quotient(c, a, b));
  ir::fail(Errc::Argument, fmt::format("{}: unknown rounding mode; expected \"trunc\" or "
                                       "\"floor\", got \"{}\"",
                                       ErrorScope::function(), mode));
}

struct Sum {
  V first, scaled;
};
/// The operands of first +- alpha * second: alpha has their dtype.
Sum scaled_operands(Call& c, V first, V second, const Number& alpha) {
  const V both[] = {first, second};
  const DType dtype = c.b.result_type(both);
  if (ir::is_integral(dtype) && alpha.is_float())
    ir::fail(Errc::DType,
             fmt::format("{}: alpha of integers is floating; expected an integer, got {}",
                         ErrorScope::function(), alpha.to_double()));
  const V factor = c.b.full({}, dtype, alpha);
  return {first, c.b.mul(c.b.convert(second, dtype), factor)};
}

void require_no_bool(const Located& a, const Located& b) {
  for (const Located* operand : {&a, &b})
    if (operand->tensor != nullptr ? operand->tensor->dtype() == boolean
                                   : operand->number.kind() == Number::Kind::Bool)
      ir::fail(Errc::DType, ErrorScope::function() +
                                ": not defined for bool; expected numbers (logical_xor and "
                                "bitwise_xor take bool)");
}

Tensor scaled_sum(Call&& c, Op op, const Located& self, const Located& other, const Number& alpha,
                  bool reversed = false) {
  const auto [a, b] = operands(c, self, other);
  if (op == Op::sub) require_no_bool(self, other);
  const Sum sum = reversed ? scaled_operands(c, b, a, alpha) : scaled_operands(c, a, b, alpha);
  return c.out(c.b.pointwise(op, {sum.first, sum.scaled}));
}

const Tensor& scaled_sum_in_place(Op op, const Tensor& self, const Located& other,
                                  const Number& alpha) {
  Call c(other.location, ir::name(op), true);
  const V a = c.in(self), b = c.in(other, a, "other");
  if (op == Op::sub) require_no_bool(Located(self, other.location), other);
  const Sum sum = scaled_operands(c, a, b, alpha);
  c.b.pointwise_in_place(op, {sum.first, sum.scaled});
  return self;
}

Tensor clamped(Call&& c, const Tensor& self, const Tensor& min, const Tensor& max) {
  const V x = c.in(self);
  if (min.defined() && max.defined())
    return c.out(c.b.pointwise(Op::clamp, {x, c.in(min, "min"), c.in(max, "max")}));
  if (min.defined()) return c.out(c.b.pointwise(Op::clamp_min, {x, c.in(min, "min")}));
  if (max.defined()) return c.out(c.b.pointwise(Op::clamp_max, {x, c.in(max, "max")}));
  ir::fail(Errc::Argument,
           ErrorScope::function() + ": no bound; expected min, max or both, got neither");
}

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

// --- made functions

Tensor deg2rad(const Tensor& self, SourceLocation at) {
  return scaled_by(self, std::numbers::pi / 180, Call(at));
}
Tensor rad2deg(const Tensor& self, SourceLocation at) {
  return scaled_by(self, 180 / std::numbers::pi, Call(at));
}

// The branch that 0 does not take has a derivative there too.
Tensor sinc(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = at_least_float(c, c.in(self)), at_zero = c.b.eq(x, 0);
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
  return c.out(c.b.pow(c.b.convert(a, f64), c.b.convert(b, f64)));
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

Tensor igamma(const Located& self, const Located& other) {
  return incomplete_gamma(Call(place_of(self, other)), Op::igamma, self, other);
}
Tensor igammac(const Located& self, const Located& other) {
  return incomplete_gamma(Call(place_of(self, other)), Op::igammac, self, other);
}
Tensor lcm(const Located& self, const Located& other) {
  Call c(place_of(self, other));
  const auto [a, b] = operands(c, self, other);
  const V divisor = c.b.pointwise(Op::gcd, {a, b});
  const V none = c.b.eq(divisor, 0);
  const V part = c.b.floor_divide(a, c.b.where(none, 1, divisor));
  return c.out(c.b.where(none, 0, c.b.abs(c.b.mul(part, b))));
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

// --- options of other functions

Tensor add(const Located& self, const Located& other, const Number& alpha) {
  return scaled_sum(Call(place_of(self, other)), Op::add, self, other, alpha);
}
Tensor sub(const Located& self, const Located& other, const Number& alpha) {
  return scaled_sum(Call(place_of(self, other)), Op::sub, self, other, alpha);
}
Tensor rsub(const Located& self, const Located& other, const Number& alpha) {
  return scaled_sum(Call(place_of(self, other)), Op::sub, self, other, alpha, true);
}
Tensor Tensor::add(const Located& other, const Number& alpha) const {
  return tandem::add(Located(*this, other.location), other, alpha);
}
Tensor Tensor::sub(const Located& other, const Number& alpha) const {
  return tandem::sub(Located(*this, other.location), other, alpha);
}
const Tensor& Tensor::add_(const Located& other, const Number& alpha) const {
  return scaled_sum_in_place(Op::add, *this, other, alpha);
}
const Tensor& Tensor::sub_(const Located& other, const Number& alpha) const {
  return scaled_sum_in_place(Op::sub, *this, other, alpha);
}

Tensor div(const Located& self, const Located& other, std::string_view rounding_mode) {
  return quotient(Call(place_of(self, other)), self, other, rounding_mode);
}
Tensor Tensor::div(const Located& other, std::string_view rounding_mode) const {
  return tandem::div(Located(*this, other.location), other, rounding_mode);
}
const Tensor& Tensor::div_(const Located& other, std::string_view rounding_mode) const {
  const ErrorScope errors(other.location, "div", true);
  const Tensor self = before_write(*this, other.location, &other);
  const Tensor value = tandem::div(Located(self, other.location), other, rounding_mode);
  return write(*this, value, other.location, &other);
}

Tensor round(const Tensor& self, int64_t decimals, SourceLocation at) {
  return rounded_to_decimals(Call(at), self, decimals);
}
Tensor Tensor::round(int64_t decimals, SourceLocation at) const {
  return tandem::round(*this, decimals, at);
}
const Tensor& Tensor::round_(int64_t decimals, SourceLocation at) const {
  const ErrorScope errors(at, "round", true);
  return write(*this, tandem::round(before_write(*this, at), decimals, at), at);
}

Tensor logit(const Tensor& self, double eps, SourceLocation at) {
  Call c(at);
  const V x = at_least_float(c, c.in(self));
  return c.out(c.b.pointwise(Op::logit, {c.b.clamp(x, eps, 1 - eps)}));
}
Tensor Tensor::logit(double eps, SourceLocation at) const { return tandem::logit(*this, eps, at); }
const Tensor& Tensor::logit_(double eps, SourceLocation at) const {
  const ErrorScope errors(at, "logit", true);
  return write(*this, tandem::logit(before_write(*this, at), eps, at), at);
}

Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max, SourceLocation at) {
  return clamped(Call(at), self, min, max);
}
Tensor Tensor::clamp(const Tensor& min, const Tensor& max, SourceLocation at) const {
  return tandem::clamp(*this, min, max, at);
}
const Tensor& Tensor::clamp_(const Tensor& min, const Tensor& max, SourceLocation at) const {
  const ErrorScope errors(at, "clamp", true);
  return write(*this, tandem::clamp(clone(at), min, max, at), at);
}

// --- the gamma function

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

// --- comparison of all elements

Tensor isclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan,
               SourceLocation at) {
  Call c(at);
  const V a = c.in(self), b = c.in(other, "other");
  if (c.b.dtype(a) != c.b.dtype(b))
    ir::fail(Errc::DType,
             fmt::format("{}: operands have different dtypes; expected {}, got {}",
                         ErrorScope::function(), ir::name(c.b.dtype(a)), ir::name(c.b.dtype(b))));
  for (double tolerance : {rtol, atol})
    if (!(tolerance >= 0))
      ir::fail(Errc::Argument, fmt::format("{}: expected tolerances of at least 0, got {}",
                                           ErrorScope::function(), tolerance));
  V close = c.b.eq(a, b);
  if (equal_nan) close = c.b.logical_or(close, c.b.logical_and(c.b.isnan(a), c.b.isnan(b)));
  if (rtol == 0 && atol == 0) return c.out(close);
  const bool is_bool = c.b.dtype(a) == boolean;
  const V expected = at_least_float(c, b);
  const V allowed = c.b.add(c.b.abs(c.b.mul(expected, rtol)), atol);
  const V actual = c.b.abs(c.b.sub(is_bool ? at_least_float(c, a) : a, is_bool ? expected : b));
  const V within = c.b.logical_and(c.b.isfinite(actual), c.b.le(actual, allowed));
  return c.out(c.b.logical_or(close, within));
}
bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan,
              SourceLocation at) {
  const ErrorScope errors(at);
  return all(isclose(self, other, rtol, atol, equal_nan, at), {}, false, at).item<bool>(at);
}
bool equal(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ErrorScope errors(at);
  if (self.sizes() != other.sizes()) return false;
  return all(eq(Located(self, at), Located(other, at)), {}, false, at).item<bool>(at);
}
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan,
                       SourceLocation at) const {
  return tandem::isclose(*this, other, rtol, atol, equal_nan, at);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan,
                      SourceLocation at) const {
  return tandem::allclose(*this, other, rtol, atol, equal_nan, at);
}
bool Tensor::equal(const Tensor& other, SourceLocation at) const {
  return tandem::equal(*this, other, at);
}

// --- special

namespace special {

#define X(op)                                          \
  Tensor op(const Tensor& self, SourceLocation at) {   \
    Call c(at);                                        \
    return c.out(c.b.pointwise(Op::op, {c.in(self)})); \
  }
TANDEM_SPECIAL_UNARY_OPS(X)
#undef X
#define X(op)                                            \
  Tensor op(const Located& self, const Located& other) { \
    Call c(place_of(self, other));                       \
    const auto [a, b] = operands(c, self, other);        \
    return c.out(c.b.pointwise(Op::op, {a, b}));         \
  }
TANDEM_SPECIAL_BINARY_OPS(X)
#undef X
Tensor ndtr(const Tensor& self, SourceLocation at) {
  Call c(at);
  return c.out(c.b.mul(c.b.erfc(c.b.mul(c.in(self), -1 / std::numbers::sqrt2)), 0.5));
}

}  // namespace special
}  // namespace tandem
