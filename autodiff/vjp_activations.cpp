// Rules of activations and other pointwise composites. All shapes are equal; g: gradient of the
// result y.
#include <limits>
#include <numbers>

#include "autodiff/product_terms.h"
#include "autodiff/rules.h"

namespace tandem::autodiff {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::sqrt2;

/// f(x, g), of halves in f32 and rounded once, as ATen computes it.
template <class F>
Term rounded_once(Args a, F f) {
  return {&a.b, a.b.convert(f(wide(a.x()), wide(a.g)), a.b.dtype(a.x()))};
}

/// x where it is negative, else 0: exp of it never overflows, so that second derivatives of the
/// branch that `where` drops stay finite.
Term negative_part(Term x) { return where(x > 0, 0, x); }

/// scale * (x > 0 ? x : alpha * (exp(x / width) - 1)), the common form of elu, selu and celu.
Term elu_gradient(Args a, double scale, double alpha, double width) {
  return rounded_once(a, [&](Term x, Term g) {
    return where(x > 0, g * scale, g * (scale * alpha / width) * exp(negative_part(x) / width));
  });
}

/// `g` strictly inside (low, high).
Term inside(Args a, double low, double high, Term g) {
  return zero_where(a.x() <= low || a.x() >= high, g);
}

}  // namespace

const VjpRule vjp_relu = rule(wrt<kResult>([](Args a) { return zero_where(a.y <= 0, a.g); }));
const VjpRule vjp_relu6 = rule(wrt<kSelf>([](Args a) { return inside(a, 0, 6, a.g); }));
const VjpRule vjp_leaky_relu = rule(wrt<kSelf>([](Args a) {  //
  return where(a.x() > 0, a.g, a.g * a.attr<double>(Attr::alpha));
}));
const VjpRule vjp_elu = rule(wrt<kSelf>([](Args a) {  //
  return elu_gradient(a, 1, a.attr<double>(Attr::alpha), 1);
}));
const VjpRule vjp_selu = rule(wrt<kSelf>([](Args a) {  //
  return elu_gradient(a, 1.0507009873554804934193349852946, 1.6732632423543772848170429916717, 1);
}));
const VjpRule vjp_celu = rule(wrt<kSelf>([](Args a) {
  const double alpha = a.attr<double>(Attr::alpha);
  return elu_gradient(a, 1, alpha, alpha);
}));
// x s(x), s the sigmoid: s (1 + x (1 - s))
const VjpRule vjp_silu = rule(wrt<kSelf>([](Args a) {
  return rounded_once(a, [](Term x, Term g) {
    const Term s = sigmoid(x);
    return g * (s * (1 + x * (1 - s)));
  });
}));
// x t, t = tanh(softplus(x)): t + x s(x) (1 - t^2)
const VjpRule vjp_mish = rule(wrt<kSelf>([](Args a) {
  return rounded_once(a, [](Term x, Term g) {
    const Term t = tanh(Term{x.b, x.b->emit(Op::softplus, {x}, {1.0, 20.0})});
    return g * (t + x * sigmoid(x) * (1 - t * t));
  });
}));

namespace {

/// x cdf(x): cdf + x pdf
Term gelu_gradient(Term x, Term g) {
  const Term cdf = 0.5 * (1 + erf(x * (1 / sqrt2)));
  const Term pdf = exp(-0.5 * (x * x)) * (inv_sqrtpi / sqrt2);
  return g * (cdf + x * pdf);
}

/// x/2 (1 + t), t = tanh(b (x + k x^3)): (1 + t)/2 + x/2 (1 - t^2) b (1 + 3 k x^2)
Term gelu_tanh_gradient(Term x, Term g) {
  constexpr double kB = sqrt2 * inv_sqrtpi, kK = 0.044715;
  const Term xx = x * x;
  const Term t = tanh(kB * (x + kK * (xx * x)));
  return g * (0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * (kB * (1 + 3 * kK * xx))));
}

}  // namespace

