// Pointwise operations: free functions, methods, in-place forms. Most follow from the lists.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "runtime/ops/pointwise/operands.h"
#include "runtime/tape/autograd.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::Call;
using runtime::is_root;
using runtime::operands;
using runtime::Pair;
using runtime::place_of;
using runtime::require_fitting;
using runtime::require_no_bool;
using runtime::unrounded;
using runtime::V;

/// A tensor of its own, also where the builder found nothing to compute.
Tensor fresh(Call& c, V self, V result) { return c.out(result == self ? c.b.clone(self) : result); }

Tensor unary(Op op, const Tensor& self, const SourceLocation& at, ir::AttrsRef attrs = {}) {
  Call c(at, ir::name(op));
  const V v = c.in(self);
  return fresh(c, v, c.b.pointwise(op, {v}, attrs));
}

const Tensor& unary_in_place(Op op, const Tensor& self, const SourceLocation& at,
                             ir::AttrsRef attrs = {}) {
  Call c(at, ir::name(op), true);
  c.b.pointwise_in_place(op, {c.in(self)}, attrs);
  return self;
}

/// a to the power b of bools: a or not b.
bool is_power_of_bools(Call& c, Op op, V a, V b) {
  return op == Op::pow && c.b.dtype(a) == boolean && c.b.dtype(b) == boolean;
}

/// ATen's heaviside does not promote.
void require_one_dtype(Call& c, V a, V b) {
  if (c.b.dtype(a) != c.b.dtype(b))
    ir::fail(Errc::DType,
             fmt::format("heaviside: values have another dtype than self; expected {}, got {}",
                         ir::name(c.b.dtype(a)), ir::name(c.b.dtype(b))));
}

Tensor binary(Op op, const Located& a, const Located& b) {
  Call c(place_of(a, b), ir::name(op));
  if (op == Op::sub) require_no_bool(a, b);
  const Pair p = operands(c, a, b);
  require_fitting(c, op, b, p.b);
  if (op == Op::heaviside) require_one_dtype(c, p.a, p.b);
  if (is_power_of_bools(c, op, p.a, p.b)) return c.out(c.b.logical_or(p.a, c.b.logical_not(p.b)));
  const V both[] = {p.a, p.b};
  const DType dtype = c.b.result_type(both);
  if (op == Op::pow && is_root(dtype, b)) return c.out(c.b.sqrt(c.b.convert(p.a, dtype)));
  const auto wide = unrounded(c, op, a, b, p);
  if (!wide) return c.out(c.b.pointwise(op, {p.a, p.b}));
  return c.out(c.b.convert(c.b.pointwise(op, {wide->a, wide->b}), dtype));
}

const Tensor& binary_in_place(Op op, const Tensor& self, const Located& other) {
  Call c(other.location, ir::name(op), true);
  if (op == Op::sub) require_no_bool(Located(self, other.location), other);
  const V v = c.in(self), w = c.in(other, v, "other");
  require_fitting(c, op, other, w);
  if (op == Op::heaviside) require_one_dtype(c, v, w);
  if (is_power_of_bools(c, op, v, w))
    c.b.pointwise_in_place(Op::logical_or, {v, c.b.logical_not(w)});
  else if (op == Op::pow && is_root(self.dtype(), other))
    c.b.pointwise_in_place(Op::sqrt, {v});
  else if (const auto wide = unrounded(c, op, Located(self, other.location), other, {v, w}))
    c.b.pointwise_in_place(Op::copy, {v, c.b.pointwise(op, {wide->a, wide->b})});
  else
    c.b.pointwise_in_place(op, {v, w});
  return self;
}

/// self, end and weight; as ATen, of one dtype.
std::array<V, 3> lerp_operands(Call& c, const Tensor& self, const Tensor& end,
                               const Located& weight) {
  const V v = c.in(self), e = c.in(end, "end"), w = c.in(weight, v, "weight");
  const bool weighs = weight.tensor != nullptr && weight.tensor->dim() > 0;  // 0-d: as a number
  for (const Tensor* t : {&end, weighs ? weight.tensor : nullptr})
    if (t != nullptr && t->dtype() != self.dtype())
      ir::fail(Errc::DType, fmt::format("lerp: operands have different dtypes; expected {}, got {}",
                                        ir::name(self.dtype()), ir::name(t->dtype())));
  return {v, e, w};
}

