// The exponential family. All of it rests on x = n ln2 + r, |r| <= ln2/2 (Cody and Waite: n from
// adding a large number, ln2 in two parts, so that the first subtraction is exact) and one
// polynomial for (e^r - 1 - r) / r^2.
#include "codegen/jit/math/math_rules.h"

namespace tandem::jit::rules {
namespace {

// (e^r - 1 - r) / r^2 on |r| <= ln2/2, relative to e^r - 1: 2^-26 (f32), 2^-34 (wide), 2^-60 (f64).
constexpr double kExpm1_32[] = {0.49999997, 0.166665375, 0.0416677408, 0.00836731866, 0.0013838032};
// The same relative to e^r: 2^-28.
constexpr double kExp32[] = {0.49999994, 0.166665152, 0.0416680798, 0.00836937688, 0.00138416933};
constexpr double kExpWide[] = {0.5000000068426066,   0.16666665859334825,   0.04166629218709146,
                               0.008333498422280752, 0.0013944867907232578, 0.00019790096762287897};
constexpr double kExp64[] = {0.5,
                             0.16666666666666677,
                             0.041666666666666505,
                             0.008333333333321513,
                             0.0013888888888963532,
                             0.00019841269886477657,
                             2.4801587170992555e-05,
                             2.75572438038711e-06,
                             2.7557403335106873e-07,
                             2.510919521689122e-08,
                             2.0875307128839915e-09};
constexpr Coefficients kExp{kExp32, kExpWide, kExp64};
constexpr Coefficients kExpm1{kExpm1_32, kExpWide, kExp64};

// (2^r - 1) / r on |r| <= 1/2.
constexpr double kExp2_32[] = {0.693147182,   0.240225941,   0.0555036627,
                               0.00962543953, 0.00133879564, 0.000133379886};
constexpr double kExp2Wide[] = {
    0.6931471807068058,    0.24022651070972464,    0.055504103598808,     0.009618037405702811,
    0.0013333938176296146, 0.00015467009171993192, 1.5195907660559024e-05};
constexpr double kExp2_64[] = {
    0.6931471805599453,    0.24022650695910072,    0.055504108664821736,   0.009618129107628564,
    0.0013333558146380968, 0.00015403530393168474, 1.5252733865595192e-05, 1.3215487005944435e-06,
    1.01780472151142e-07,  7.054814078974328e-09,  4.4572873012205324e-10, 2.585591376017498e-11};
constexpr Coefficients kExp2{kExp2_32, kExp2Wide, kExp2_64};

// (sinh(x) - x) / x^3 in x^2, on |x| <= 1: 2^-30 (wide), 2^-56 (f64).
constexpr double kSinhWide[] = {0.166666672, 0.00833329279, 0.000198474576, 2.75404068e-06};
constexpr double kSinh64[] = {0.16666666666666666,    0.008333333333333276,  0.00019841269841372483,
                              2.7557319166746023e-06, 2.505212277624911e-08, 1.6057218253479765e-10,
                              7.761563340193074e-13};
constexpr Coefficients kSinh{{}, kSinhWide, kSinh64};

// (tanh(x) - x) / x^3 in x^2 on |x| <= 0.55: 2^-29.
constexpr double kTanh32[] = {-0.333333313, 0.133329555, -0.0538850538, 0.0211899616,
                              -0.00642454671};
constexpr Coefficients kTanh{kTanh32, {}, {}};

// 2^n e^r for x that is at most 89 (f64: 710).
Real exp_of_bounded(Real x) {
  const double zero = x.pick(-104, -746);
  const ExpParts e = split_exp(zero_at_least(x, zero));
  return zero_below(zero, x, scale(exp_of_small(e.r), e.n, e.sum));
}

// e^|x| / 2, finite as long as sinh and cosh are.
Real half_exp_of_abs(Real x) {
  const ExpParts e = split_exp(at_most(abs(x), 712));
  return scale(exp_of_small(e.r), e.n - 1, from_bits(bits(e.sum) - 1, x));
}

}  // namespace

ExpParts split_exp(Real x) {
  const double offset = magic(x) + 2 * x.exponent_bias();
  const Real sum = mad(x, x.pick(0x1.715476p+0, 0x1.71547652b82fep+0), offset);
  const Real n = sum - offset;
  const Real r = fma(n, x.pick(-0.6931471824645996, -kLn2), x);
  return {fma(n, x.pick(1.9046542121259336e-09, -2.3190468138462996e-17), r), n, sum};
}

ShortParts split_short(Real x, int lower) {
  const double offset = magic(x) + x.exponent_bias() - lower;
  const Real sum = mad(x, x.pick(0x1.715476p+0, 0x1.71547652b82fep+0), offset);
  const Real n = sum - offset;
  Real r = fma(n, x.pick(-0.6931471824645996, -kLn2), x);
  r = fma(n, x.pick(1.9046542121259336e-09, -2.3190468138462996e-17), r);
  return {r, from_bits(shl(bits(sum), x.mantissa_bits()), x)};
}

// 1 + r (1 + r q(r)).
Real exp_of_small(Real r) { return mad(mad(horner(r, kExp), r, r.constant(1)), r, r.constant(1)); }

// r + r^2 q(r).
Real expm1_of_small(Real r) { return mad(r * r, horner(r, kExpm1), r); }

// Beyond the bounds the result is infinity and zero.
Real exp(Real x) { return exp_of_bounded(at_most(x, x.pick(89, 710))); }

// 2^n 2^r, where r = x - n is exact.
Real exp2(Real x) {
  const double zero = x.pick(-150, -1075);
  const Real bounded = zero_at_least(at_most(x, x.pick(129, 1025)), zero);
  const double offset = magic(x) + 2 * x.exponent_bias();
  const Real sum = bounded + offset, n = sum - offset, r = bounded - n;
  return zero_below(zero, x, scale(mad(horner(r, kExp2), r, r.constant(1)), n, sum));
}

// 2^n (e^r - 1) + (2^n - 1), with 2^(n-1) in place of 2^n, which may overflow. The last step keeps
// -0.
Real expm1(Real x) {
  const Real bounded = at_least(at_most(x, x.pick(89, 710)), x.pick(-20, -40));
  const ShortParts e = split_short(bounded, 1);
  const Real half = fma(e.power, expm1_of_small(e.r), e.power - 0.5);
  return copysign(half + half, x);
}

// 1 / (1 + e^-|x|) for x >= 0, e^-|x| / (1 + e^-|x|) for x < 0: no overflow, and the tail goes down
// to the subnormals. The last step takes back most of what rounding 1 + e did (all of it where e is
// small, half where e is 1).
Real sigmoid(Real x) {
  const Real e = exp_of_bounded(-abs(x)), sum = 1 + e;
  const Real lost = e - (sum - 1), quotient = select(x < 0, e, 1) / sum;
  return mad(-quotient, lost, quotient);
}

// e^x / 2 - 1 / (2 e^x), below 1 by a polynomial.
Real sinh(Real x) {
  const Real a = abs(x), z = a * a, h = half_exp_of_abs(x);
  const Real near = mad(z * a, horner(z, kSinh), a);
  return copysign(select(a < 1, near, h - 0.25 / h), x);
}

Real cosh(Real x) {
  const Real h = half_exp_of_abs(x);
  return h + 0.25 / h;
}

// t / (t + 2) with t = e^(2|x|) - 1; 1 beyond the bound. f32 takes a polynomial near 0, where the
// quotient loses 2.3 units.
Real tanh(Real x) {
  const Real a = at_most(abs(x), x.pick(9.5, 20));
  const ShortParts e = split_short(a + a, 0);
  const Real t = fma(e.power, expm1_of_small(e.r), e.power - 1);
  const Real far = t / (t + 2);
  if (!x.single()) return copysign(far, x);
  const Real z = a * a;
  return copysign(select(a < 0.55, mad(z * a, horner(z, kTanh), a), far), x);
}

}  // namespace tandem::jit::rules
