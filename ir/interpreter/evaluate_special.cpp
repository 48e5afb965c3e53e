// Evaluation rules of special functions: series, recurrences and Newton's method, which share
// nothing with the polynomials of decomps/.
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "ir/interpreter/evaluate_elements.h"

namespace tandem::ir::evaluate {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::pi;
using std::numbers::sqrt2;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_pole(double x) { return x <= 0 && x == std::floor(x); }

/// pi x, less whole turns and halves: with its tangent, and but for the sign its sine.
double angle_of(double x) { return pi * (x - std::round(x)); }

double lgamma_of(double x) {
  if (is_pole(x)) return kInfinity;
  if (x < 0.5) return std::log(pi / std::fabs(std::sin(angle_of(x)))) - lgamma_of(1 - x);
  return std::lgamma(x);
}

double digamma_of(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x == kInfinity) return x;
  if (is_pole(x)) return kNaN;
  if (x < 0) return digamma_of(1 - x) - pi / std::tan(angle_of(x));
  double sum = 0;
  for (; x < 20; ++x) sum -= 1 / x;
  const double w = 1 / (x * x);
  return sum + std::log(x) - 1 / (2 * x) -
         w * (1.0 / 12 - w * (1.0 / 120 - w * (1.0 / 252 - w * (1.0 / 240 - w / 132))));
}

/// Hurwitz' sum of (q + k)^-s for q > 0, s > 1: 40 terms, the rest by Euler and Maclaurin.
double zeta_of(double s, double q);

/// The terms of a negative q + k. Where they are many, the difference of two sums of positive ones.
double zeta_below_zero(double s, double q) {
  if (q < -1000) {
    const double sum = zeta_of(s, 1 - (q - std::floor(q))) - zeta_of(s, 1 - q);
    return std::fmod(s, 2) == 1 ? -sum : sum;
  }
  double sum = 0;
  for (; q < 0; ++q) sum += std::pow(q, -s);
  return sum;
}

double zeta_of(double s, double q) {
  if (is_nan(s) || is_nan(q) || s < 1) return kNaN;
  if (s == 1 || is_pole(q)) return kInfinity;
  if (q < 0 && s != std::floor(s)) return kNaN;
  if (q < 0) return zeta_below_zero(s, q) + zeta_of(s, q - std::floor(q));
  double sum = 0;
  for (int k = 0; k < 40; ++k) sum += std::pow(q + k, -s);
  const double a = q + 40, last = std::pow(a, -s);
  if (last == 0 || std::isinf(sum)) return sum;
  const double w = 1 / a;
  const double slope =
      s * w * (1 - (s + 1) * (s + 2) * w * w / 60 * (1 - (s + 3) * (s + 4) * w * w / 42));
  return sum + last * (a / (s - 1) + 0.5 + slope / 12);
}

double factorial(int64_t n) { return std::tgamma(static_cast<double>(n) + 1); }

/// The derivatives of cot(pi x) are polynomials in it: p' -> -(1 + c^2) p'.
double cotangent_derivative(int64_t n, double x) {
  std::vector<double> p{0, 1};
  for (int64_t k = 0; k < n; ++k) {
    std::vector<double> next(p.size() + 1);
    for (size_t i = 1; i < p.size(); ++i) {
      next[i - 1] -= static_cast<double>(i) * p[i];
      next[i + 1] -= static_cast<double>(i) * p[i];
    }
    p = next;
  }
  const double c = 1 / std::tan(angle_of(x));
  double value = p.back();
  for (size_t i = p.size() - 1; i-- > 0;) value = value * c + p[i];
  return value * std::pow(pi, static_cast<double>(n));
}

double polygamma_of(int64_t n, double x) {
  const double sign = n % 2 ? 1 : -1;
  if (is_pole(x)) return sign * kInfinity;
  if (x > 0 || is_nan(x)) return sign * factorial(n) * zeta_of(static_cast<double>(n) + 1, x);
  return -pi * cotangent_derivative(n, x) - sign * polygamma_of(n, 1 - x);
}

double erfcx_of(double x) {
  if (x < 20) return std::exp(x * x) * std::erfc(x);
  const double w = 1 / (2 * x * x);
  return inv_sqrtpi / x * (1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w))));
}

/// x with erfc(x) = c, for c <= 1/2: Newton's method on the logarithm.
double erfc_inverse(double c) {
  if (c == 0) return kInfinity;
  double x = std::sqrt(std::fmax(0.0, -std::log(c * 1.7)));
  for (int i = 0; i < 60; ++i) {
    const double e = erfcx_of(x);
    const double step = (std::log(e) - x * x - std::log(c)) * e / (2 * inv_sqrtpi);
    x += step;
    if (std::fabs(step) < 1e-16 * x) break;
  }
  return x;
}