/// A bound of hardtanh in self's dtype: of integers a whole number, which an unsigned one holds.
V hardtanh_bound(Call& c, V self, const Number& bound) {
  const DType dtype = c.b.dtype(self);
  if (dtype == boolean)
    ir::fail(Errc::DType, "hardtanh: not defined for bool; expected numbers, got bool");
  if (ir::is_floating(dtype)) return c.given(bound, dtype);
  const Number whole = ir::checked_constant(i64, bound);
  if (dtype == u8 && whole.to_int() < 0)
    ir::fail(Errc::Argument,
             fmt::format("hardtanh: negative bound; expected at least 0 for u8, got {}",
                         whole.to_int()));
  return c.given(whole, dtype);
}

/// self, min and max.
std::array<V, 3> hardtanh_operands(Call& c, const Tensor& self, const Number& min,
                                   const Number& max) {
  if (min.to_double() > max.to_double())
    ir::fail(Errc::Argument, fmt::format("hardtanh: min is above max; expected min <= max, got {} "
                                         "and {}",
                                         min.to_double(), max.to_double()));
  const V v = c.in(self);
  return {v, hardtanh_bound(c, v, min), hardtanh_bound(c, v, max)};
}

/// self, and what NaN and the infinities become.
std::array<V, 4> nan_to_num_operands(Call& c, const Tensor& self, double nan,
                                     std::optional<double> posinf, std::optional<double> neginf) {
  const double largest = self.dtype() == f64    ? std::numeric_limits<double>::max()
                         : self.dtype() == f16  ? 65504
                         : self.dtype() == bf16 ? 3.38953138925153547590470800371487866880e38
                                                : std::numeric_limits<float>::max();
  const V v = c.in(self);
  const auto number = [&](double x) { return c.b.number(x, v); };
  return {v, number(nan), number(posinf.value_or(largest)), number(neginf.value_or(-largest))};
}

/// self + value * f(tensor1, tensor2): the multiplied forms of addcmul and addcdiv.
Tensor scaled(Op op, const Tensor& self, const Tensor& x, const Tensor& y, const Located& value,
              bool in_place) {
  Call c(value.location, ir::name(op), in_place);
  if (op == Op::addcdiv && ir::is_integral(x.dtype()) && ir::is_integral(y.dtype()))
    ir::fail(Errc::DType, fmt::format("addcdiv: a quotient of integers; expected a floating "
                                      "tensor1 or tensor2, got {} and {}",
                                      ir::name(x.dtype()), ir::name(y.dtype())));
  const V v = c.in(self), second = c.in(y, "tensor2");
  V first = c.in(x, "tensor1");
  Number factor = 1;
  if (value.tensor != nullptr)
    first = c.b.mul(first, c.in(*value.tensor, "value"));
  else
    factor = value.number;
  const V all[] = {v, first, second};
  const DType type = c.b.result_type(all);
  factor = ir::checked_constant(ir::is_half(type) ? f32 : type, factor);
  if (in_place) {
    c.b.pointwise_in_place(op, {v, first, second}, {factor});
    return self;
  }
  return c.out(c.b.pointwise(op, {v, first, second}, {factor}));
}

void check_approximation(std::string_view approximate) {
  if (approximate != "none" && approximate != "tanh")
    ir::fail(Errc::Argument, fmt::format("gelu: unknown approximation; expected \"none\" or "
                                         "\"tanh\", got \"{}\"",
                                         approximate));
}

/// A value that may lie in what is written with it: as ATen, it is read before.
Tensor read_first(const Tensor& value, const Tensor& written) {
  const bool shares =
      value.defined() && written.defined() && runtime::share_storage(value, written);
  return shares ? value.clone() : value;
}

/// What fill_ and masked_fill give to each place.
const Tensor& one_element(const Tensor& value) {
  if (value.defined() && value.dim() != 0)
    ir::fail(Errc::Shape, fmt::format("value is not one element; expected a number or [], got {}",
                                      to_string(value.sizes())));
  return value;
}

/// The value of masked_fill as an operand.
V filling(Call& c, const Tensor& value) { return c.in(one_element(value), "value"); }

/// Error if `other` is read while a part of it is written.
void require_apart(const Tensor& self, const Located& other) {
  if (self.defined() && other.tensor != nullptr && other.tensor->defined())
    runtime::check_apart(self, *other.tensor, runtime::Sharing::AllOrNothing);
}

