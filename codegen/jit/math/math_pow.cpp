// Power and reciprocal square root.
#include <limits>

#include "codegen/jit/math/math_rules.h"

namespace tandem::jit::rules {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// (2 atanh(s) - 2 s - 2/3 s^3) / s^5 in s^2: 2^-66 relative to the logarithm.
constexpr double kRest[] = {0.39999999999999974, 0.2857142857144568, 0.22222222217398638,
                            0.18181818887211623, 0.1538455571911995, 0.13336361704609903,
                            0.11673920098301906, 0.11996491042423581};
constexpr Coefficients kLogRest{{}, {}, kRest};

// An unevaluated sum of two numbers: about 105 bits.
struct Pair {
  Real high, low;
};

Pair product(Real a, Real b) {
  const Real p = a * b;
  return {p, fma(a, b, -p)};
}

Pair product(Pair a, Pair b) {
  const Pair p = product(a.high, b.high);
  return {p.high, p.low + mad(a.high, b.low, a.low * b.high)};
}

// a + b for |a| >= |b| or a == 0.
Pair ordered_sum(Real a, Real b) {
  const Real s = a + b;
  return {s, b - (s - a)};
}

Pair quotient(Real a, Pair b) {
  const Real q = a / b.high;
  return {q, mad(-q, b.low, fma(-q, b.high, a)) / b.high};
}

// log(x), x > 0 and finite, within 2^-64 of its size: 2 s + 2/3 s^3 + rest, s = f / (2 + f),
// leading terms as pairs.
Pair precise_log(Real x) {
  const LogParts parts = split_log(x);
  const Real f = parts.f, two_f = f + 2;
  const Pair s = quotient(f, {two_f, f - (two_f - 2)});
  const Pair z = product(s, s);
  Pair inner = ordered_sum(f.constant(0.6666666666666666), z.high * horner(z.high, kLogRest));
  inner.low = inner.low + 3.700743415417188e-17;
  const Pair cubic = product(product(s, z), inner);
  Pair mantissa = ordered_sum(s.high + s.high, cubic.high);
  mantissa.low = mantissa.low + (s.low + s.low + cubic.low);
  // The large part of ln2 has 42 bits: its multiples are exact.
  Pair sum = ordered_sum(parts.exponent * 0.693147180559890330187, mantissa.high);
  sum.low = sum.low + mad(parts.exponent, f.constant(5.4979230187083711e-14), mantissa.low);
  return ordered_sum(sum.high, sum.low);
}

Mask is_integer(Real a) { return (a >= 0x1p52) | (((a + 0x1p52) - 0x1p52) == a); }

// ax^y, ax >= 0: e^(y log(ax)), where y log(ax) is a pair unless the result goes to f32.
Real magnitude(Real ax, Real y) {
  if (ax.kind == Kind::Wide) return exp(y * log(ax));
  const Pair l = precise_log(ax);
  const Real special = select(ax == 0, ax.constant(-kInf), ax);
  const Mask regular = (ax > 0) & (ax < kInf);
  const Real whole = y * select(regular, l.high, special);
  const Mask in_range = abs(whole) < 800;
  const Real bounded = zero_at_least(at_most(whole, 710), -746);
  const Real rest = mad(y, l.low, fma(y, l.high, -whole));
  const ExpParts e = split_exp(bounded);
  return zero_below(-746, whole,
                    scale(exp_of_small(e.r + select(in_range & regular, rest, 0)), e.n, e.sum));
}

}  // namespace

// C's pow: x^0 = 1^y = (-1)^(+-inf) = 1; a negative finite base needs an integral exponent, an odd
// one gives the sign.
Real pow(Real x, Real y) {
  const Real ax = abs(x), ay = abs(y);
  const Mask integral = is_integer(ay), odd = integral & !is_integer(ay * 0.5);
  const Real value = magnitude(ax, y);
  const Real with_sign = select(odd & sign_bit(x), -value, value);
  const Mask no_value = (x < 0) & (x > -kInf) & !integral;
  const Mask one = (y == 0) | (x == 1) | ((x == -1) & (ay == kInf));
  const Real nan_checked = select(is_nan(x) | is_nan(y) | no_value, x.constant(kNan), with_sign);
  return select(one, 1, nan_checked);
}

// Two correctly rounded steps: the approximate instructions differ between makers of CPUs.
Real rsqrt(Real x) { return 1 / sqrt(x); }

}  // namespace tandem::jit::rules
