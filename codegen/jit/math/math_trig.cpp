// Sine, cosine, tangent. Usual arguments: Cody and Waite with FMA, the constant in three parts; in
// f32 modulo pi with one sine polynomial on |r| <= pi/2, in f64 modulo pi/2. Large ones: Payne and
// Hanek in f64 vector arithmetic, out of line.
#include <array>
#include <limits>

#include "codegen/jit/math/math_rules.h"

namespace tandem::jit::rules {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// (sin(r) - r) / r^3 in r^2: |r| <= 1.003 pi/2, 2^-27 (f32).
constexpr double kSinHalf32[] = {-0.166666597, 0.00833306927, -0.000198097681, 2.60605225e-06};
constexpr Coefficients kSinHalf{kSinHalf32, {}, {}};

// The same on |r| <= pi/4: 2^-37 (wide), 2^-57 (f64).
constexpr double kSinWide[] = {-0.16666666640377423, 0.008333329255994828, -0.00019839296507618976,
                               2.7179709624044646e-06};
constexpr double kSin64[] = {-0.1666666666666663,     0.008333333333321893,
                             -0.00019841269829401118, 2.7557313553568737e-06,
                             -2.5050736796661306e-08, 1.58955759087807e-10};
constexpr Coefficients kSin{{}, kSinWide, kSin64};

// (cos(r) - 1 + r^2/2) / r^4 in r^2 on |r| <= pi/4: 2^-42 (wide), 2^-59 (f64).
constexpr double kCosWide[] = {0.04166666661872186, -0.0013888883434432077, 2.4799442949735994e-05,
                               -2.720433926279832e-07};
constexpr double kCos64[] = {0.04166666666666659,    -0.0013888888888872733,
                             2.4801587288644008e-05, -2.755731411779853e-07,
                             2.0875692288875373e-09, -1.1358084408686745e-11};
constexpr Coefficients kCos{{}, kCosWide, kCos64};

// 2/pi = sum of digit[i] 2^(-24 (i - 3)), four leading zeros for the digits that only add multiples
// of 2 pi.
constexpr double kTwoOverPi[] = {
    0,        0,        0,        0,        10680707, 7228996,  1387004, 2578385, 16069853,
    12639074, 9804092,  4427841,  16666979, 11263675, 12935607, 2387514, 4345298, 14681673,
    3074569,  13734428, 16653803, 1880361,  10960616, 8533493,  3062596, 8710556, 7349940,
    6258241,  3772886,  3769171,  3798172,  8675211,  12450088, 3874808, 9961438, 366607,
    15675153, 9132554,  7151469,  3571407,  2607881,  12013382, 4155038, 6285869, 7677882,
    13102053, 15825725, 473591,   9065106,  15363067, 6271263,  9264392, 5636912, 4652155};

// x = quadrant pi/2 + r, |r| <= pi/4; the quadrant modulo 4 is in the low two bits.
struct Quadrant {
  Real r;
  Int quadrant;
};

Real round_to_integer(Real x) { return (x + magic(x)) - magic(x); }

// |x| < 2^20: n pi/2 in three parts; the first product subtracts exactly.
Quadrant reduce(Real x) {
  const Real sum = mad(x, 0x1.45f306dc9c883p-1, magic(x)), n = sum - magic(x);
  Real r = fma(n, -kPi / 2, x);
  r = fma(n, -6.123233995736766e-17, r);
  return {fma(n, 1.4973849048591698e-33, r), bits(sum)};
}

// |x| = (p0 + p1 2^-24 + p2 2^-48 + p3 2^-72) 2^(24 index), every |p| <= 2^24 integral.
struct Pieces {
  std::array<Real, 4> p;
  Int index;
};

Pieces split_pieces(Real x) {
  const Int exponent = lshr(bits(x), 52) - 1023;
  const Int index = lshr(exponent * 2731, 16);  // exponent / 24
  Real rest = x * from_bits(shl(1023 - index * 24, 52), x);
  std::array<Real, 4> p{x, x, x, x};
  for (Real& piece : p) {
    piece = round_to_integer(rest);
    rest = (rest - piece) * 0x1p24;
  }
  return {p, index};
}

// x 2/pi as digits of 24 bits: the product of the pieces with the eleven digits that matter,
// modulo 4. Sums of products stay below 2^51, hence exact; digits beyond the eighth are below the
// last place even where x is nearest to n pi/2.
std::array<Real, 8> product_digits(const Pieces& x) {
  std::array<Real, 8> sum;
  sum.fill(x.p[0] * 0.0);
  for (int i = 0; i < 11; ++i) {
    const Real digit = lookup(x.index + i, kTwoOverPi, "tandem.two_over_pi", x.p[0]);
    for (int j = 0; j < 4; ++j) {
      const int weight = i + j - 3;
      if (weight >= 0 && weight < 8) sum[weight] = mad(x.p[j], digit, sum[weight]);
    }
  }
  return sum;
}

// 2^16 <= |x| < inf.
Quadrant reduce_large(Real x) {
  std::array<Real, 8> d = product_digits(split_pieces(abs(x)));
  for (int i = 7; i > 0; --i) {
    const Real carry = round_to_integer(d[i] * 0x1p-24);
    d[i] = d[i] - carry * 0x1p24;
    d[i - 1] = d[i - 1] + carry;
  }
  const Real q = d[0] - 4 * round_to_integer(d[0] * 0.25);
  const Real low = mad(d[3], 0x1p-72, d[4] * 0x1p-96) + mad(d[5], 0x1p-120, d[6] * 0x1p-144);
  const Real r = (mad(d[1], d[1].constant(0x1p-24), d[2] * 0x1p-48) + low) * (kPi / 2);
  const Mask negative = x < 0;
  return {select(negative, -r, r), bits(select(negative, -q, q) + magic(q))};
}

// Lanes that are not large, whose result nobody takes, must still look up inside the table;
// infinity has no sine.
Quadrant reduce_if_large(Real x) {
  const Real a = abs(x);
  Quadrant q = reduce_large(select((a >= 0x1p16) & (a < kInf), x, 0x1p16));
  q.r = q.r + (x - x);
  return q;
}

Real sin_near(Real r) {
  const Real z = r * r;
  return mad(z * r, horner(z, kSin), r);
}

Real cos_near(Real r) {
  const Real z = r * r;
  return mad(z * z, horner(z, kCos), mad(z, r.constant(-0.5), r.constant(1)));
}

Real flip_if_bit(Real value, Int bit_in, int bit) {
  return from_bits(bits(value) ^ shl(lshr(bit_in, bit), 63), value);
}

Real sin_of(const Quadrant& q) {
  return flip_if_bit(select((q.quadrant & 1) == 0, sin_near(q.r), cos_near(q.r)), q.quadrant, 1);
}
Real cos_of(const Quadrant& q) {
  return flip_if_bit(select((q.quadrant & 1) == 0, cos_near(q.r), sin_near(q.r)), q.quadrant + 1,
                     1);
}

Real tan_of(const Quadrant& q) {
  const Real s = sin_near(q.r), c = cos_near(q.r);
  const Mask even = (q.quadrant & 1) == 0;
  return select(even, s, -c) / select(even, c, s);
}

template <Real (*of)(const Quadrant&)>
Real large(Real x) {
  return x.single() ? narrow(of(reduce_if_large(widen(x)))) : of(reduce_if_large(x));
}

constexpr double kLimit32 = 1e5, kLimit64 = 0x1p20;

Mask beyond(Real x) { return !(abs(x) < x.pick(kLimit32, kLimit64)); }

// sin(r) for |r| up to slightly above pi/2, times (-1)^n where n is the low bit of `sum`. Rounding
// must not lead above 1.
Real signed_sine(Real r, Real sum) {
  const Real z = r * r;
  const Real s = at_least(at_most(mad(z * r, horner(z, kSinHalf), r), 1), -1);
  return from_bits(bits(s) ^ shl(bits(sum), 31), s);
}

// x - n pi, the first product exact for |n| < 2^16.
Real minus_pi_times(Real x, Real n) {
  Real r = fma(n, -3.1415927410125732, x);
  r = fma(n, 8.742277657347586e-08, r);
  return fma(n, 3.4302490200117637e-15, r);
}

constexpr double kOneOverPi32 = 0x1.45f306p-2;

Real sin_usual32(Real x) {
  const Real sum = mad(x, kOneOverPi32, magic(x));
  return signed_sine(minus_pi_times(x, sum - magic(x)), sum);
}

// cos(x) = (-1)^n sin((n + 1/2) pi - x), so that its zeros are those of r.
Real cos_usual32(Real x) {
  const Real sum = mad(x, kOneOverPi32, -0.5) + magic(x);
  return signed_sine(-minus_pi_times(x, (sum - magic(x)) + 0.5), sum);
}

}  // namespace

