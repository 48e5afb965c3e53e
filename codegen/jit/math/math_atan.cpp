// The inverse trigonometric functions, in f64 arithmetic (f32 comes here widened).
#include <limits>

#include "codegen/jit/math/math_rules.h"

namespace tandem::jit::rules {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kHalfPiLow = 6.123233995736766e-17;  // pi/2 - (double)(pi/2)

// (atan(t) - t) / t^3 in t^2 on |t| <= tan(pi/8): 2^-35 (wide), 2^-58 (f64).
constexpr double kAtanWide[] = {-0.33333332494883583, 0.1999990348438621,   -0.14281994571408066,
                                0.11044517374243945,  -0.08475242577167044, 0.04741825820686365};
constexpr double kAtan64[] = {-0.33333333333333326, 0.19999999999997628,  -0.1428571428538323,
                              0.11111111087897814,  -0.09090908134992752, 0.0769228255436525,
                              -0.06666223889144253, 0.05876995011989085,  -0.05218239483155884,
                              0.04502906499541343,  -0.03346007219027252, 0.015181083771813446};
constexpr Coefficients kAtan{{}, kAtanWide, kAtan64};

// (asin(x) - x) / x^3 in x^2 on |x| <= 1/2: 2^-31 (wide), 2^-55 (f64).
constexpr double kAsinWide[] = {0.166666597,  0.0750052184, 0.0445133485,
                                0.0318395942, 0.014311742,  0.0377029665};
constexpr double kAsin64[] = {0.16666666666665372,  0.0750000000034576,    0.0446428568208142,
                              0.030381959457615734, 0.022371750128887327,  0.017359827429421992,
                              0.01388399462403513,  0.012177537554964016,  0.006491238672061582,
                              0.01963068931464901,  -0.016387804444636833, 0.03202623297691851};
constexpr Coefficients kAsin{{}, kAsinWide, kAsin64};

// atan(a), a >= 0, brought to |t| <= tan(pi/8): a, (a - 1) / (a + 1) + pi/4, -1 / a + pi/2.
Real atan_of_positive(Real a) {
  const Mask middle = a > 0.41421356237309503, far = a > 2.414213562373095;
  const Real top = select(far, -1, select(middle, a - 1, a));
  const Real bottom = select(far, a, select(middle, a + 1, 1));
  const Real t = top / bottom, z = t * t;
  const Real low = select(far, kHalfPiLow, select(middle, kHalfPiLow / 2, a.constant(0)));
  const Real base = select(far, kPi / 2, select(middle, kPi / 4, a.constant(0)));
  return base + (mad(z * t, horner(z, kAtan), low) + t);
}

// For a = |x| <= 1/2 asin(a); else with s = sqrt((1 - a) / 2) asin(s) = acos(a) / 2.
struct HalfAngle {
  Mask near;
  Real angle;
};

HalfAngle half_angle(Real a) {
  const Mask near = a <= 0.5;
  const Real z = select(near, a * a, 0.5 - 0.5 * a);
  const Real s = select(near, a, sqrt(z));
  return {near, mad(s * z, horner(z, kAsin), s)};
}

}  // namespace

Real asin(Real x) {
  const HalfAngle h = half_angle(abs(x));
  const Real far = kPi / 2 - ((h.angle + h.angle) - kHalfPiLow);
  return copysign(select(h.near, h.angle, far), x);
}

Real acos(Real x) {
  const HalfAngle h = half_angle(abs(x));
  const Mask negative = x < 0;
  const Real twice = h.angle + h.angle;
  const Real near = kPi / 2 - (select(negative, -h.angle, h.angle) - kHalfPiLow);
  const Real far = select(negative, kPi - (twice - 2 * kHalfPiLow), twice);
  return select(h.near, near, far);
}

Real atan(Real x) { return copysign(atan_of_positive(abs(x)), x); }

// The angle of min/max, mirrored at pi/4 and at pi/2. 0/0 counts as 0, inf/inf as 1.
Real atan2(Real y, Real x) {
  const Real ay = abs(y), ax = abs(x);
  const Mask steep = ay > ax;
  const Real low = select(steep, ax, ay), high = select(steep, ay, ax);
  const Real ratio = select(high == 0, low, select((low == kInf) & (high == kInf), 1, low / high));
  const Real first = atan_of_positive(ratio);
  const Real half = select(steep, kPi / 2 - (first - kHalfPiLow), first);
  return copysign(select(sign_bit(x), kPi - (half - 2 * kHalfPiLow), half), y);
}

}  // namespace tandem::jit::rules
