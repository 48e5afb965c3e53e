// Rules of scans. Each is a linear recurrence, so that gradients are those of linear_scan, run
// backwards: right with any number of zeros, and of any order.
#include <limits>

#include "autodiff/scan_terms.h"

namespace tandem::autodiff {
namespace {

int64_t dim_of(Args a) { return a.attr<int64_t>(Attr::dim); }

Term flipped(Args a, Term v) { return {&a.b, a.b.flip(v, ir::Axes{dim_of(a)})}; }

/// r[i] = g[i] + factor[i + 1] r[i + 1], where `next` is factor[i + 1].
Term reverse_scan(Args a, Term g, Term next) {
  return flipped(a, linear_scan(flipped(a, g), flipped(a, next), dim_of(a)));
}

}  // namespace

const VjpRule vjp_cumsum = rule(wrt<kNothing>([](Args a) {
  const Term sums{&a.b, a.b.emit(Op::cumsum, {flipped(a, a.g)}, {dim_of(a)})};
  return flipped(a, sums);
}));

// the product of those before, times r[i] = g[i] + x[i + 1] r[i + 1]
const VjpRule vjp_cumprod = rule(wrt<kSelf>([](Args a) {
  const Term products{&a.b, a.b.emit(Op::cumprod, {a.x()}, {dim_of(a)})};
  return shifted(products, dim_of(a), 1, 1) *
         reverse_scan(a, a.g, shifted(a.x(), dim_of(a), -1, 0));
}));

namespace {
Term linear_scan_self(Args a) { return reverse_scan(a, a.g, shifted(a.x(1), dim_of(a), -1, 0)); }
}  // namespace
const VjpRule vjp_linear_scan =
    rule(wrt<kOther>([](Args a) { return linear_scan_self(a); }), wrt<kOther | kResult>([](Args a) {
           return linear_scan_self(a) * shifted(a.y, dim_of(a), 1, 0);
         }));

// exp(x[i] - y[i]) times s[i] = g[i] + exp(y[i] - y[i + 1]) s[i + 1], infinity behind the last y;
// no exponent is positive
const VjpRule vjp_logcumsumexp =
    rule(wrt < kSelf | kResult > ([](Args a) {
                         const Term next =
                             shifted(a.y, dim_of(a), -1, std::numeric_limits<double>::infinity());
                         return exp_of_difference(a.x(), a.y) *
                                reverse_scan(a, a.g, exp_of_difference(a.y, next));
                       }));

const VjpRule vjp_cummax_indices = kZeroGradient;
const VjpRule vjp_cummin_indices = kZeroGradient;
const VjpRule vjp_argsort = kZeroGradient;
const VjpRule vjp_topk_indices = kZeroGradient;
const VjpRule vjp_kth_index = kZeroGradient;
const VjpRule vjp_median_index = kZeroGradient;
const VjpRule vjp_mode_index = kZeroGradient;
const VjpRule vjp_searchsorted = kZeroGradient;

}  // namespace tandem::autodiff
