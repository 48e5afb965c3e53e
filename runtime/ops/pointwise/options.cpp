// Options of functions that have a row of ops.def without them.
#include <fmt/format.h>
#include <tandem/ops/special.h>

#include <cmath>

#include "ir/base/error.h"
#include "runtime/ops/pointwise/operands.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::at_least_float;
using runtime::before_write;
using runtime::Call;
using runtime::in_f32;
using runtime::operands;
using runtime::place_of;
using runtime::require_floating;
using runtime::require_no_bool;
using runtime::V;
using runtime::write;

/// 10^decimals, or of negative ones of their magnitude.
Tensor rounded_to_decimals(Call&& c, const Tensor& self, int64_t decimals) {
  const V x = c.in(self);
  require_floating(c, x);
  const double factor = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (decimals < 0) return c.out(c.b.mul(c.b.round(c.b.div(x, factor)), factor));
  return c.out(c.b.div(c.b.round(c.b.mul(x, factor)), factor));
}

/// As ATen divides halves: by one number in f32, and truncates that; by many it truncates what is
/// rounded to a half.
V truncated_halves(Call& c, V self, V by, const Located& divisor, DType half) {
  const bool by_one = c.b.numel(by) == 1;
  const V other = in_f32(c, divisor, by_one ? by : c.b.convert(by, half));
  const V quotient = c.b.div(c.b.convert(self, f32), other);
  return c.b.convert(c.b.trunc(by_one ? quotient : c.b.convert(quotient, half)), half);
}

// Of floating numbers with the gradient of div_floor, zeros: those of trunc would be divided by
// zero. Of integers the quotient rounded down, and one more where it is negative and has a rest,
// all in the dtype of the result: beside i8 a 0-d u8 of 129 is -127.
V truncated_quotient(Call& c, V a, V b, const Located& divisor) {
  const V both[] = {a, b};
  const DType dtype = c.b.result_type(both);
  const V self = c.b.convert(a, dtype), other = c.b.convert(b, dtype);
  if (ir::is_floating(dtype)) {
    const V quotient = ir::is_half(dtype) ? truncated_halves(c, self, b, divisor, dtype)
                                          : c.b.trunc(c.b.div(self, other));
    return c.b.pointwise(Op::copy, {c.b.div_floor(self, other), c.b.stop_gradient(quotient)});
  }
  const V lower = c.b.floor_divide(self, other);
  const V has_rest = c.b.ne(c.b.mul(lower, other), self);
  const V negative = c.b.ne(c.b.lt(self, 0), c.b.lt(other, 0));
  return c.b.add(lower, c.b.convert(c.b.logical_and(has_rest, negative), dtype));
}

Tensor quotient(Call&& c, const Located& self, const Located& other, std::string_view mode) {
  const auto [a, b] = operands(c, self, other);
  if (mode == "floor") return c.out(c.b.div_floor(a, b));
  if (mode == "trunc") return c.out(truncated_quotient(c, a, b, other));
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
  const V factor = c.given(alpha, dtype);
  return {first, c.b.mul(c.b.convert(second, dtype), factor)};
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

}  // namespace

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

}  // namespace tandem
