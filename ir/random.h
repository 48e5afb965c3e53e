// Random numbers as a pure function of (key, counter): Philox4x32-10 words, uniforms, and normals
// by an inverse CDF made of exactly rounded primitives (no libm). Whoever follows these definitions
// gets the same bits: the interpreter and eager kernels with scalars, decomps with equations.
//
// A random equation of n elements at `offset` draws whole counters from base + offset on. With
// 32-bit words element i is word i mod 4 of counter base + offset + i / 4; with 64-bit words it is
// words 2 (i mod 2) (low half) and the next of counter base + offset + i / 2. f64 is drawn from
// 64-bit words, every other floating dtype from 32-bit words, dropout from 32-bit words whatever
// its dtype.
#ifndef TANDEM_IR_RANDOM_H
#define TANDEM_IR_RANDOM_H

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "dtype.h"

namespace tandem::ir {

/// Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; the upper halves of the
/// 128-bit counter are zero.
constexpr std::array<uint32_t, 4> philox4x32_10(uint64_t key, uint64_t counter) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               0, 0};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

/// Element `i` of 32-bit and of 64-bit words that start at `counter`.
constexpr uint32_t random_word32(uint64_t key, uint64_t counter, uint64_t i) {
  return philox4x32_10(key, counter + i / 4)[i % 4];
}
constexpr uint64_t random_word64(uint64_t key, uint64_t counter, uint64_t i) {
  const auto words = philox4x32_10(key, counter + i / 2);
  return words[i % 2 * 2] | uint64_t{words[i % 2 * 2 + 1]} << 32;
}

/// The dtype of the words (random_bits) behind a random value of `dtype`.
constexpr DType random_word_dtype(DType dtype) {
  return dtype == DType::F64 || dtype == DType::I64 ? DType::I64 : DType::I32;
}

/// How many counters n elements of `dtype` use up.
constexpr int64_t random_counters(DType dtype, int64_t n) {
  return random_word_dtype(dtype) == DType::I64 ? n / 2 + n % 2 : n / 4 + (n % 4 != 0);
}

/// A uniform of `dtype` is its word's top `uniform_digits` bits times 2^-uniform_digits: exact, in
/// [0, 1).
constexpr int uniform_digits(DType dtype) {
  return dtype == DType::F64 ? 53 : dtype == DType::F32 ? 24 : dtype == DType::F16 ? 11 : 8;
}

/// Coefficients of the inverse CDF: Wichura's AS 241, ratios of polynomials, lowest power first.
struct NormalFormula {
  int digits;                                  // of the uniform
  std::span<const int> shifts;                 // that normalise an integer of so many digits
  std::span<const double> log_series;          // log(f) = s P(s^2), s = (f - 1) / (f + 1)
  std::span<const double> centre[2], tail[2];  // numerator, denominator
  std::span<const double> far_tail[2];         // empty where the smallest uniform does not reach it
};

namespace normal_coefficients {
inline constexpr int kShifts24[] = {16, 8, 4, 2, 1};
inline constexpr int kShifts53[] = {32, 16, 8, 4, 2, 1};
inline constexpr double kLogSeries[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                        2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
// PPND7, about 7 digits.
inline constexpr double kCentre7[2][4] = {{3.3871327179, 50.434271938, 159.29113202, 59.109374720},
                                          {1.0, 17.895169469, 78.757757664, 67.187563600}};
inline constexpr double kTail7Numerator[] = {1.4234372777, 2.7568153900, 1.3067284816,
                                             0.17023821103};
inline constexpr double kTail7Denominator[] = {1.0, 0.73700164250, 0.12021132975};
// PPND16, about 16 digits.
inline constexpr double kCentre16[2][8] = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
     1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
     3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
     5.2264952788528545610e+3}};
inline constexpr double kTail16[2][8] = {
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9}};
inline constexpr double kFarTail16[2][8] = {
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15}};
}  // namespace normal_coefficients

/// The formula for normals of f64 (53 digits), or of f32 and, rounded from f32, of bf16 and f16.
inline NormalFormula normal_formula(DType dtype) {
  namespace of = normal_coefficients;
  if (dtype == DType::F64)
    return {53,
            of::kShifts53,
            of::kLogSeries,
            {of::kCentre16[0], of::kCentre16[1]},
            {of::kTail16[0], of::kTail16[1]},
            {of::kFarTail16[0], of::kFarTail16[1]}};
  return {24,
          of::kShifts24,
          std::span(of::kLogSeries).first(6),
          {of::kCentre7[0], of::kCentre7[1]},
          {of::kTail7Numerator, of::kTail7Denominator},
          {}};
}

