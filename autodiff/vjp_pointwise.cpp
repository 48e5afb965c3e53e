// Rules of the pointwise primitives and of composites close to them. All shapes are equal: the
// builder has made broadcasting explicit. g: gradient of the result y.
#include <numbers>

#include "autodiff/rules.h"

namespace tandem::autodiff {

using std::numbers::ln10;
using std::numbers::ln2;

// --- arithmetic
const VjpRule vjp_add = rule(wrt<kNothing>([](Args a) { return a.g; }),  //
                             wrt<kNothing>([](Args a) { return a.g; }));
const VjpRule vjp_sub =
    rule(wrt<kNothing>([](Args a) { return a.g; }), wrt<kNothing>([](Args a) { return -a.g; }));
const VjpRule vjp_mul = rule(wrt<kOther>([](Args a) { return a.g * a.x(1); }),
                             wrt<kSelf>([](Args a) { return a.g * a.x(0); }));
const VjpRule vjp_div =
    rule(wrt<kOther>([](Args a) { return a.g / a.x(1); }),
         wrt<kSelf | kOther>([](Args a) { return -a.g * (a.x(0) / a.x(1) / a.x(1)); }));
const VjpRule vjp_fma = rule(wrt<kOther>([](Args a) { return a.g * a.x(1); }),
                             wrt<kSelf>([](Args a) { return a.g * a.x(0); }),
                             wrt<kNothing>([](Args a) { return a.g; }));
// As in ATen, which has a gradient for div rounded down alone.
const VjpRule vjp_floor_divide{.kind = VjpRule::Kind::NotDifferentiable, .reads = read_nothing};
const VjpRule vjp_div_floor = rule(kZeros, kZeros);
// x - y * floor(x / y)
const VjpRule vjp_remainder =
    rule(wrt<kNothing>([](Args a) { return a.g; }),
         wrt<kSelf | kOther>([](Args a) { return -a.g * div_floor(a.x(0), a.x(1)); }));
// x - y * trunc(x / y)
const VjpRule vjp_fmod =
    rule(wrt<kNothing>([](Args a) { return a.g; }),
         wrt<kSelf | kOther>([](Args a) { return -a.g * trunc(a.x(0) / a.x(1)); }));
// x^n: g n x^(n-1), 0 where n = 0; and g y log x, 0 where x = 0 and n >= 0 (there y is constant)
const VjpRule vjp_pow =
    rule(wrt < kSelf | kOther > ([](Args a) {
                         const Term x = a.x(0), n = a.x(1);
                         return zero_where(equal(n, 0), a.g * (n * pow(x, n - 1)));
                       }),
         wrt<kSelf | kOther | kResult>([](Args a) {
           return a.g * zero_where(equal(a.x(0), 0) && a.x(1) >= 0, a.y * log(a.x(0)));
         }));

namespace {
/// 1 / (x^2 + y^2), but 0 where that sum is: no operand has a slope there.
Term over_square_of_norm(Args a) {
  const Term square = a.x(0) * a.x(0) + a.x(1) * a.x(1), at_zero = equal(square, 0);
  return zero_where(at_zero, 1 / where(at_zero, 1, square));
}
}  // namespace
const VjpRule vjp_atan2 =
    rule(wrt < kSelf | kOther > ([](Args a) { return a.g * a.x(1) * over_square_of_norm(a); }),
         wrt<kSelf | kOther>([](Args a) { return a.g * -a.x(0) * over_square_of_norm(a); }));

namespace {
/// `g` where this operand was taken, half of it at a tie: `lost` says where the other one was.
Term split_ties(Args a, Term lost) {
  return zero_where(lost, where(equal(a.x(0), a.x(1)), a.g / 2, a.g));
}
}  // namespace
const VjpRule vjp_maximum =
    rule(wrt < kSelf | kOther > ([](Args a) { return split_ties(a, a.x(0) < a.x(1)); }),
         wrt<kSelf | kOther>([](Args a) { return split_ties(a, a.x(0) > a.x(1)); }));
const VjpRule vjp_minimum =
    rule(wrt < kSelf | kOther > ([](Args a) { return split_ties(a, a.x(0) > a.x(1)); }),
         wrt<kSelf | kOther>([](Args a) { return split_ties(a, a.x(0) < a.x(1)); }));
const VjpRule vjp_neg = rule(wrt<kNothing>([](Args a) { return -a.g; }));
const VjpRule vjp_abs = rule(wrt<kSelf>([](Args a) { return a.g * sign(a.x()); }));
const VjpRule vjp_sign = rule(kZeros);
const VjpRule vjp_floor = rule(kZeros);
const VjpRule vjp_ceil = rule(kZeros);
const VjpRule vjp_round = rule(kZeros);
const VjpRule vjp_trunc = rule(kZeros);

// --- exp, log, roots
const VjpRule vjp_exp = rule(wrt<kResult>([](Args a) { return a.g * a.y; }));
const VjpRule vjp_exp2 = rule(wrt<kResult>([](Args a) { return a.g * a.y * ln2; }));
const VjpRule vjp_expm1 = rule(wrt<kResult>([](Args a) { return a.g * (a.y + 1); }));
const VjpRule vjp_log = rule(wrt<kSelf>([](Args a) { return a.g / a.x(); }));
const VjpRule vjp_log2 = rule(wrt<kSelf>([](Args a) { return a.g / (a.x() * ln2); }));
const VjpRule vjp_log10 = rule(wrt<kSelf>([](Args a) { return a.g / (a.x() * ln10); }));
const VjpRule vjp_log1p = rule(wrt<kSelf>([](Args a) { return a.g / (a.x() + 1); }));
const VjpRule vjp_sqrt = rule(wrt<kResult>([](Args a) { return a.g / (2 * a.y); }));
const VjpRule vjp_rsqrt = rule(wrt<kResult>([](Args a) { return -0.5 * a.g * (a.y * a.y * a.y); }));
const VjpRule vjp_reciprocal = rule(wrt<kResult>([](Args a) { return -a.g * (a.y * a.y); }));

// --- trigonometric, hyperbolic, erf
const VjpRule vjp_sin = rule(wrt<kSelf>([](Args a) { return a.g * cos(a.x()); }));
const VjpRule vjp_cos = rule(wrt<kSelf>([](Args a) { return a.g * -sin(a.x()); }));
const VjpRule vjp_tan = rule(wrt<kResult>([](Args a) { return a.g * (1 + a.y * a.y); }));
const VjpRule vjp_asin = rule(wrt<kSelf>([](Args a) { return a.g * rsqrt(1 - a.x() * a.x()); }));
const VjpRule vjp_acos = rule(wrt<kSelf>([](Args a) { return a.g * -rsqrt(1 - a.x() * a.x()); }));
const VjpRule vjp_atan = rule(wrt<kSelf>([](Args a) { return a.g / (a.x() * a.x() + 1); }));
const VjpRule vjp_sinh = rule(wrt<kSelf>([](Args a) { return a.g * cosh(a.x()); }));
const VjpRule vjp_cosh = rule(wrt<kSelf>([](Args a) { return a.g * sinh(a.x()); }));
const VjpRule vjp_tanh = rule(wrt<kResult>([](Args a) { return a.g * (1 - a.y * a.y); }));
const VjpRule vjp_asinh = rule(wrt<kSelf>([](Args a) { return a.g * rsqrt(a.x() * a.x() + 1); }));
const VjpRule vjp_acosh = rule(wrt<kSelf>([](Args a) {
  return a.g * (rsqrt(a.x() - 1) * rsqrt(a.x() + 1));  // x * x could overflow
}));
const VjpRule vjp_atanh = rule(wrt<kSelf>([](Args a) { return a.g / (1 - a.x() * a.x()); }));
const VjpRule vjp_erf = rule(
    wrt<kSelf>([](Args a) { return 2 * std::numbers::inv_sqrtpi * exp(-(a.x() * a.x())) * a.g; }));
const VjpRule vjp_erfc = rule(
    wrt<kSelf>([](Args a) { return -2 * std::numbers::inv_sqrtpi * exp(-(a.x() * a.x())) * a.g; }));
const VjpRule vjp_sigmoid = rule(wrt<kResult>([](Args a) { return a.g * ((1 - a.y) * a.y); }));

// --- comparison, logic, bits: the results are not floating
const VjpRule vjp_eq = kZeroGradient;
const VjpRule vjp_ne = kZeroGradient;
const VjpRule vjp_lt = kZeroGradient;
const VjpRule vjp_le = kZeroGradient;
const VjpRule vjp_gt = kZeroGradient;
const VjpRule vjp_ge = kZeroGradient;
const VjpRule vjp_logical_and = kZeroGradient;
const VjpRule vjp_logical_or = kZeroGradient;
const VjpRule vjp_logical_xor = kZeroGradient;
const VjpRule vjp_logical_not = kZeroGradient;
const VjpRule vjp_bitwise_and = kZeroGradient;
const VjpRule vjp_bitwise_or = kZeroGradient;
const VjpRule vjp_bitwise_xor = kZeroGradient;
const VjpRule vjp_bitwise_not = kZeroGradient;
const VjpRule vjp_gcd = kZeroGradient;
const VjpRule vjp_shift_left = kZeroGradient;
const VjpRule vjp_shift_right = kZeroGradient;
const VjpRule vjp_isnan = kZeroGradient;
const VjpRule vjp_isinf = kZeroGradient;
const VjpRule vjp_isfinite = kZeroGradient;

// --- selection, conversion, identity
const VjpRule vjp_where = rule(NoGradient{},  //
                               wrt<kSelf>([](Args a) { return where(a.x(0), a.g, 0); }),
                               wrt<kSelf>([](Args a) { return where(a.x(0), 0, a.g); }));
const VjpRule vjp_convert = rule(wrt<kNothing>([](Args a) {  //
  return a.b.convert(a.g, a.b.dtype(a.x()));
}));
const VjpRule vjp_bitcast = kZeroGradient;
const VjpRule vjp_clone = rule(wrt<kNothing>([](Args a) { return a.g; }));
const VjpRule vjp_stop_gradient = kZeroGradient;
const VjpRule vjp_stop_backward = kZeroGradient;
const VjpRule vjp_keep_history = rule(wrt<kNothing>([](Args a) { return a.g; }), NoGradient{});
const VjpRule vjp_keep_backward = rule(wrt<kNothing>([](Args a) { return a.g; }), NoGradient{});
const VjpRule vjp_masked_fill =
    rule(wrt<kOther>([](Args a) { return where(a.x(1), 0, a.g); }), NoGradient{},  //
         wrt<kOther>([](Args a) { return where(a.x(1), a.g, 0); }));
const VjpRule vjp_copy = rule(kZeros, wrt<kNothing>([](Args a) { return a.g; }));
const VjpRule vjp_fill = rule(kZeros);

const VjpRule vjp_tril = rule(
    wrt<kNothing>([](Args a) { return a.b.emit(Op::tril, {a.g}, {a.attr<Dim>(Attr::offset)}); }));
const VjpRule vjp_triu = rule(
    wrt<kNothing>([](Args a) { return a.b.emit(Op::triu, {a.g}, {a.attr<Dim>(Attr::offset)}); }));

}  // namespace tandem::autodiff
