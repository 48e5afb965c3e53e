// Special functions, as polynomials in f64: what is f32 is rounded once, at the end. Polynomials
// are Chebyshev series in powers, highest first: of the Cephes library (i0, i1, digamma, ndtri,
// zeta), or fitted in 40 digits (lgamma, erfcx). Errors: tests/ops/functions/special_test.cpp.
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {
namespace {

using std::numbers::pi;
using std::numbers::sqrt2;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// f of the operand, computed in f64.
template <class F>
V in_f64(Context& c, F f) {
  return c.b.convert(f(c.b, c.b.convert(c[0], DType::F64)), c.result().dtype);
}

/// Each step is rounded once, eager as compiled.
V polynomial(Builder& b, V x, std::span<const double> coefficients) {
  V y = b.number(coefficients[0], x);
  for (const double coefficient : coefficients.subspan(1))
    y = b.fma(y, x, b.number(coefficient, x));
  return y;
}

V ratio(Builder& b, V x, std::span<const double> above, std::span<const double> below) {
  return b.div(polynomial(b, x, above), polynomial(b, x, below));
}

/// x is 0 or a negative integer.
V is_pole(Builder& b, V x) { return b.logical_and(b.le(x, 0), b.eq(x, b.floor(x))); }

// exp(-x) I0(x) for x in [0, 8], by x / 4 - 1
constexpr double kI0Near[] = {
    -1.1852342482684723e-09, 4.470516727511741e-09, -7.723094556846333e-09,  2.6265363151970112e-08,
    -1.1384114641747256e-07, 3.675842926555429e-07, -1.0883393970072518e-06, 3.2293390826404927e-06,
    -9.251680584432654e-06,  2.520232727107692e-05, -6.550861389620851e-05,  0.00016240542162878106,
    -0.00038290209550065975, 0.0008563152748272306, -0.001811886793937724,   0.003617126448897043,
    -0.0067923998730731695,  0.011960077907026221,  -0.01968265469059234,    0.030177912022978357,
    -0.04298594945479612,    0.05677703201991695,   -0.06954119561719381,    0.07927522590716347,
    -0.08496338091616305,    0.08734341617552313,   -0.08904344136075962,    0.09451562853995103,
    -0.11300432688620549,    0.2070019212239867};
// exp(-x) I0(x) sqrt(x) for x > 8, by 16 / x - 1
constexpr double kI0Far[] = {
    -6.067631570603006e-11, -2.0260604287413626e-11, 4.577087631643623e-10,  1.5279202694981569e-10,
    -1.618980683624682e-09, -5.715843864202709e-10,  3.6379546359011143e-09, 1.5200816953924232e-09,
    -5.95356943826489e-09,  -3.505966530879332e-09,  7.430464650325426e-09,  7.552583062123384e-09,
    -5.404771567579958e-09, -1.340891754008974e-08,  -6.747657956107524e-09, 7.554691881248808e-09,
    2.1548377974791598e-08, 3.932584334552952e-08,   8.872219737904054e-08,  2.9735985885673923e-07,
    1.4838475658279249e-06, 1.1143033790932038e-05,  0.0001362160743919305,  0.0033605519836678614,
    0.4021765094450081};
// exp(-x) I1(x) / x
constexpr double kI1Near[] = {
    3.7284532079392345e-10, -1.41695079121077e-09,   2.603206542331157e-09,
    -8.984420960424589e-09, 3.802984785138283e-08,   -1.2424759932738304e-07,
    3.759367306404118e-07,  -1.1327072698408053e-06, 3.293899139003749e-06,
    -9.136543922789093e-06, 2.4233753149624307e-05,  -6.142360299099794e-05,
    0.0001484212433475852,  -0.0003411760289073331,  0.0007445123445061157,
    -0.00153887456203039,   0.0030057624197775295,   -0.005534567847563678,
    0.009583962150731578,   -0.015571309243980052,   0.023686016957729535,
    -0.03367135552108536,   0.04467457262125467,     -0.055280039226991644,
    0.06376740371340721,    -0.06848260620582691,    0.0680575999095116,
    -0.061124338029666284,  0.044687709875608835};
// exp(-x) I1(x) sqrt(x)
constexpr double kI1Far[] = {
    6.305965197150057e-11,   1.8515118828852956e-11,  -4.758818838703853e-10,
    -1.4011625179770627e-10, 1.6848984479705146e-09,  5.295625441161261e-10,
    -3.794670896208339e-09,  -1.4387250533041013e-09, 6.242741219786445e-09,
    3.4262341490077958e-09,  -7.888351507862078e-09,  -7.64239413436356e-09,
    5.974437608040264e-09,   1.4034238782067183e-08,  6.734464815301592e-09,
    -8.427766093735185e-09,  -2.337392820814264e-08,  -4.312917729178349e-08,
    -1.0001288294864884e-07, -3.483855761044295e-07,  -1.8349101326980946e-06,
    -1.5038547200567216e-05, -0.00021923576383388928, -0.009749577193235737,
    0.38939845902587233};
// lgamma(2 + t) / (t (1 + t)) for t in [-1, 1]
constexpr double kLogGamma[] = {
    -8.189866517666957e-10, 1.7989775004843816e-09, 2.4693084507335698e-09,  -5.824725856511467e-09,
    -8.951677842480333e-09, 2.072487970488304e-08,  -7.866788127247718e-10,  -2.037591021614039e-09,
    -5.2037977808644e-08,   1.1326095181891733e-07, -1.8613211433382892e-07, 3.88866723837351e-07,
    -8.554814094252964e-07, 1.8151759878722409e-06, -3.846514349567204e-06,  8.219817957077344e-06,
    -1.766185544703485e-05, 3.816943919305489e-05,  -8.309509995139527e-05,  0.00018255255400152434,
    -0.0004057073999382664, 0.00091537693052098,    -0.0021081308338291604,  0.004998641164241638,
    -0.012384192193374355,  0.032965000621167584,   -0.1003173016743539,     0.4227843350984671};
// (1 + 2 x) erfcx(x) for x >= 0, by (x - 3.75) / (x + 3.75)
constexpr double kErfcx[] = {
    -7.339505395286156e-11,  -3.753158485844771e-11, 9.022149951182786e-10,
    5.457157434880962e-10,   -6.54556028442351e-09,  -4.389284195859435e-09,
    4.0971223272807883e-08,  2.428976298269001e-08,  -2.6114702372828203e-07,
    -5.8262810846377095e-08, 1.753443425204503e-06,  -9.728495821713201e-07,
    -1.1445049125878066e-05, 2.2383912036532294e-05, 5.164940777547991e-05,
    -0.00029015397928986196, 0.0002937135948057037,  0.0017556258324217516,
    -0.009746579547619623,   0.028362277421515595,   -0.05869339859054761,
    0.09230432116019834,     -0.10880393014170747,   0.08227673849015102,
    0.0035854154854636907,   -0.14024059858554702,   1.2375126308378275};
// lgamma(x) - (x - 1/2) (log x - 1) - 0.4189..., times x, by 1 / x^2
constexpr double kStirling[] = {1.0 / 156,  -691.0 / 360360, 1.0 / 1188, -1.0 / 1680,
                                1.0 / 1260, -1.0 / 360,      1.0 / 12};
// log x - 1 / (2 x) - digamma(x), times x^2, by 1 / x^2
constexpr double kDigamma[] = {8.33333333333333333333E-2, -2.10927960927960927961E-2,
                               7.57575757575757575758E-3, -4.16666666666666666667E-3,
                               3.96825396825396825397E-3, -8.33333333333333333333E-3,
                               8.33333333333333333333E-2};
// (2 k)! / B_2k
constexpr double kZeta[] = {12.0,
                            -720.0,
                            30240.0,
                            -1209600.0,
                            47900160.0,
                            -1.8924375803183791606e9,
                            7.47242496e10,
                            -2.950130727918164224e12,
                            1.1646782814350067249e14,
                            -4.5979787224074726105e15,
                            1.8152105401943546773e17,
                            -7.1661652561756670113e18};
// Quantiles of the normal distribution: by the square of p - 1/2, then by 1 / sqrt(-2 log p) below
// and above 1 / 8.
constexpr double kCentre[] = {-5.99633501014107895267E1, 9.80010754185999661536E1,
                              -5.66762857469070293439E1, 1.39312609387279679503E1,
                              -1.23916583867381258016E0};
constexpr double kCentreBelow[] = {1.0,
                                   1.95448858338141759834E0,
                                   4.67627912898881538453E0,
                                   8.63602421390890590575E1,
                                   -2.25462687854119370527E2,
                                   2.00260212380060660359E2,
                                   -8.20372256168333339912E1,
                                   1.59056225126211695515E1,
                                   -1.18331621121330003142E0};
constexpr double kTail[] = {
    4.05544892305962419923E0,   3.15251094599893866154E1,   5.71628192246421288162E1,
    4.40805073893200834700E1,   1.46849561928858024014E1,   2.18663306850790267539E0,
    -1.40256079171354495875E-1, -3.50424626827848203418E-2, -8.57456785154685413611E-4};
constexpr double kTailBelow[] = {1.0,
                                 1.57799883256466749731E1,
                                 4.53907635128879210584E1,
                                 4.13172038254672030440E1,
                                 1.50425385692907503408E1,
                                 2.50464946208309415979E0,
                                 -1.42182922854787788574E-1,
                                 -3.80806407691578277194E-2,
                                 -9.33259480895457427372E-4};
constexpr double kFarTail[] = {
    3.23774891776946035970E0,  6.91522889068984211695E0,  3.93881025292474443415E0,
    1.33303460815807542389E0,  2.01485389549179081538E-1, 1.23716634817820021358E-2,
    3.01581553508235416007E-4, 2.65806974686737550832E-6, 6.23974539184983293730E-9};
constexpr double kFarTailBelow[] = {1.0,
                                    6.02427039364742014255E0,
                                    3.67983563856160859403E0,
                                    1.37702099489081330271E0,
                                    2.16236993594496635890E-1,
                                    1.34204006088543189037E-2,
                                    3.28014464682127739104E-4,
                                    2.89247864745380683936E-6,
                                    6.79019408009981274425E-9};
// erfinv(x) / x by w = -log(1 - x^2), to 2^-39: by w - 3.125 for w < 6.25, by sqrt(w) - 3.3 up to
// where numbers of f32 end.
constexpr double kErfinvNear[] = {
    1.875088153444157e-15,  -3.160713257516442e-14,  3.3328643605621643e-15,
    2.4446778914877117e-12, -1.3838959630767252e-11, -5.230850895459485e-11,
    1.0564842781310577e-09, -4.12250050619634e-09,   -2.90896124154621e-08,
    4.235081846729536e-07,  -1.365429192665901e-06,  -1.3882569404976457e-05,
    0.00018673416583286548, -0.0007407025019995439,  -0.006033670854068326,
    0.24015818241906445,    1.6536545626819124};
constexpr double kErfinvFar[] = {
    -3.161430634446945e-06, 3.2815475771154484e-06, 1.3701050245681852e-05,  -4.224247143301655e-05,
    4.627504029856204e-05,  5.059231286925791e-05,  -0.00033991299157652845, 0.0008311709807061746,
    -0.0014207194715751062, 0.0021036016134443436,  -0.0032928201157522725,  0.004843580819144381,
    1.0057691197781216,     3.134161532325935};

// --- the gamma function and its derivatives

/// lgamma(x) and, for x < 1, lgamma(x) + log(x).
struct LogGamma {
  V value, without_log;
};

// x < 1: lgamma(x + 1) - log(x). x < 8: lgamma of x less a whole number, plus the logarithm of what
// lies between. Above Stirling's series.
LogGamma lgamma_of_positive(Builder& b, V x) {
  const V small = b.lt(x, 1), large = b.ge(x, 8);
  V y = b.where(small, b.add(x, 1), x), product = b.full_like(x, 1);
  for (int i = 0; i < 5; ++i) {
    const V above = b.ge(y, 3);
    y = b.where(above, b.sub(y, 1), y);
    product = b.where(above, b.mul(product, y), product);
  }
  const V t = b.sub(y, 2);
  const V core = b.mul(b.mul(t, b.sub(y, 1)), polynomial(b, t, kLogGamma));
  const V log = b.log(b.where(b.logical_or(small, large), x, product));
  const V inverse = b.reciprocal(x);
  const V series = b.mul(polynomial(b, b.mul(inverse, inverse), kStirling), inverse);
  const V stirling = b.add(b.add(b.mul(b.sub(x, 0.5), b.sub(log, 1)), 0.4189385332046727), series);
  const V near = b.where(small, b.sub(core, log), b.add(core, log));
  return {b.where(large, stirling, near), core};
}

/// |x| less what is whole, in [0, 1/2]: sin(pi of it) is |sin(pi x)|.
V distance_to_whole(Builder& b, V x) {
  const V rest = b.sub(x, b.floor(x));
  return b.minimum(rest, b.sub(1, rest));
}

// x < 0: log(pi / (|x| |sin pi x|)) - lgamma(|x|)
V lgamma_in_f64(Builder& b, V x) {
  const V z = b.abs(x), small = b.lt(z, 1);
  const LogGamma of = lgamma_of_positive(b, z);
  const V sine = b.sin(b.mul(distance_to_whole(b, z), pi));
  const V reflected = b.sub(b.log(b.div(pi, b.mul(b.where(small, 1, z), sine))),
                            b.where(small, of.without_log, of.value));
  const V value = b.where(b.lt(x, 0), reflected, of.value);
  return b.where(is_pole(b, x), kInfinity, value);
}

/// tan(pi x), by what is next to a pole or zero.
V tangent(Builder& b, V x) { return b.tan(b.mul(b.sub(x, b.round(x)), pi)); }

// Steps to 10 and above, then the asymptotic series.
V digamma_of_positive(Builder& b, V x) {
  V sum = b.zeros_like(x);
  for (int i = 0; i < 10; ++i) {
    const V below = b.lt(x, 10);
    sum = b.sub(sum, b.where(below, b.reciprocal(x), 0));
    x = b.where(below, b.add(x, 1), x);
  }
  const V inverse = b.reciprocal(x), w = b.mul(inverse, inverse);
  const V series = b.add(b.mul(inverse, 0.5), b.mul(w, polynomial(b, w, kDigamma)));
  return b.add(sum, b.sub(b.log(x), series));
}

// x < 0: digamma(1 - x) - pi / tan(pi x)
V digamma_in_f64(Builder& b, V x) {
  const V negative = b.lt(x, 0);
  const V direct = digamma_of_positive(b, b.where(negative, b.sub(1, x), x));
  const V reflected = b.sub(direct, b.div(pi, tangent(b, x)));
  const V value = b.where(negative, reflected, direct);
  const V at_pole = b.where(b.eq(x, 0), b.neg(b.reciprocal(x)), kNaN);
  return b.where(is_pole(b, x), at_pole, value);
}

/// The sum over w^-s, ..., without its first term, which is `last`.
V tail_of_zeta(Builder& b, V s, V w, V last) {
  V tail = b.sub(b.div(b.mul(last, w), b.sub(s, 1)), b.mul(last, 0.5));
  const V inverse = b.reciprocal(w), square = b.mul(inverse, inverse);
  V term = b.mul(b.mul(last, inverse), s);
  for (int k = 0; k < 12; ++k) {
    tail = b.add(tail, b.mul(term, 1 / kZeta[k]));
    term = b.mul(b.mul(term, b.mul(b.add(s, 2 * k + 1), b.add(s, 2 * k + 2))), square);
  }
  return tail;
}

// q^-s + ... + (q + 9)^-s, the rest by Euler and Maclaurin: for q > 0, s > 1. `minus_s` is a number
// or a value.
template <class S>
V zeta_of_positive(Builder& b, V s, const S& minus_s, V q) {
  V sum = b.pow(q, minus_s), w = q, last = sum;
  for (int i = 1; i < 10; ++i) {
    w = b.add(q, i);
    last = b.pow(w, minus_s);
    sum = b.add(sum, last);
  }
  const V is_sum = b.le(last, b.mul(sum, 0x1p-53));
  return b.where(is_sum, sum, b.add(sum, tail_of_zeta(b, s, w, last)));
}

/// The coefficients, highest first, of the polynomial in cot(pi x) that is its n-th derivative,
/// but for pi^n: p' -> -(1 + c^2) p'.
std::vector<double> cotangent_derivative(int64_t n) {
  std::vector<double> p{1, 0};
  for (int64_t k = 0; k < n; ++k) {
    std::vector<double> next(p.size() + 1);
    for (size_t i = 0; i + 1 < p.size(); ++i) {
      const double slope = -p[i] * static_cast<double>(p.size() - 1 - i);
      next[i] += slope;
      next[i + 2] += slope;
    }
    p = next;
  }
  return p;
}

// x > 0: (-1)^(n + 1) n! zeta(n + 1, x); x < 0: reflected.
V polygamma_in_f64(Builder& b, V x, int64_t n) {
  const double sign = n % 2 ? 1 : -1, order = static_cast<double>(n);
  const V negative = b.lt(x, 0);
  const V q = b.where(negative, b.sub(1, x), x);
  const V zeta = zeta_of_positive(b, b.full_like(x, order + 1), Number(-order - 1), q);
  const V direct = b.mul(zeta, sign * std::tgamma(order + 1));
  const V cotangent = b.reciprocal(tangent(b, x));
  const V other =
      b.mul(polynomial(b, cotangent, cotangent_derivative(n)), -std::pow(pi, order + 1));
  const V value = b.where(negative, b.sub(other, b.mul(direct, sign)), direct);
  return b.where(is_pole(b, x), sign * kInfinity, value);
}

// --- the error function

// x >= 0
V erfcx_of_positive(Builder& b, V x) {
  const V t = b.sub(1, b.div(7.5, b.add(x, 3.75)));
  return b.div(polynomial(b, t, kErfcx), b.add(b.mul(x, 2), 1));
}

// x < 0: 2 exp(x^2) - erfcx(-x); what x^2 was rounded by is put back where exp(x^2) is finite.
V erfcx_in_f64(Builder& b, V x) {
  const V z = b.abs(x), positive = erfcx_of_positive(b, z);
  const V square = b.mul(z, z), lost = b.fma(z, z, b.neg(square));
  const V correction = b.add(b.where(b.gt(square, 1e3), 0, lost), 1);
  const V negative = b.sub(b.mul(b.mul(b.exp(square), correction), 2), positive);
  return b.where(b.lt(x, 0), negative, positive);
}

// x < -1: log(erfcx(-x / sqrt 2) / 2) - x^2 / 2; else log1p(-erfc(x / sqrt 2) / 2)
V log_ndtr_in_f64(Builder& b, V x) {
  const V t = b.mul(x, 1 / sqrt2);
  const V below = b.sub(b.log(b.mul(erfcx_of_positive(b, b.abs(t)), 0.5)), b.mul(b.mul(x, x), 0.5));
  return b.where(b.lt(x, -1), below, b.log1p(b.mul(b.erfc(t), -0.5)));
}

/// The quantile at 1/2 + distance, of which `tail` is to the end.
V quantile(Builder& b, V distance, V tail) {
  const V square = b.mul(distance, distance);
  const V part = b.mul(square, ratio(b, square, kCentre, kCentreBelow));
  const V centre = b.mul(b.add(distance, b.mul(distance, part)), sqrt2 / std::numbers::inv_sqrtpi);
  const V r = b.sqrt(b.mul(b.log(tail), -2)), z = b.reciprocal(r);
  const V correction =
      b.where(b.lt(r, 8), ratio(b, z, kTail, kTailBelow), ratio(b, z, kFarTail, kFarTailBelow));
  const V found = b.sub(b.sub(r, b.div(b.log(r), r)), b.mul(z, correction));
  const V far = b.where(b.eq(tail, 0), kInfinity, found);
  const V outer = b.where(b.lt(distance, 0), b.neg(far), far);
  return b.where(b.gt(tail, 0.13533528323661269189), centre, outer);
}

V erfinv_in_f64(Builder& b, V x) {
  const V tail = b.mul(b.sub(1, b.abs(x)), 0.5);
  return b.mul(quantile(b, b.mul(x, 0.5), tail), 1 / sqrt2);
}

/// As exact as f32 can say: one logarithm, and no quotient.
V erfinv_for_f32(Builder& b, V x) {
  const V w = b.neg(b.log(b.sub(1, b.mul(x, x))));
  const V near = polynomial(b, b.sub(w, 3.125), kErfinvNear);
  const V far = polynomial(b, b.sub(b.sqrt(w), 3.3), kErfinvFar);
  const V factor = b.where(b.lt(w, 6.25), near, far);
  return b.mul(x, b.where(b.eq(w, kInfinity), kInfinity, factor));
}

// --- Bessel functions

/// exp(-x) I(x) of order 0 or 1, of x >= 0.
V scaled_bessel(Builder& b, V x, int order) {
  const V t = b.sub(b.mul(x, 0.25), 1);
  const V series = order == 0 ? polynomial(b, t, kI0Near) : b.mul(polynomial(b, t, kI1Near), x);
  const V u = b.sub(b.div(16, x), 1);
  const V far = order == 0 ? polynomial(b, u, kI0Far) : polynomial(b, u, kI1Far);
  return b.where(b.le(x, 8), series, b.div(far, b.sqrt(x)));
}

/// `magnitude` with the sign of x.
V odd(Builder& b, V x, V magnitude) { return b.where(b.lt(x, 0), b.neg(magnitude), magnitude); }

}  // namespace

V lgamma(Context& c) { return in_f64(c, lgamma_in_f64); }
V digamma(Context& c) { return in_f64(c, digamma_in_f64); }
V polygamma(Context& c) {
  const int64_t n = c.attr<int64_t>(Attr::degree);
  return in_f64(c, [=](Builder& b, V x) { return polygamma_in_f64(b, x, n); });
}

// s < 1 and, of s that is no integer, q < 0: NaN; s = 1 and at the poles: inf. The terms below 0
// are those of (1 - f)^-s, ..., (-q)^-s but for their sign, where f is q less its floor: a
// difference.
V zeta(Context& c) {
  Builder& b = c.b;
  const V s = b.convert(c[0], DType::F64), q = b.convert(c[1], DType::F64), minus_s = b.neg(s);
  const V negative = b.lt(q, 0), fraction = b.sub(q, b.floor(q));
  const V sum = zeta_of_positive(b, s, minus_s, b.where(negative, fraction, q));
  const V below = b.sub(zeta_of_positive(b, s, minus_s, b.sub(1, fraction)),
                        zeta_of_positive(b, s, minus_s, b.sub(1, q)));
  const V is_odd = b.eq(b.remainder(s, 2), 1);  // (infinite ones are not)
  const V all = b.add(sum, b.where(is_odd, b.neg(below), below));
  const V poles = b.logical_or(b.eq(s, 1), is_pole(b, q));
  const V invalid = b.logical_or(b.lt(s, 1), b.logical_or(b.isnan(s), b.isnan(q)));
  const V of_negative = b.where(b.eq(s, b.floor(s)), all, kNaN);
  const V value = b.where(poles, kInfinity, b.where(negative, of_negative, sum));
  return b.convert(b.where(invalid, kNaN, value), c.result().dtype);
}

V erfinv(Context& c) {
  return in_f64(c, c.result().dtype == DType::F64 ? erfinv_in_f64 : erfinv_for_f32);
}
V ndtri(Context& c) {
  return in_f64(
      c, [](Builder& b, V x) { return quantile(b, b.sub(x, 0.5), b.minimum(x, b.sub(1, x))); });
}
V erfcx(Context& c) { return in_f64(c, erfcx_in_f64); }
V log_ndtr(Context& c) { return in_f64(c, log_ndtr_in_f64); }

V i0e(Context& c) {
  return in_f64(c, [](Builder& b, V x) { return scaled_bessel(b, b.abs(x), 0); });
}
V i0(Context& c) {
  return in_f64(c, [](Builder& b, V x) {
    const V z = b.abs(x);
    return b.mul(scaled_bessel(b, z, 0), b.exp(z));
  });
}
V i1e(Context& c) {
  return in_f64(c, [](Builder& b, V x) { return odd(b, x, scaled_bessel(b, b.abs(x), 1)); });
}
V i1(Context& c) {
  return in_f64(c, [](Builder& b, V x) {
    const V z = b.abs(x);
    return odd(b, x, b.mul(scaled_bessel(b, z, 1), b.exp(z)));
  });
}

}  // namespace tandem::decomps::rules
