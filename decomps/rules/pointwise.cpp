// Pointwise composites: arithmetic of several tensors, tests, fills.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>

#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

V is_infinite(Builder& b, V x) { return b.eq(b.abs(x), kInfinity); }

/// column - row <= offset in the last two dims, as bool of like's sizes.
V on_or_below_diagonal(Builder& b, V like, int64_t offset) {
  const Shape sizes = b.sizes(like);
  const int64_t rows = sizes[sizes.rank() - 2], columns = sizes.back();
  offset = std::clamp(offset, -rows, columns);  // none and all of the elements; no sum overflows
  const V row = b.view(b.iota(rows, DType::I64, offset), {rows, 1});
  const V column = b.view(b.iota(columns, DType::I64), {1, columns});
  return b.expand(b.le(column, row), sizes);
}

}  // namespace

V div_floor(Context& c) { return c.b.floor_divide(c[0], c[1]); }
V stop_backward(Context& c) { return c.b.clone(c[0]); }
V keep_history(Context& c) { return c.b.clone(c[1]); }
V keep_backward(Context& c) { return c.b.clone(c[1]); }
V square(Context& c) { return c.b.mul(c[0], c[0]); }
V frac(Context& c) { return c.b.sub(c[0], c.b.trunc(c[0])); }
V clamp_min(Context& c) { return c.b.maximum(c[0], c[1]); }
V clamp_max(Context& c) { return c.b.minimum(c[0], c[1]); }

V clamp(Context& c) { return c.b.minimum(c.b.maximum(c[0], c[1]), c[2]); }

// x == 0 ? values : x > 0
V heaviside(Context& c) {
  Builder& b = c.b;
  return b.where(b.eq(c[0], 0), c[1], b.convert(b.gt(c[0], 0), b.dtype(c[0])));
}

// Patterns of one sign are in the order of the magnitudes: the next one, or from zero the first of
// the other operand's sign.
V nextafter(Context& c) {
  Builder& b = c.b;
  const V x = c[0], y = c[1];
  const DType dtype = b.dtype(x), ints = ir::integer_of(static_cast<int64_t>(size_of(dtype)));
  const V away = b.eq(b.lt(x, y), b.gt(x, 0));
  const V bits = b.bitcast(x, ints);
  const V next = b.bitcast(b.where(away, b.add(bits, 1), b.sub(bits, 1)), dtype);
  const V least = b.bitcast(b.full_like(bits, 1), dtype);
  const V from_zero = b.where(b.gt(y, 0), least, b.neg(least));
  const V moved = b.where(b.eq(x, 0), from_zero, next);
  const V unordered = b.logical_or(b.isnan(x), b.isnan(y));
  return b.where(unordered, kNaN, b.where(b.eq(x, y), y, moved));
}

// |w| < 1/2 ? self + w (end - self) : end - (end - self) (1 - w)
V lerp(Context& c) {
  Builder& b = c.b;
  const V self = c[0], end = c[1], weight = c[2], difference = b.sub(end, self);
  return b.where(b.lt(b.abs(weight), 0.5), b.add(self, b.mul(weight, difference)),
                 b.sub(end, b.mul(difference, b.sub(1, weight))));
}

// self + value t1 t2
V addcmul(Context& c) {
  Builder& b = c.b;
  return b.add(c[0], b.mul(b.mul(c[1], c.attr<Number>(Attr::value)), c[2]));
}

// self + value t1 / t2
V addcdiv(Context& c) {
  Builder& b = c.b;
  return b.add(c[0], b.div(b.mul(c[1], c.attr<Number>(Attr::value)), c[2]));
}

// m sqrt(1 + (n / m)^2) of m = max(|x|, |y|), n = min(|x|, |y|); inf if either is infinite
V hypot(Context& c) {
  Builder& b = c.b;
  const V x = b.abs(c[0]), y = b.abs(c[1]);
  const V m = b.maximum(x, y), ratio = b.div(b.minimum(x, y), m);
  const V finite = b.where(b.eq(m, 0), m, b.mul(m, b.sqrt(b.add(b.mul(ratio, ratio), 1))));
  return b.where(b.logical_or(is_infinite(b, x), is_infinite(b, y)), kInfinity, finite);
}

