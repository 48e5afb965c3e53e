#include "runtime/ops/pointwise/operands.h"

#include <fmt/format.h>

#include "ir/base/error.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {

using ir::ErrorScope;

const SourceLocation& place_of(const Located& a, const Located& b) {
  return a.tensor != nullptr ? a.location : b.location;
}

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

namespace {

bool scales(ir::Op op) {
  return op == ir::Op::mul || op == ir::Op::div || op == ir::Op::floor_divide;
}

/// Whether `operand` is a number that halves would round.
bool is_odd_number(const Located& operand, DType half) {
  if (operand.tensor != nullptr) return false;
  return ir::rounded_to(half, operand.number).to_double() != operand.number.to_double();
}

}  // namespace

std::optional<Pair> unrounded(Call& c, ir::Op op, const Located& a, const Located& b,
                              const Pair& p) {
  const V both[] = {p.a, p.b};
  const DType dtype = c.b.result_type(both);
  if (!scales(op) || !ir::is_half(dtype)) return std::nullopt;
  const bool by_element = b.tensor != nullptr && c.b.rank(p.b) == 0 && c.b.dtype(p.b) != dtype;
  if (!is_odd_number(a, dtype) && !is_odd_number(b, dtype) && !by_element) return std::nullopt;
  return Pair{in_f32(c, a, p.a), in_f32(c, b, p.b)};
}

bool is_root(DType dtype, const Located& exponent) {
  return exponent.tensor == nullptr && exponent.number.to_double() == 0.5 &&
         ir::is_floating(dtype) && dtype != f16;
}

V in_f32(Call& c, const Located& given, V operand) {
  return given.tensor != nullptr ? c.b.convert(operand, f32)
                                 : c.b.full({}, f32, given.number.to_double());
}

V at_least_float(Call& c, V x) { return c.b.convert(x, ir::at_least_float(c.b.dtype(x))); }

void require_floating(Call& c, V x) {
  if (!ir::is_floating(c.b.dtype(x)))
    ir::fail(Errc::DType, fmt::format("{}: expected a floating dtype, got {}",
                                      ErrorScope::function(), ir::name(c.b.dtype(x))));
}

void require_fitting(Call& c, ir::Op op, const Located& operand, V v) {
  if (operand.tensor != nullptr) return;
  const DType dtype = c.b.dtype(v);
  const bool is_exponent = op == ir::Op::pow && ir::is_integral(dtype);
  if (is_exponent && operand.number.to_int() < 0)
    ir::fail(Errc::Argument,
             fmt::format("{}: an integer to a negative power; expected an exponent of at least 0 "
                         "or a floating dtype, got {}",
                         ErrorScope::function(), operand.number.to_int()));
  if (is_exponent || op == ir::Op::clamp_min || op == ir::Op::clamp_max)
    (void)ir::checked_constant(dtype, operand.number);
}

void require_no_bool(const Located& a, const Located& b) {
  for (const Located* operand : {&a, &b})
    if (operand->tensor != nullptr ? operand->tensor->dtype() == boolean
                                   : operand->number.kind() == Number::Kind::Bool)
      ir::fail(Errc::DType, ErrorScope::function() +
                                ": not defined for bool; expected numbers (logical_xor and "
                                "bitwise_xor take bool)");
}

Tensor before_write(const Tensor& self, const SourceLocation& at, const Located* other) {
  const auto differentiable = [](const Tensor* t) {
    return t != nullptr && t->defined() && t->requires_grad();
  };
  const bool is_saved = grad_enabled() && (differentiable(&self) ||
                                           (other != nullptr && differentiable(other->tensor)));
  return is_saved ? self.clone(at) : self;
}

const Tensor& write(const Tensor& self, const Tensor& value, const SourceLocation& at,
                    const Located* other) {
  const bool is_read =
      other != nullptr && other->tensor != nullptr && other->tensor->dtype() == self.dtype();
  if (is_read) check_apart(self, *other->tensor, Sharing::AllOrNothing);
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

}  // namespace tandem::runtime
