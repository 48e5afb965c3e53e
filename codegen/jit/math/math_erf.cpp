// The error function and its complement.
#include "codegen/jit/math/math_rules.h"

namespace tandem::jit::rules {
namespace {

// erf(x) / x - 1 in x^2 on |x| <= 0.93: 2^-26 (f32), 2^-55 (f64).
constexpr double kNear32[] = {0.128379151,   -0.376124889,  0.112817302,
                              -0.0267629158, 0.00498725334, -0.000595898309};
constexpr double kNear64[] = {
    0.12837916709551256,   -0.37612638903183704,   0.11283791670952438,    -0.026866170644556923,
    0.005223977619083497,  -0.0008548326606983331, 0.00012055315640249524, -1.4925173330140595e-05,
    1.645331733684821e-06, -1.625783710966776e-07, 1.3953483987953897e-08, -8.272385720563821e-10};
constexpr Coefficients kNear{kNear32, kNear32, kNear64};

// log(erfc(x)) on 0.91 <= x <= 3.95, so close that erf is within 2^-29.
constexpr double kTail32[] = {-0.000180731382, -1.12773764,    -0.637077391,  -0.104023971,
                              0.0222715996,    -0.00305445888, 0.000197086018};
constexpr Coefficients kTail{kTail32, {}, {}};

// e^(x^2) erfc(x) (1 + 2 x) in t = (x - 4) / (x + 4): x in [0, 10.3], 2^-26 (wide); x in [0, 27.3],
// 2^-53 (f64).
constexpr double kScaledWide[] = {
    1.2329951356479998,    -0.139621045585238,    0.015377342883622929, 0.0680925606381508,
    -0.10099167065909216,  0.09382906866611634,   -0.06661607395551979, 0.036403526281276945,
    -0.015977770921603865, 0.0069416982045002375, 0.0008588309538415396};
constexpr double kScaled64[] = {
    1.2329951186255526,      -0.13962111684056286,    0.015379652102620137,
    0.06809705425473356,     -0.1010390660363235,     0.09373283499691416,
    -0.06633036581203884,    0.03716751556070545,     -0.016197734054728654,
    0.005031969770582909,    -0.0007577733613490598,  -0.0001992555794072979,
    0.0001506222898025186,   -2.4402954367908226e-05, -1.1224820578429033e-05,
    5.717499812831826e-06,   3.012720841217132e-07,   -8.347681613663754e-07,
    6.288889449396246e-08,   1.1516213160962931e-07,  -7.841808358626345e-09,
    -1.3650685728522896e-08, -1.800431551379098e-09};
constexpr Coefficients kScaled{{}, kScaledWide, kScaled64};

// erfc(a), a >= 0: e^(-a^2) scaled; what the square loses comes back as a factor.
Real erfc_of_positive(Real a) {
  const Real x = at_most(a, a.kind == Kind::Wide ? 10.3 : 27.3);
  const Real square = x * x, lost = fma(x, x, -square);
  const Real whole = exp(-square) * (horner((x - 4) / (x + 4), kScaled) / mad(x, 2, 1));
  return mad(-whole, lost, whole);
}

// 1 - e^v with v = log(erfc(a)).
Real erf_far32(Real a) {
  const ShortParts e = split_short(horner(at_most(a, 3.95), kTail), 0);
  return fma(-exp_of_small(e.r), e.power, 1);
}

// |x| < 0.93, where the sign comes out by itself except for -0.
Real erf_near(Real x) { return mad(x, horner(x * x, kNear), x); }

}  // namespace

Real erf(Real x) {
  const Real a = abs(x);
  const Real far = x.single() ? erf_far32(a) : 1 - erfc_of_positive(a);
  return copysign(select(a < 0.92, erf_near(a), far), x);
}

Real erfc(Real x) {
  const Real a = abs(x), c = erfc_of_positive(a);
  return select(a < 0.5, 1 - erf_near(x), select(x < 0, 2 - c, c));
}

}  // namespace tandem::jit::rules