// sin_usual32 with n == 0. The sign of -0 has to be restored; with AVX-512 that is one instruction.
Real sin_of_unit(Real x) {
  if (!x.single()) return sin(x);
  const Real z = x * x, y = mad(z * x, horner(z, kSinHalf), x);
  return x.at->avx512 ? copysign(y, x) : select(x == 0, x, y);
}

// cos_usual32 with n + 1/2 == 1/2 or -1/2, where it is even in x: the products are exact, and the
// third part of pi is below half a unit of r.
Real cos_of_unit(Real x) {
  if (!x.single()) return cos(x);
  const Real r = (1.5707963705062866 - abs(x)) - 4.371138828673793e-08, z = r * r;
  // Behind a bound that it sees, LLVM computes the next cosine of a chain for 1 apart.
  return opaque(at_most(mad(z * r, horner(z, kSinHalf), r), 1));
}

// The select keeps -0.
Real sin(Real x) {
  const Real usual = x.single() ? sin_usual32(x) : sin_of(reduce(x));
  return where_rare(beyond(x), x, select(x == 0, x, usual), "sin.large", large<sin_of>);
}

Real cos(Real x) {
  const Real usual = x.single() ? cos_usual32(x) : cos_of(reduce(x));
  return where_rare(beyond(x), x, usual, "cos.large", large<cos_of>);
}

Real tan(Real x) {
  const Real usual = x.single() ? narrow(tan_of(reduce(widen(x)))) : tan_of(reduce(x));
  return where_rare(beyond(x), x, select(x == 0, x, usual), "tan.large", large<tan_of>);
}

}  // namespace tandem::jit::rules