// |x| with the sign of y; -0 is found by 1 / y = -inf
V copysign(Context& c) {
  Builder& b = c.b;
  const V magnitude = b.abs(c[0]);
  const V negative = b.logical_or(b.lt(c[1], 0), b.lt(b.reciprocal(c[1]), 0));
  return b.where(negative, b.neg(magnitude), magnitude);
}

// max(x, y) + log1p(exp(-|x - y|)); x where both are the same infinity
V logaddexp(Context& c) {
  Builder& b = c.b;
  const V x = c[0], y = c[1];
  const V sum = b.add(b.maximum(x, y), b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))));
  return b.where(b.logical_and(b.eq(x, y), is_infinite(b, x)), x, sum);
}

// the same with powers of two
V logaddexp2(Context& c) {
  Builder& b = c.b;
  const V x = c[0], y = c[1];
  const V part = b.log1p(b.exp2(b.neg(b.abs(b.sub(x, y)))));
  const V sum = b.add(b.maximum(x, y), b.mul(part, std::numbers::log2e));
  return b.where(b.logical_and(b.eq(x, y), is_infinite(b, x)), x, sum);
}

// y is NaN: NaN; x == 0: 0; else x log(1 + y)
V xlog1py(Context& c) {
  Builder& b = c.b;
  const V product = b.where(b.eq(c[0], 0), 0, b.mul(c[0], b.log1p(c[1])));
  return b.where(b.isnan(c[1]), kNaN, product);
}

// x > 0: -x log(x); 0 at 0, -inf below
V entr(Context& c) {
  Builder& b = c.b;
  const V below = b.where(b.eq(c[0], 0), 0, b.where(b.isnan(c[0]), c[0], -kInfinity));
  return b.where(b.gt(c[0], 0), b.neg(b.mul(c[0], b.log(c[0]))), below);
}

// y is NaN: NaN; x == 0: 0; else x log(y)
V xlogy(Context& c) {
  Builder& b = c.b;
  const V product = b.where(b.eq(c[0], 0), 0, b.mul(c[0], b.log(c[1])));
  return b.where(b.isnan(c[1]), kNaN, product);
}

V isnan(Context& c) { return c.b.ne(c[0], c[0]); }

V isinf(Context& c) {
  const bool floating = is_floating(c.b.dtype(c[0]));
  return floating ? is_infinite(c.b, c[0]) : c.b.full(c.b.sizes(c[0]), DType::Bool, false);
}

V isfinite(Context& c) {
  const bool floating = is_floating(c.b.dtype(c[0]));
  return floating ? c.b.lt(c.b.abs(c[0]), kInfinity) : c.b.full(c.b.sizes(c[0]), DType::Bool, true);
}

V nan_to_num(Context& c) {
  Builder& b = c.b;
  if (is_integral(b.dtype(c[0]))) return c[0];
  const V x = c[0], nan = c[1], posinf = c[2], neginf = c[3];
  const V finite = b.where(b.eq(x, kInfinity), posinf, b.where(b.eq(x, -kInfinity), neginf, x));
  return b.where(b.isnan(x), nan, finite);
}

V masked_fill(Context& c) { return c.b.where(c[1], c[2], c[0]); }

// column - row <= offset ? x : 0
V tril(Context& c) {
  return c.b.where(on_or_below_diagonal(c.b, c[0], c.attr<Dim>(Attr::offset)), c[0],
                   c.b.zeros_like(c[0]));
}

// column - row >= offset ? x : 0
V triu(Context& c) {
  const int64_t offset = std::max<int64_t>(c.attr<Dim>(Attr::offset), -INT64_MAX) - 1;
  return c.b.where(on_or_below_diagonal(c.b, c[0], offset), c.b.zeros_like(c[0]), c[0]);
}

V copy(Context& c) { return c[1]; }
V fill(Context& c) { return c.b.full_like(c[0], c.attr<Number>(Attr::value)); }

}  // namespace tandem::decomps::rules