/// `values` written over `self`, which gives them and `other` a gradient of zeros, as in ATen.
const Tensor& write_comparison(const Tensor& self, const Tensor& values, const Located& other) {
  const SourceLocation& at = other.location;
  if (other.tensor == nullptr || !other.tensor->requires_grad() || !grad_enabled())
    return self.copy_(Located(values, at));
  const Tensor compared = to(expand(*other.tensor, self.sizes(), at), self.dtype(), at).clone(at);
  return self.copy_(Located(compared.copy_(Located(values, at)), at));
}

}  // namespace

#define X(op)                                                                          \
  Tensor op(const Tensor& self, SourceLocation at) { return unary(Op::op, self, at); } \
  Tensor Tensor::op(SourceLocation at) const { return unary(Op::op, *this, at); }
TANDEM_UNARY_IN_PLACE_OPS(X)
TANDEM_UNARY_OPS(X)
#undef X
#define X(op) \
  const Tensor& Tensor::op##_(SourceLocation at) const { return unary_in_place(Op::op, *this, at); }
TANDEM_UNARY_IN_PLACE_OPS(X)
#undef X
#define X(op)                                                                    \
  Tensor op(const Located& a, const Located& b) { return binary(Op::op, a, b); } \
  Tensor Tensor::op(const Located& other) const {                                \
    return binary(Op::op, Located(*this, other.location), other);                \
  }
TANDEM_BINARY_IN_PLACE_OPS(X)
TANDEM_BINARY_OPS(X)
#undef X
#define X(op)                                               \
  const Tensor& Tensor::op##_(const Located& other) const { \
    return binary_in_place(Op::op, *this, other);           \
  }
TANDEM_BINARY_IN_PLACE_OPS(X)
#undef X

// Through the functional forms: the result is bool, and stored as 0 or 1.
#define X(op)                                               \
  const Tensor& Tensor::op##_(const Located& other) const { \
    const ir::ErrorScope errors(other.location);            \
    require_apart(*this, other);                            \
    return write_comparison(*this, op(other), other);       \
  }
TANDEM_COMPARISON_OPS(X)
#undef X

Tensor operator-(const Located& a) {
  TANDEM_CHECK(a.tensor != nullptr, "numbers have a minus of their own");
  return neg(*a.tensor, a.location);
}
Tensor operator~(const Located& a) {
  TANDEM_CHECK(a.tensor != nullptr, "numbers have a complement of their own");
  return bitwise_not(*a.tensor, a.location);
}

// --- with parameters

Tensor leaky_relu(const Tensor& self, double negative_slope, SourceLocation at) {
  return unary(Op::leaky_relu, self, at, {negative_slope});
}
Tensor elu(const Tensor& self, double alpha, SourceLocation at) {
  return unary(Op::elu, self, at, {alpha});
}
Tensor celu(const Tensor& self, double alpha, SourceLocation at) {
  return unary(Op::celu, self, at, {alpha});
}
Tensor gelu(const Tensor& self, std::string_view approximate, SourceLocation at) {
  const ir::ErrorScope errors(at);
  check_approximation(approximate);
  return unary(Op::gelu, self, at, {std::string(approximate)});
}
Tensor softplus(const Tensor& self, double beta, double threshold, SourceLocation at) {
  return unary(Op::softplus, self, at, {beta, threshold});
}

Tensor hardtanh(const Tensor& self, const Number& min, const Number& max, SourceLocation at) {
  Call c(at);
  const auto [v, low, high] = hardtanh_operands(c, self, min, max);
  return c.out(c.b.pointwise(Op::hardtanh, {v, low, high}));
}

Tensor clamp(const Tensor& self, std::optional<Number> min, std::optional<Number> max,
             SourceLocation at) {
  Call c(at);
  const V clamped = c.b.clamp(c.in(self), min, max);
  for (const auto& bound : {min, max})
    if (bound) (void)ir::checked_constant(c.b.dtype(clamped), *bound);
  return c.out(clamped);
}
Tensor clamp_min(const Located& self, const Located& min) {
  return binary(Op::clamp_min, self, min);
}
Tensor clamp_max(const Located& self, const Located& max) {
  return binary(Op::clamp_max, self, max);
}

