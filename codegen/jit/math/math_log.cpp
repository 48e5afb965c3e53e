// The logarithm family: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), then log(1 + f) = f +
// tail(f). Keeping the tail apart makes every base accurate near x = 1.
#include <limits>

#include "codegen/jit/math/math_rules.h"

namespace tandem::jit::rules {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// (log(1 + f) - f + f^2/2) / f^3: 2^-27 relative to the logarithm.
constexpr double kLog32[] = {0.333333313, -0.250008315, 0.200012684, -0.166230202,
                             0.142006829, -0.131625608, 0.127696767, -0.0763745755};
constexpr Coefficients kLogDirect{kLog32, {}, {}};

// (2 atanh(s) - 2 s) / s^3 in s^2, s = f / (2 + f): 2^-37 (wide), 2^-56 (f64), relative to the
// logarithm.
constexpr double kLogWide[] = {0.6666666562539116, 0.4000034017814102, 0.2853696752130948,
                               0.23589032963007134};
constexpr double kLog64[] = {0.666666666666667,   0.39999999999831615, 0.2857142867308999,
                             0.22222202919411538, 0.18183466820559407, 0.15313849031139687,
                             0.14819370530539958};
constexpr Coefficients kLogRatio{{}, kLogWide, kLog64};

// log(1 + f) - f. f64 as in fdlibm: s (f^2/2 + R) - f^2/2.
Real tail(Real f) {
  const Real z = f * f;
  if (f.single()) return mad(z, f.constant(-0.5), f * z * horner(f, kLogDirect));
  const Real s = f / (2 + f), s2 = s * s, half = 0.5 * z;
  return mad(s, mad(s2, horner(s2, kLogRatio), half), -half);
}

// k ln2 + f + tail, the large part of ln2 last.
Real natural(Real k, Real f) {
  const Real low =
      mad(k, k.constant(k.pick(-1.9046542121259336e-09, 2.3190468138462996e-17)), tail(f));
  return mad(k, k.constant(k.pick(0.6931471824645996, kLn2)), f + low);
}

// k * exponent_factor + log(1 + f) * factor, both constants in two parts; the product f * factor
// keeps its rounding error.
Real scaled(LogParts x, double exponent_high, double exponent_low, double high, double low) {
  const Real& f = x.f;
  const Real main = f * high, error = fma(f, high, -main);
  const Real rest = mad(tail(f), f.constant(high), mad(f, f.constant(low), error));
  return mad(x.exponent, f.constant(exponent_high), main) +
         mad(x.exponent, f.constant(exponent_low), rest);
}

// log(0) = -inf, log(x < 0) = NaN, log(inf) = inf.
Real with_special(Real x, Real finite) {
  const Real special = select(x == 0, x.constant(-kInf), select(x > 0, x, kNan));
  return select((x > 0) & (x < kInf), finite, special);
}

struct Biased {
  Int exponent;  // of the power of two, with bias
  Real fraction;
};

// Adding 1 - sqrt(1/2) in the bits moves the cut between two powers of two down to sqrt(2).
Biased cut(Real x) {
  const int64_t one = x.single() ? 0x3f800000 : 0x3ff0000000000000,
                root = x.single() ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
  const Int moved = bits(x) + (one - root);
  return {lshr(moved, x.mantissa_bits()),
          from_bits((moved & ((int64_t{1} << x.mantissa_bits()) - 1)) + root, x)};
}

// A biased exponent as a number: through the bits of 2^mantissa, since i64 has no vector conversion
// below AVX-512.
Real to_real(Int biased, Real like) {
  const double base = like.pick(0x1p23, 0x1p52);
  return from_bits(biased | (like.single() ? 0x4b000000 : 0x4330000000000000), like) -
         (base + like.exponent_bias());
}

// asinh and acosh are log(2 a) for a > 2^56, whose square might overflow.
struct Large {
  Mask is;
  Real bounded;
};

Large above(Real a) {
  const Mask large = a > 0x1p56;
  return {large, select(large, 1, a)};
}

Real log1p_or_large(const Large& large, Real a, Real usual) {
  const Real inner = log1p(select(large.is, a, usual));
  return select(large.is, inner + kLn2, inner);
}

}  // namespace

LogParts split_log(Real x) {
  const Mask tiny = x < x.pick(0x1p-126, 0x1p-1022);
  const double up = x.pick(24, 54);
  const Biased b = cut(select(tiny, x * x.pick(0x1p24, 0x1p54), x));
  return {to_real(b.exponent, x) - select(tiny, up, x.constant(0)), b.fraction - 1};
}

Real log(Real x) {
  const LogParts parts = split_log(x);
  return with_special(x, natural(parts.exponent, parts.f));
}

Real log2(Real x) {
  const Real r = x.single()
                     ? scaled(split_log(x), 1, 0, 1.4426950216293335, 1.925963033500011e-08)
                     : scaled(split_log(x), 1, 0, 1.4426950408889634, 2.0355273740931033e-17);
  return with_special(x, r);
}

Real log10(Real x) {
  const Real r = x.single() ? scaled(split_log(x), 0.3010300099849701, -1.432098883924482e-08,
                                     0.4342944920063019, -1.0103049952192578e-08)
                            : scaled(split_log(x), 0.3010299956639812, -2.8037281277851704e-18,
                                     0.4342944819032518, 1.098319650216765e-17);
  return with_special(x, r);
}

// With k from u = 1 + x: f = x 2^-k + (2^-k - 1), which is x itself when k = 0. The last step keeps
// -0.
Real log1p(Real x) {
  const int m = x.mantissa_bits(), bias = x.exponent_bias();
  const Real u = 1 + x;
  const Int biased = cut(u).exponent, shift = shl(biased, m);
  const Real power = from_bits(shl(2 * bias - biased, m), x);  // 2^-k
  const Real less_one = select(x > x.pick(0x1p30, 0x1p60), -1, power - 1);
  const Real scaled_x = from_bits(bits(x) - (shift - (int64_t{bias} << m)), x);
  const Real finite = natural(to_real(biased, x), scaled_x + less_one);
  return select(x == 0, x, with_special(u, finite));
}

// log1p(a + a^2 / (1 + sqrt(a^2 + 1))).
Real asinh(Real x) {
  const Real a = abs(x);
  const Large large = above(a);
  const Real b = large.bounded, z = b * b;
  return copysign(log1p_or_large(large, a, b + z / (1 + sqrt(z + 1))), x);
}

// log1p(t + sqrt(t^2 + 2 t)), t = x - 1.
Real acosh(Real x) {
  const Large large = above(x);
  const Real t = large.bounded - 1;
  return select(x < 1, kNan, log1p_or_large(large, x, t + sqrt(mad(t, t, t + t))));
}

// log1p(2 a / (1 - a)) / 2.
Real atanh(Real x) {
  const Real a = abs(x);
  return copysign(0.5 * log1p((a + a) / (1 - a)), x);
}

}  // namespace tandem::jit::rules
