// The formulas behind math.h, one function each, grouped in math_exp.cpp, math_log.cpp,
// math_trig.cpp, math_atan.cpp, math_erf.cpp and math_pow.cpp. Polynomials were fitted by the Remez
// exchange in 160-bit arithmetic, coefficients rounded one after the other (f32) with the rest
// refitted. Bounds are those that tests/unit/jit/math_test.cpp measures and asserts.
#ifndef TANDEM_CODEGEN_JIT_MATH_MATH_RULES_H
#define TANDEM_CODEGEN_JIT_MATH_MATH_RULES_H

#include "codegen/jit/emit/lanes.h"

namespace tandem::jit::rules {

Real exp(Real x);
Real exp2(Real x);
Real expm1(Real x);
Real sigmoid(Real x);
Real sinh(Real x);
Real cosh(Real x);
Real tanh(Real x);

Real log(Real x);
Real log2(Real x);
Real log10(Real x);
Real log1p(Real x);
Real asinh(Real x);
Real acosh(Real x);
Real atanh(Real x);

Real sin(Real x);
Real cos(Real x);
Real tan(Real x);
/// The bits of sin and cos for x that is NaN or within [-1, 1]: no reduction, no rare branch.
Real sin_of_unit(Real x);
Real cos_of_unit(Real x);

Real asin(Real x);
Real acos(Real x);
Real atan(Real x);
Real atan2(Real y, Real x);

Real erf(Real x);
Real erfc(Real x);

Real pow(Real x, Real y);
Real rsqrt(Real x);

/// x == n ln2 + r with |r| <= ln2/2 and n integral; sum == n + magic + 2 bias, as `scale` wants it.
/// |x| < 2000.
struct ExpParts {
  Real r, n, sum;
};
ExpParts split_exp(Real x);
/// x == n ln2 + r for integral n that makes 2^(n - lower) a normal number, which is `power`.
struct ShortParts {
  Real r, power;
};
ShortParts split_short(Real x, int lower);
/// `value`, which `scale` gives, where x >= bound, 0 below. With what `zero_at_least` gives in
/// place of such x, it is no result that underflows on the way: CPUs take 100 times as long for
/// these, and masks of attention are full of -infinity. NaN passes.
inline Real zero_below(double bound, Real x, Real value) { return select(x < bound, 0, value); }
inline Real zero_at_least(Real x, double bound) {
  return scales_at_once(x) ? x : select(x < bound, 0, x);
}
/// e^r for |r| < 0.35: within 0.6 units of the last place.
Real exp_of_small(Real r);
/// e^r - 1 for |r| < 0.35.
Real expm1_of_small(Real r);

/// x == 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for finite x > 0 (subnormals too).
struct LogParts {
  Real exponent, f;
};
LogParts split_log(Real x);

inline constexpr double kLn2 = 0.6931471805599453;
inline constexpr double kPi = 3.141592653589793;

}  // namespace tandem::jit::rules

#endif  // TANDEM_CODEGEN_JIT_MATH_MATH_RULES_H
