// Rules of special functions. g: gradient of the result y.
#include <numbers>

#include "autodiff/rules.h"

namespace tandem::autodiff {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::sqrt2;

Term call(Op op, Term x, ir::AttrsRef attrs = {}) { return {x.b, x.b->pointwise(op, {x}, attrs)}; }

const double kRootOfPi = 1 / inv_sqrtpi;

/// The rule of an op that has no derivative by its first operand, as in ATen.
VjpRule of_second(VjpRule both) {
  both.refused = 1;
  return both;
}

}  // namespace

const VjpRule vjp_lgamma = rule(wrt<kSelf>([](Args a) { return a.g * call(Op::digamma, a.x()); }));
const VjpRule vjp_digamma = rule(wrt<kSelf>([](Args a) {  //
  return a.g * call(Op::polygamma, a.x(), {int64_t{1}});
}));
const VjpRule vjp_polygamma = rule(wrt<kSelf>(
    [](Args a) { return a.g * call(Op::polygamma, a.x(), {a.attr<int64_t>(Attr::degree) + 1}); }));
// sum of (q + k)^-s
const VjpRule vjp_zeta =
    of_second(rule(NoGradient{}, wrt<kSelf | kOther>([](Args a) {
                     const Term s = a.x(0);
                     const Term next{&a.b, a.b.pointwise(Op::zeta, {s + 1, a.x(1)})};
                     return a.g * (-s * next);
                   })));

namespace {

/// x^(a - 1) e^-x / gamma(a)
Term gamma_density(Args a) {
  const Term shape = a.x(0), x = a.x(1);
  return exp((shape - 1) * log(x) - x - call(Op::lgamma, shape));
}

}  // namespace

const VjpRule vjp_igamma = of_second(
    rule(NoGradient{}, wrt<kSelf | kOther>([](Args a) { return a.g * gamma_density(a); })));
const VjpRule vjp_igammac = of_second(
    rule(NoGradient{}, wrt<kSelf | kOther>([](Args a) { return -(a.g * gamma_density(a)); })));
const VjpRule vjp_erfinv = rule(wrt<kResult>([](Args a) {  //
  return a.g * (kRootOfPi / 2 * exp(a.y * a.y));
}));
const VjpRule vjp_erfcx = rule(wrt < kSelf | kResult > ([](Args a) {  //
                                               return a.g * (2 * a.x() * a.y - 2 * inv_sqrtpi);
                                             }));
const VjpRule vjp_ndtri = rule(wrt<kResult>([](Args a) {  //
  return a.g * (sqrt2 * kRootOfPi * exp(a.y * a.y * 0.5));
}));
// The density over the distribution: sqrt(2 / pi) / erfcx(-x / sqrt 2)
const VjpRule vjp_log_ndtr = rule(wrt<kSelf>(
    [](Args a) { return a.g * (sqrt2 * inv_sqrtpi / call(Op::erfcx, a.x() * (-1 / sqrt2))); }));
const VjpRule vjp_i0 = rule(wrt<kSelf>([](Args a) { return a.g * call(Op::i1, a.x()); }));
const VjpRule vjp_i0e =
    rule(wrt < kSelf | kResult > ([](Args a) {  //
                         return a.g * (call(Op::i1e, a.x()) - sign(a.x()) * a.y);
                       }));

namespace {

/// y / x with its limit at 0, where I1(x) is x / 2.
Term over_x(Args a) {
  const Term at_zero = equal(a.x(), 0);
  return where(at_zero, 0.5, a.y / where(at_zero, 1, a.x()));
}

}  // namespace

const VjpRule vjp_i1 = rule(wrt < kSelf | kResult > ([](Args a) {  //
                                            return a.g * (call(Op::i0, a.x()) - over_x(a));
                                          }));
const VjpRule vjp_i1e =
    rule(wrt < kSelf | kResult > ([](Args a) {
                         return a.g * (call(Op::i0e, a.x()) - sign(a.x()) * a.y - over_x(a));
                       }));

}  // namespace tandem::autodiff
