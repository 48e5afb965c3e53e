// The regularized incomplete gamma functions, element by element, in f64: series, continued
// fractions, and for large a Temme's uniform expansion.
#include <math.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "machine/element.h"
#include "machine/lines/lines.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

using std::numbers::pi;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 2;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kMostTerms = 2000;
constexpr double kLarge = 200;  // a from which on Temme's expansion has all digits near x = a
constexpr double kNear = 0.3;   // how near, as a part of a

// Temme's coefficients: row k times a^-k, highest powers of eta last.
constexpr int kRows = 5, kPowers = 14;
// clang-format off
constexpr double kTemme[kRows][kPowers] = {
    {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05,
     -2.185448510679992e-06, -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08, -4.382036018453353e-09},
    {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05,
     7.64916091608111e-06, -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08, 1.1951628599778148e-08, -1.7543241719747647e-11},
    {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05,
     3.423578734096138e-08, 1.3721957309062934e-06, -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10, -1.409252991086752e-08, 6.228974084922022e-09},
    {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05,
     -5.6749528269915965e-06, 1.4230900732435883e-06, -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08, -1.9111168485973655e-08, 2.3928620439808118e-12},
    {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902, -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05, 1.1375726970678419e-05,
     2.507497226237533e-10, -1.6954149536558305e-06, 8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11, 2.8865829742708783e-08, -1.4189739437803219e-08}};
// log gamma(1 + a) + log(1 + a) - (1 - Euler's constant) a, by powers of a from the second on
constexpr double kNearOne[] = {0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986, 0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425,
                               -0.00022315475845357939, 9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06, 4.374866789907488e-06, -2.039215753801366e-06,
                               9.55141213040742e-07, -4.492469198764566e-07};
// of 1 / a, 1 / a^3, ...: Stirling's series
constexpr double kStirling[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360};
// clang-format on

double log_gamma(double a) {
  int sign = 0;
  return ::lgamma_r(a, &sign);
}

/// log gamma(1 + a) for a >= 0
double log_gamma_1p(double a) {
  if (a > 0.25) return log_gamma(1 + a);
  constexpr double kOneLessEuler = 0.42278433509846713;
  double sum = 0, power = a;
  for (const double coefficient : kNearOne) sum += coefficient * (power *= a);
  return sum + kOneLessEuler * a - std::log1p(a);
}

/// log(1 + m) - m
double log1p_less(double m) {
  if (std::fabs(m) > 0.3) return std::log1p(m) - m;
  const double r = m / (2 + m), square = r * r;
  double sum = 0;
  for (int k = 25; k >= 3; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * r * square * sum - m * r;
}

/// x^a e^-x / gamma(a)
double density(double a, double x) {
  if (a < 10) return std::exp(a * std::log(x) - x - log_gamma(a));
  const double inverse = 1 / a, square = inverse * inverse;
  double correction = 0;
  for (size_t k = std::size(kStirling); k-- > 0;) correction = correction * square + kStirling[k];
  const double exponent = a * log1p_less((x - a) / a) - correction * inverse;
  return std::exp(exponent) * std::sqrt(a / (2 * pi));
}

double lower_by_series(double a, double x) {
  const double factor = density(a, x);
  if (factor == 0) return 0;
  double term = 1, sum = 1;
  for (int n = 1; n < kMostTerms && term > kEpsilon * sum; ++n) sum += term *= x / (a + n);
  return sum * factor / a;
}

/// For small a and x, where the upper function is what is left of 1.
double upper_by_series(double a, double x) {
  double factor = 1, sum = 0;
  for (int n = 1; n < kMostTerms; ++n) {
    factor *= -x / n;
    const double term = factor / (a + n);
    sum += term;
    if (std::fabs(term) <= kEpsilon * std::fabs(sum)) break;
  }
  const double log_x = std::log(x);
  return -std::expm1(a * log_x - log_gamma_1p(a)) - std::exp(a * log_x - log_gamma(a)) * sum;
}

/// Lentz' form.
double upper_by_fraction(double a, double x) {
  const double factor = density(a, x);
  if (factor == 0) return 0;
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, value = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    const double below = numerator * d + b, above = b + numerator / c;
    d = 1 / (below == 0 ? kTiny : below);
    c = above == 0 ? kTiny : above;
    value *= c * d;
    if (std::fabs(c * d - 1) <= 2 * kEpsilon) break;
  }
  return value * factor;
}

