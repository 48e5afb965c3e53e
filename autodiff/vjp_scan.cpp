// Rules of scans. Each is a linear recurrence, so that gradients are those of linear_scan, run
// backwards: right with any number of zeros, and of any order.
#include <limits>

#include "autodiff/rules.h"

namespace tandem::autodiff {
namespace {

int64_t dim_of(Args a) { return a.attr<int64_t>(Attr::dim); }

Term flipped(Args a, Term v) { return {&a.b, a.b.flip(v, ir::Axes{dim_of(a)})}; }

/// Element i - by in place of element i, and `edge` where there is none.
Term shifted(Args a, Term v, int by, const Number& edge) {
  Builder& b = a.b;
  const auto dim = static_cast<int>(dim_of(a));
  const Dim n = b.sizes(v)[dim];
  if (n == 0) return v;
  ir::Dims padding(static_cast<size_t>(2 * b.rank(v)), Dim(0));
  padding[2 * dim + (by > 0 ? 0 : 1)] = 1;
  const V part = by > 0 ? b.slice(v, dim, 0, n - 1) : b.slice(v, dim, 1, n);
  return {&b, b.pad(part, padding, edge)};
}

Term linear_scan(Args a, Term terms, Term factors) {
  return {&a.b, a.b.emit(Op::linear_scan, {terms, factors}, {dim_of(a)})};
}

/// r[i] = g[i] + factor[i + 1] r[i + 1], where `next` is factor[i + 1].
Term reverse_scan(Args a, Term g, Term next) {
  return flipped(a, linear_scan(a, flipped(a, g), flipped(a, next)));
}

}  // namespace

const VjpRule vjp_cumsum = rule(wrt<kNothing>([](Args a) {
  const Term sums{&a.b, a.b.emit(Op::cumsum, {flipped(a, a.g)}, {dim_of(a)})};
  return flipped(a, sums);
}));

// the product of those before, times r[i] = g[i] + x[i + 1] r[i + 1]
const VjpRule vjp_cumprod = rule(wrt<kSelf>([](Args a) {
  const Term products{&a.b, a.b.emit(Op::cumprod, {a.x()}, {dim_of(a)})};
  return shifted(a, products, 1, 1) * reverse_scan(a, a.g, shifted(a, a.x(), -1, 0));
}));

namespace {
Term linear_scan_self(Args a) { return reverse_scan(a, a.g, shifted(a, a.x(1), -1, 0)); }
}  // namespace
const VjpRule vjp_linear_scan =
    rule(wrt<kOther>([](Args a) { return linear_scan_self(a); }),
         wrt<kOther | kResult>([](Args a) { return linear_scan_self(a) * shifted(a, a.y, 1, 0); }));

// exp(x[i] - y[i]) times s[i] = g[i] + exp(y[i] - y[i + 1]) s[i + 1], infinity behind the last y;
// no exponent is positive
const VjpRule vjp_logcumsumexp =
    rule(wrt < kSelf |
         kResult > ([](Args a) {
           const auto ratio = [](Term p, Term q) { return where(equal(p, q), 1, exp(p - q)); };
           const Term next = shifted(a, a.y, -1, std::numeric_limits<double>::infinity());
           return ratio(a.x(), a.y) * reverse_scan(a, a.g, ratio(a.y, next));
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