Tensor where(const Tensor& condition, const Located& self, const Located& other) {
  if (self.tensor == nullptr && other.tensor == nullptr) {  // as ATen: two numbers are one dtype
    const auto kind = std::max(self.number.kind(), other.number.kind());
    const DType dtype = kind == Number::Kind::Float ? f32
                        : kind == Number::Kind::Int ? i64
                                                    : boolean;
    Call c(self.location);
    return c.out(c.b.where(c.in(condition, "condition"), c.given(self.number, dtype),
                           c.given(other.number, dtype)));
  }
  Call c(self.location);
  const V mask = c.in(condition, "condition");
  Pair p = operands(c, self, other);
  if (self.tensor == nullptr) p.a = c.written(self.number, c.b.dtype(p.a));
  if (other.tensor == nullptr) p.b = c.written(other.number, c.b.dtype(p.b));
  return c.out(c.b.where(mask, p.a, p.b));
}

Tensor lerp(const Tensor& self, const Tensor& end, const Located& weight) {
  Call c(weight.location);
  const auto [v, e, w] = lerp_operands(c, self, end, weight);
  return c.out(c.b.pointwise(Op::lerp, {v, e, w}));
}
Tensor addcmul(const Tensor& self, const Tensor& x, const Tensor& y, const Located& value) {
  return scaled(Op::addcmul, self, x, y, value, false);
}
Tensor addcdiv(const Tensor& self, const Tensor& x, const Tensor& y, const Located& value) {
  return scaled(Op::addcdiv, self, x, y, value, false);
}

Tensor nan_to_num(const Tensor& self, double nan, std::optional<double> posinf,
                  std::optional<double> neginf, SourceLocation at) {
  if (ir::is_integral(self.dtype())) return clone(self, at);
  Call c(at);
  const auto [v, n, p, m] = nan_to_num_operands(c, self, nan, posinf, neginf);
  return c.out(c.b.pointwise(Op::nan_to_num, {v, n, p, m}));
}

Tensor masked_fill(const Tensor& self, const Tensor& mask, const Located& value) {
  Call c(value.location);
  const V v = c.in(self), m = c.in(mask, "mask");
  const V number =
      value.tensor != nullptr ? filling(c, *value.tensor) : c.given(value.number, c.b.dtype(v));
  return c.out(c.b.pointwise(Op::masked_fill, {v, m, number}));
}

Tensor tril(const Tensor& self, Dim diagonal, SourceLocation at) {
  return unary(Op::tril, self, at, {diagonal});
}
Tensor triu(const Tensor& self, Dim diagonal, SourceLocation at) {
  return unary(Op::triu, self, at, {diagonal});
}
Tensor to(const Tensor& self, DType dtype, SourceLocation at) {
  Call c(at);
  return c.out(c.b.convert(c.in(self), dtype));
}
Tensor clone(const Tensor& self, SourceLocation at) {
  return runtime::in_layout_of(self, at, [&](const ir::Axes& order) {
    const bool as_is = std::ranges::is_sorted(order);
    return unary(Op::clone, as_is ? self : permute(self, order, at), at);
  });
}

// --- as methods

Tensor Tensor::to(DType dtype, SourceLocation at) const { return tandem::to(*this, dtype, at); }
Tensor Tensor::clone(SourceLocation at) const { return tandem::clone(*this, at); }
Tensor Tensor::contiguous(SourceLocation at) const {
  return is_contiguous() ? *this : unary(Op::clone, *this, at);
}
Tensor Tensor::clamp(std::optional<Number> min, std::optional<Number> max,
                     SourceLocation at) const {
  return tandem::clamp(*this, min, max, at);
}
Tensor Tensor::masked_fill(const Tensor& mask, const Located& value) const {
  return tandem::masked_fill(*this, mask, value);
}
Tensor Tensor::where(const Tensor& condition, const Located& other) const {
  return tandem::where(condition, Located(*this, other.location), other);
}
Tensor Tensor::lerp(const Tensor& end, const Located& weight) const {
  return tandem::lerp(*this, end, weight);
}
Tensor Tensor::tril(Dim diagonal, SourceLocation at) const {
  return tandem::tril(*this, diagonal, at);
}
Tensor Tensor::triu(Dim diagonal, SourceLocation at) const {
  return tandem::triu(*this, diagonal, at);
}

// --- writing

const Tensor& Tensor::copy_(const Located& src) const {
  if (src.tensor != nullptr) return binary_in_place(Op::copy, *this, src);
  Call c(src.location);
  const V v = c.in(*this);
  c.b.pointwise_in_place(Op::copy, {v, c.written(src.number, dtype())});
  return *this;
}
const Tensor& Tensor::fill_(const Located& value) const {
  const ir::ErrorScope errors(value.location);
  if (value.tensor != nullptr) {
    const Tensor number = read_first(one_element(*value.tensor), *this);
    return copy_(Located(number, value.location));
  }
  Call c(value.location);
  const Number stored = ir::checked_constant(dtype(), value.number);
  const V self[] = {c.in(*this)};
  c.b.emit_in_place(Op::fill, self, {stored});
  return *this;
}
const Tensor& Tensor::zero_(SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return fill_(Located(0, at));
}