double erfinv_of(double y) {
  const double magnitude = std::fabs(y);
  if (!(magnitude <= 1)) return kNaN;
  if (magnitude > 0.5) return std::copysign(erfc_inverse(1 - magnitude), y);
  double x = y / (2 * inv_sqrtpi);
  for (int i = 0; i < 8; ++i) x -= (std::erf(x) - y) * std::exp(x * x) / (2 * inv_sqrtpi);
  return x;
}

double ndtri_of(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p < 0.25) return -sqrt2 * erfc_inverse(2 * p);
  return sqrt2 * erfinv_of(2 * (p - 0.5));
}

double log_ndtr_of(double x) {
  const double t = x / sqrt2;
  return x < -1 ? std::log(erfcx_of(-t) / 2) - t * t : std::log1p(-std::erfc(t) / 2);
}

/// exp(-|x|) I_order(|x|): its series, or for large x the asymptotic one.
double bessel_of(int order, double x) {
  if (std::isinf(x)) return 0;
  if (x < 30) {
    double term = order == 0 ? 1 : x / 2, sum = 0;
    for (int k = 1; k < 150; ++k) {
      sum += term;
      term *= x * x / 4 / (k * (k + order));
    }
    return sum * std::exp(-x);
  }
  double term = 1, sum = 0;
  for (int k = 1; k < 30; ++k) {
    sum += term;
    term *= ((2 * k - 1) * (2 * k - 1) - 4.0 * order) / (8 * x * k);
  }
  return sum / (std::sqrt(2 * pi) * std::sqrt(x));
}

/// The lower function by its series.
long double lower_gamma(long double a, long double x) {
  long double term = 1 / a, sum = term;
  for (int n = 1; n < 100000 && term > sum * 1e-21L; ++n) sum += term *= x / (a + n);
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}
/// The upper one by a continued fraction, from its end.
long double upper_gamma(long double a, long double x) {
  long double below = x;
  for (int n = 2000; n > 0; --n) below = x + (n - a) / (1 + n / below);
  return std::exp(a * std::log(x) - x - std::lgamma(a)) / below;
}

double incomplete_gamma(double a, double x, bool is_upper) {
  if (a < 0 || x < 0 || (a == 0 && !(x > 0)) || (std::isinf(a) && std::isinf(x))) return kNaN;
  if (a == 0 || std::isinf(x)) return is_upper ? 0 : 1;
  if (x == 0 || std::isinf(a)) return is_upper ? 1 : 0;
  if (is_nan(a) || is_nan(x)) return kNaN;
  if (a > 1e12) return x == a ? 0.5 : (x > a) == is_upper ? 0 : 1;  // but within parts in 1e6
  const bool by_series = x < a + 1;
  const long double part = by_series ? lower_gamma(a, x) : upper_gamma(a, x);
  return static_cast<double>(by_series == is_upper ? 1 - part : part);
}

}  // namespace

#define FLOAT_UNARY(op, expression)                            \
  Tensor op(const Context& c) {                                \
    return map_floats(c, [](double x) { return expression; }); \
  }
FLOAT_UNARY(lgamma, lgamma_of(x))
FLOAT_UNARY(digamma, digamma_of(x))
FLOAT_UNARY(erfinv, erfinv_of(x))
FLOAT_UNARY(erfcx, erfcx_of(x))
FLOAT_UNARY(ndtri, ndtri_of(x))
FLOAT_UNARY(log_ndtr, log_ndtr_of(x))
FLOAT_UNARY(i0, bessel_of(0, std::fabs(x)) * std::exp(std::fabs(x)))
FLOAT_UNARY(i0e, bessel_of(0, std::fabs(x)))
// (At -0 the odd ones are 0, as ATen's.)
FLOAT_UNARY(i1, (x < 0 ? -1 : 1) * bessel_of(1, std::fabs(x)) * std::exp(std::fabs(x)))
FLOAT_UNARY(i1e, (x < 0 ? -1 : 1) * bessel_of(1, std::fabs(x)))
#undef FLOAT_UNARY

Tensor polygamma(const Context& c) {
  const int64_t degree = c.attr<int64_t>(Attr::degree);
  return map_floats(c, [=](double x) { return polygamma_of(degree, x); });
}

Tensor igamma(const Context& c) {
  return map_floats(c, [](double a, double x) { return incomplete_gamma(a, x, false); });
}
Tensor igammac(const Context& c) {
  return map_floats(c, [](double a, double x) { return incomplete_gamma(a, x, true); });
}

Tensor zeta(const Context& c) {
  return map_floats(c, [](double s, double q) { return zeta_of(s, q); });
}

}  // namespace tandem::ir::evaluate