const VjpRule vjp_gelu = rule(wrt<kSelf>([](Args a) {
  const bool approximate = a.attr<std::string>(Attr::approximate) == "tanh";
  return rounded_once(a, approximate ? gelu_tanh_gradient : gelu_gradient);
}));
// log(1 + exp(b x)) / b, and x where b x > threshold
const VjpRule vjp_softplus = rule(wrt<kSelf>([](Args a) {
  return rounded_once(a, [&](Term x, Term g) {
    const Term bx = x * a.attr<double>(Attr::beta);
    return where(bx > a.attr<double>(Attr::alpha), g, g * sigmoid(bx));
  });
}));
const VjpRule vjp_softsign = rule(wrt<kSelf>([](Args a) {
  return rounded_once(a, [](Term x, Term g) {
    const Term d = 1 + abs(x);
    return g / (d * d);
  });
}));
// Nothing flows to x at or beyond a bound; there the bound has the gradient (the upper one where
// both coincide).
const VjpRule vjp_hardtanh = rule(
    wrt < kSelf | kOther |
        kThird > ([](Args a) { return zero_where(a.x(0) <= a.x(1) || a.x(0) >= a.x(2), a.g); }),
    wrt<kSelf | kOther | kThird>(
        [](Args a) { return where(a.x(0) <= a.x(1) && a.x(1) < a.x(2), a.g, 0); }),
    wrt<kSelf | kOther | kThird>(
        [](Args a) { return where(a.x(0) >= a.x(2) || a.x(1) >= a.x(2), a.g, 0); }));
const VjpRule vjp_hardsigmoid = rule(wrt<kSelf>([](Args a) {  // 0 at NaN too
  return where(a.x() > -3 && a.x() < 3, a.g / 6, 0);
}));
const VjpRule vjp_hardswish = rule(wrt<kSelf>([](Args a) {
  return rounded_once(
      a, [](Term x, Term g) { return where(x >= 3, g, zero_where(x <= -3, g * (x / 3 + 0.5))); });
}));
const VjpRule vjp_log_sigmoid = rule(wrt<kSelf>(
    [](Args a) { return rounded_once(a, [](Term x, Term g) { return g * sigmoid(-x); }); }));
// NaN outside [0, 1], as y is; infinite at the ends, from inside
const VjpRule vjp_logit = rule(wrt<kSelf>([](Args a) {
  const Term x = a.x(), slope = a.g / (abs(x) * (1 - x));
  return where(x < 0 || x > 1, std::numeric_limits<double>::quiet_NaN(), slope);
}));
const VjpRule vjp_square = rule(wrt<kSelf>([](Args a) { return a.g * (2 * a.x()); }));
const VjpRule vjp_frac = rule(wrt<kNothing>([](Args a) { return a.g; }));
const VjpRule vjp_clamp_min =
    rule(wrt < kSelf | kOther > ([](Args a) { return where(a.x(0) >= a.x(1), a.g, 0); }),
         wrt<kSelf | kOther>([](Args a) { return where(a.x(0) < a.x(1), a.g, 0); }));
const VjpRule vjp_clamp_max =
    rule(wrt < kSelf | kOther > ([](Args a) { return where(a.x(0) <= a.x(1), a.g, 0); }),
         wrt<kSelf | kOther>([](Args a) { return where(a.x(0) > a.x(1), a.g, 0); }));
// min where x < min < max, max where it is below x or min, x between them
const VjpRule vjp_clamp =
    rule(wrt < kSelf | kOther |
             kThird > ([](Args a) { return where(a.x(0) >= a.x(1) && a.x(0) <= a.x(2), a.g, 0); }),
         wrt<kSelf | kOther | kThird>(
             [](Args a) { return where(a.x(0) < a.x(1) && a.x(1) < a.x(2), a.g, 0); }),
         wrt<kSelf | kOther | kThird>(
             [](Args a) { return where(a.x(0) > a.x(2) || a.x(1) > a.x(2), a.g, 0); }));