/// A standard normal. The word's top bit is the sign (`negative`); j, the formula's other digits
/// from the top, give the tail probability p = m 2^-(digits + 1) with m = 2 j + 1. `a` does the
/// arithmetic, on scalars or by emitting equations: constant(double), mul, div, add, sub, fma,
/// sqrt, neg, less(x, y), select(condition, x, y). All are exactly rounded; products that are added
/// are fma, so that nothing is left to contract.
template <class A, class V, class C>
V standard_normal(A& a, const NormalFormula& formula, C negative, V m) {
  const auto power = [&](int exponent) { return a.constant(std::ldexp(1.0, exponent)); };
  const auto polynomial = [&](std::span<const double> c, V x) {
    V sum = a.constant(c.back());
    for (size_t i = c.size() - 1; i-- > 0;) sum = a.fma(sum, x, a.constant(c[i]));
    return sum;
  };
  const auto ratio = [&](const std::span<const double>(&c)[2], V x) {
    return a.div(polynomial(c[0], x), polynomial(c[1], x));
  };
  const V p = a.mul(m, power(-formula.digits - 1));
  // p = f 2^exponent with f in [1, 2), then in about [0.7, 1.4].
  V f = m, exponent = a.constant(-2);
  for (int shift : formula.shifts) {
    const auto small = a.less(f, power(formula.digits - shift));
    f = a.select(small, a.mul(f, power(shift)), f);
    exponent = a.select(small, a.sub(exponent, a.constant(shift)), exponent);
  }
  f = a.mul(f, power(1 - formula.digits));
  const auto large = a.less(a.constant(1.41421356237309515), f);
  f = a.select(large, a.mul(f, a.constant(0.5)), f);
  exponent = a.select(large, a.add(exponent, a.constant(1)), exponent);
  const V s = a.div(a.sub(f, a.constant(1)), a.add(f, a.constant(1)));
  const V log_f = a.mul(s, polynomial(formula.log_series, a.mul(s, s)));
  const V r = a.sqrt(a.neg(a.fma(exponent, a.constant(0.693147180559945309), log_f)));

  const V q = a.sub(a.constant(0.5), p);
  const V centre = a.mul(q, ratio(formula.centre, a.fma(a.neg(q), q, a.constant(0.180625))));
  V tail = ratio(formula.tail, a.sub(r, a.constant(1.6)));
  if (!formula.far_tail[0].empty())
    tail =
        a.select(a.less(a.constant(5), r), ratio(formula.far_tail, a.sub(r, a.constant(5))), tail);
  const V magnitude = a.select(a.less(a.constant(0.425), q), tail, centre);
  return a.select(negative, a.neg(magnitude), magnitude);
}

/// standard_normal's arithmetic on one number, rounded to T after every step.
template <class T>
struct ScalarArithmetic {
  T constant(double x) const { return static_cast<T>(x); }
  T mul(T x, T y) const { return x * y; }
  T div(T x, T y) const { return x / y; }
  T add(T x, T y) const { return x + y; }
  T sub(T x, T y) const { return x - y; }
  T fma(T x, T y, T z) const { return std::fma(x, y, z); }
  T sqrt(T x) const { return std::sqrt(x); }
  T neg(T x) const { return -x; }
  bool less(T x, T y) const { return x < y; }
  T select(bool condition, T x, T y) const { return condition ? x : y; }
};

/// The normal of one word: T is float for a 32-bit word, double for a 64-bit word.
inline float normal_from_word(uint32_t word) {
  ScalarArithmetic<float> a;
  return standard_normal(a, normal_formula(DType::F32), (word >> 31) != 0,
                         static_cast<float>((word >> 8 & 0x7fffff) * 2 + 1));
}
inline double normal_from_word(uint64_t word) {
  ScalarArithmetic<double> a;
  return standard_normal(a, normal_formula(DType::F64), (word >> 63) != 0,
                         static_cast<double>((word >> 11 & 0xfffffffffffff) * 2 + 1));
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_RANDOM_H