const Tensor& Tensor::masked_fill_(const Tensor& mask, const Located& value) const {
  Call c(value.location);
  const V v = c.in(*this), m = c.in(mask, "mask");
  const V number = value.tensor != nullptr ? filling(c, read_first(*value.tensor, *this))
                                           : c.given(value.number, dtype());
  c.b.pointwise_in_place(Op::masked_fill, {v, m, number});
  return *this;
}
const Tensor& Tensor::lerp_(const Tensor& end, const Located& weight) const {
  Call c(weight.location);
  const auto [v, e, w] = lerp_operands(c, *this, end, weight);
  c.b.pointwise_in_place(Op::lerp, {v, e, w});
  return *this;
}
const Tensor& Tensor::addcmul_(const Tensor& x, const Tensor& y, const Located& value) const {
  scaled(Op::addcmul, *this, x, y, value, true);
  return *this;
}
const Tensor& Tensor::addcdiv_(const Tensor& x, const Tensor& y, const Located& value) const {
  scaled(Op::addcdiv, *this, x, y, value, true);
  return *this;
}
const Tensor& Tensor::clamp_(std::optional<Number> min, std::optional<Number> max,
                             SourceLocation at) const {
  const ir::ErrorScope errors(at);
  if (!min && !max)
    ir::fail(Errc::Argument, "clamp_: no bound; expected min, max or both, got neither");
  if (min) clamp_min_(Located(*min, at));
  if (max) clamp_max_(Located(*max, at));
  return *this;
}
const Tensor& Tensor::clamp_min_(const Located& min) const {
  return binary_in_place(Op::clamp_min, *this, min);
}
const Tensor& Tensor::clamp_max_(const Located& max) const {
  return binary_in_place(Op::clamp_max, *this, max);
}
const Tensor& Tensor::tril_(Dim diagonal, SourceLocation at) const {
  return unary_in_place(Op::tril, *this, at, {diagonal});
}
const Tensor& Tensor::triu_(Dim diagonal, SourceLocation at) const {
  return unary_in_place(Op::triu, *this, at, {diagonal});
}

const Tensor& Tensor::leaky_relu_(double negative_slope, SourceLocation at) const {
  return unary_in_place(Op::leaky_relu, *this, at, {negative_slope});
}
const Tensor& Tensor::elu_(double alpha, SourceLocation at) const {
  return unary_in_place(Op::elu, *this, at, {alpha});
}
const Tensor& Tensor::celu_(double alpha, SourceLocation at) const {
  return unary_in_place(Op::celu, *this, at, {alpha});
}
const Tensor& Tensor::gelu_(std::string_view approximate, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  check_approximation(approximate);
  return unary_in_place(Op::gelu, *this, at, {std::string(approximate)});
}
const Tensor& Tensor::hardtanh_(const Number& min, const Number& max, SourceLocation at) const {
  Call c(at);
  const auto [v, low, high] = hardtanh_operands(c, *this, min, max);
  c.b.pointwise_in_place(Op::hardtanh, {v, low, high});
  return *this;
}
const Tensor& Tensor::nan_to_num_(double nan, std::optional<double> posinf,
                                  std::optional<double> neginf, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  if (ir::is_integral(dtype())) return *this;
  Call c(at);
  const auto [v, n, p, m] = nan_to_num_operands(c, *this, nan, posinf, neginf);
  c.b.pointwise_in_place(Op::nan_to_num, {v, n, p, m});
  return *this;
}
const Tensor& Tensor::addmm_(const Tensor& mat1, const Tensor& mat2, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addmm(*this, mat1, mat2, at), at));
}
const Tensor& Tensor::fill_diagonal_(const Located& value) const {
  const ir::ErrorScope errors(value.location);
  if (dim() != 2)
    ir::fail(Errc::Shape,
             fmt::format("fill_diagonal_: expected a matrix, got {}", ir::to_string(sizes())));
  diagonal(0, 0, 1, value.location).fill_(value);
  return *this;
}

}  // namespace tandem