// As in ATen.
const VjpRule vjp_heaviside{.kind = VjpRule::Kind::NotDifferentiable, .reads = read_nothing};
// Where they are equal the result is other.
const VjpRule vjp_nextafter = rule(
    wrt < kSelf | kOther > ([](Args a) { return zero_where(equal(a.x(0), a.x(1)), a.g); }), kZeros);
// start + w (end - start)
const VjpRule vjp_lerp = rule(wrt<kThird>([](Args a) { return a.g * (1 - a.x(2)); }),
                              wrt<kThird>([](Args a) { return a.g * a.x(2); }),
                              wrt<kSelf | kOther>([](Args a) { return a.g * (a.x(1) - a.x(0)); }));
// x + value t1 t2
const VjpRule vjp_addcmul =
    rule(wrt<kNothing>([](Args a) { return a.g; }),
         wrt<kThird>([](Args a) { return a.g * (a.x(2) * a.attr<Number>(Attr::value)); }),
         wrt<kOther>([](Args a) { return a.g * (a.x(1) * a.attr<Number>(Attr::value)); }));
// x + value t1 / t2
const VjpRule vjp_addcdiv =
    rule(wrt<kNothing>([](Args a) { return a.g; }),
         wrt<kThird>([](Args a) { return a.g * (a.attr<Number>(Attr::value) / a.x(2)); }),
         wrt<kOther | kThird>([](Args a) {
           return -a.g * (a.attr<Number>(Attr::value) * a.x(1) / (a.x(2) * a.x(2)));
         }));
const VjpRule vjp_hypot =
    rule(wrt < kSelf | kResult > ([](Args a) { return a.g * (a.x(0) / a.y); }),
         wrt<kOther | kResult>([](Args a) { return a.g * (a.x(1) / a.y); }));
const VjpRule vjp_copysign =
    rule(wrt < kSelf |
             kResult > ([](Args a) { return a.g * zero_where(equal(a.x(0), 0), a.y / a.x(0)); }),
         kZeros);
const VjpRule vjp_logaddexp =
    rule(wrt < kSelf | kOther > ([](Args a) { return a.g * sigmoid(a.x(0) - a.x(1)); }),
         wrt<kSelf | kOther>([](Args a) { return a.g * sigmoid(a.x(1) - a.x(0)); }));
const VjpRule vjp_logaddexp2 =
    rule(wrt < kSelf |
             kOther > ([](Args a) { return a.g * sigmoid((a.x(0) - a.x(1)) * std::numbers::ln2); }),
         wrt<kSelf | kOther>(
             [](Args a) { return a.g * sigmoid((a.x(1) - a.x(0)) * std::numbers::ln2); }));
// x log(1 + y), 0 where x = 0
const VjpRule vjp_xlog1py =
    rule(wrt < kSelf | kOther > ([](Args a) {
                         return zero_where(equal(a.x(0), 0) && a.x(1) <= -1, a.g * log1p(a.x(1)));
                       }),
         wrt<kSelf | kOther>([](Args a) { return a.g * (a.x(0) / (a.x(1) + 1)); }));
// -x log x
const VjpRule vjp_entr = rule(wrt<kSelf>([](Args a) { return -a.g * (log(a.x()) + 1); }));
// x log y, 0 where x = 0
const VjpRule vjp_xlogy =
    rule(wrt < kSelf | kOther > ([](Args a) {
                         return zero_where(equal(a.x(0), 0) && a.x(1) <= 0, a.g * log(a.x(1)));
                       }),
         wrt<kSelf | kOther>([](Args a) { return a.g * (a.x(0) / a.x(1)); }));

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}  // namespace
const VjpRule vjp_nan_to_num =
    rule(wrt<kSelf>([](Args a) { return where(abs(a.x(0)) < kInfinity, a.g, 0); }),
         wrt<kSelf>([](Args a) { return where(isnan(a.x(0)), a.g, 0); }),
         wrt<kSelf>([](Args a) { return where(equal(a.x(0), kInfinity), a.g, 0); }),
         wrt<kSelf>([](Args a) { return where(equal(a.x(0), -kInfinity), a.g, 0); }));

}  // namespace tandem::autodiff