bool is_large(double a, double x) { return a > kLarge && std::fabs(x - a) < kNear * a; }

/// sign 1: the upper function, -1: the lower one
double by_expansion(double a, double x, int sign) {
  const double half_square = -log1p_less((x - a) / a);
  const double eta = std::copysign(std::sqrt(2 * half_square), x - a);
  double sum = 0;
  for (int k = kRows; k-- > 0;) {
    double row = 0;
    for (int n = kPowers; n-- > 0;) row = row * eta + kTemme[k][n];
    sum = sum / a + row;
  }
  const double rest = std::exp(-a * half_square) / std::sqrt(2 * pi * a) * sum;
  return 0.5 * std::erfc(sign * eta * std::sqrt(a / 2)) + sign * rest;
}

/// Where both functions have a value at the ends of their domain, or none: that of the lower one.
/// As in ATen the ends of one argument count before NaN of the other.
bool at_an_end(double a, double x, double& lower) {
  if (a < 0 || x < 0 || (a == 0 && !(x > 0)) || (std::isinf(a) && std::isinf(x)))
    return lower = kNaN, true;
  if (a == 0 || std::isinf(x)) return lower = 1, true;
  if (x == 0 || std::isinf(a)) return lower = 0, true;
  return lower = kNaN, std::isnan(a) || std::isnan(x);
}

bool is_upper_by_series(double a, double x) {
  return x <= 0.5 ? -0.4 / std::log(x) >= a : x <= 1.1 && x * 1.1 >= a;
}

double upper(double a, double x) {
  if (double lower = 0; at_an_end(a, x, lower)) return 1 - lower;
  if (is_large(a, x)) return by_expansion(a, x, 1);
  if (is_upper_by_series(a, x)) return upper_by_series(a, x);
  return x <= 1.1 || x < a ? 1 - lower_by_series(a, x) : upper_by_fraction(a, x);
}

double lower(double a, double x) {
  if (double end = 0; at_an_end(a, x, end)) return end;
  if (is_large(a, x)) return by_expansion(a, x, -1);
  return x > 1 && x > a ? 1 - upper(a, x) : lower_by_series(a, x);
}

int64_t offset_of(const ir::BufferView& view, int64_t number) {
  int64_t offset = 0;
  for (int d = view.sizes.rank() - 1; d >= 0; --d) {
    offset += number % int64_t{view.sizes[d]} * int64_t{view.strides[d]};
    number /= int64_t{view.sizes[d]};
  }
  return offset;
}

/// Elements of a row, `step` apart.
template <class T>
struct Row {
  Row(const ir::BufferView& view, int64_t number)
      : first(static_cast<T*>(view.data) + offset_of(view, number)),
        step(view.sizes.rank() == 0 ? 0 : int64_t{view.strides[view.sizes.rank() - 1]}) {}
  T& operator[](int64_t i) const { return first[i * step]; }
  T* first;
  int64_t step;
};

/// out = f(in[0], in[1]), of equal sizes.
template <double (*f)(double, double)>
void by_element(std::span<const ir::BufferView> in, const ir::BufferView& out) {
  constexpr int64_t kGrain = 256;
  const int64_t length = out.sizes.rank() == 0 ? 1 : int64_t{out.sizes.back()};
  with_type<Floats>(out.dtype, [&]<class T>(Tag<T>) {
    parallel_for(ir::numel(out.sizes), kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin, next = 0; i < end; i = next) {
        next = std::min(end, (i / length + 1) * length);
        const Row<const T> a(in[0], i), x(in[1], i);
        const Row<T> results(out, i);
        for (int64_t k = 0; k < next - i; ++k)
          results[k] = store<T>(static_cast<Compute<T>>(f(load(a[k]), load(x[k]))));
      }
    });
  });
}

}  // namespace

void lines::igamma(std::span<const ir::BufferView> in, std::span<const int64_t> /*numbers*/,
                   const ir::BufferView& out) {
  by_element<lower>(in, out);
}
void lines::igammac(std::span<const ir::BufferView> in, std::span<const int64_t> /*numbers*/,
                    const ir::BufferView& out) {
  by_element<upper>(in, out);
}

}  // namespace tandem::machine
