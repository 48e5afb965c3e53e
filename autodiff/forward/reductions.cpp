// Reductions, norms and scans.
#include <limits>

#include "autodiff/forward/rules.h"
#include "autodiff/scan_terms.h"

namespace tandem::autodiff {
namespace {

using ir::Axes;

constexpr JvpRule kReduced{JvpRule::Kind::Reduced};

}  // namespace

const JvpRule jvp_sum = linear(kSelf);
const JvpRule jvp_mean = linear(kSelf);
const JvpRule jvp_prod = kReduced;
const JvpRule jvp_amax = kReduced;
const JvpRule jvp_amin = kReduced;
const JvpRule jvp_aminmax = kReduced;
const JvpRule jvp_max_with_indices = kReduced;
const JvpRule jvp_min_with_indices = kReduced;
const JvpRule jvp_var = kReduced;
const JvpRule jvp_std = kReduced;
const JvpRule jvp_var_mean = kReduced;
const JvpRule jvp_std_mean = kReduced;
const JvpRule jvp_logsumexp = kReduced;
const JvpRule jvp_cross_entropy = kReduced;
const JvpRule jvp_argmax = kNoTangent;
const JvpRule jvp_argmin = kNoTangent;
const JvpRule jvp_any = kNoTangent;
const JvpRule jvp_all = kNoTangent;

// The Jacobian diag(y) - y y^T is symmetric.
const JvpRule jvp_softmax = kElementwise;
// t - sum(exp(y) t)
const JvpRule jvp_log_softmax = formula([](Along a) {
  return a.t() - Term{&a.b, a.b.sum(exp(a.y) * a.t(), {a.attr<int64_t>(Attr::dim)}, true)};
});

// --- norms: y = xhat weight + bias, xhat = (x - mean) rstd, mean and rstd results 1 and 2, in
// whose dtype all is computed
namespace {

/// Self as rows that are normalised, and how the other operands and results stand beside them.
struct Rows {
  Shape sizes, statistics, parameters;  // of each as it is broadcast with the others
  Axes dims;                            // that are normalised
};

Term as_statistics(const Along& a, Term v) {
  return {&a.b, a.b.convert(v, a.b.dtype(a.result(2)))};
}

Tangents norm(const Along& a, const Rows& rows) {
  Builder& b = a.b;
  const auto shaped = [&](Term v, const Shape& sizes) {
    return Term{&b, b.reshape(as_statistics(a, v), sizes)};
  };
  const auto mean = [&](Term v) { return Term{&b, b.mean(v, rows.dims, true)}; };
  const auto parameter = [&](Term v) { return shaped(v, rows.parameters); };
  const auto as_result = [&](const std::optional<Term>& v, int r) {
    if (!v) return V();
    const V whole = r == 0 ? b.expand(*v, rows.sizes) : v->v;
    return b.convert(b.reshape(whole, b.sizes(a.result(r))), b.dtype(a.result(r)));
  };
  const Term rstd = shaped(a.result(2), rows.statistics);
  const Term xhat = (shaped(a.x(), rows.sizes) - shaped(a.result(1), rows.statistics)) * rstd;
  std::optional<Term> of_mean, of_rstd;
  const auto y = through_operands(
      a,
      [&](Term t) {
        const Term moved = shaped(t, rows.sizes), with_xhat = mean(xhat * moved);
        of_mean = mean(moved);
        of_rstd = -(rstd * rstd) * with_xhat;
        const Term of_xhat = rstd * (moved - *of_mean - xhat * with_xhat);
        return a.c.operands.size() > 1 ? of_xhat * parameter(a.x(1)) : of_xhat;
      },
      [&](Term t) { return xhat * parameter(t); }, [&](Term t) { return parameter(t); });
  return {as_result(y, 0), as_result(of_mean, 1), as_result(of_rstd, 2)};
}

Tangents layer_norm(const Along& a) {
  const auto count = static_cast<int>(a.attr<int64_t>(Attr::normalized_dims));
  const int rank = a.sizes().rank();
  Rows rows{a.sizes(), a.sizes(), {}, {}};
  for (int d = rank - count; d < rank; ++d) {
    rows.statistics[d] = 1;
    rows.parameters.push_back(a.sizes()[d]);
    rows.dims.push_back(d);
  }
  return norm(a, rows);
}

/// As [n, groups, channels of a group, image].
Tangents group_norm(const Along& a) {
  const Shape statistics = a.b.sizes(a.result(2)), sizes = a.sizes();
  Dim image = 1;
  for (int d = 2; d < sizes.rank(); ++d) image = image * sizes[d];
  const Dim n = sizes[0], groups = statistics[1], channels = sizes[1] / groups;
  return norm(a,
              {{n, groups, channels, image}, {n, groups, 1, 1}, {1, groups, channels, 1}, {2, 3}});
}

/// Without elements means have no value.
template <Tangents (*of_elements)(const Along&)>
constexpr JvpRule norm_rule() {
  return formula([](Along a) {
    if (a.b.numel(a.x()) != 0) return of_elements(a);
    return results(a.b.zeros_like(a.y), a.b.zeros_like(a.result(1)), a.b.zeros_like(a.result(2)));
  });
}

}  // namespace

const JvpRule jvp_native_layer_norm = norm_rule<layer_norm>();
const JvpRule jvp_native_group_norm = norm_rule<group_norm>();

// --- scans: each is a linear recurrence, and so is its derivative
namespace {
int64_t dim_of(const Along& a) { return a.attr<int64_t>(Attr::dim); }
}  // namespace

const JvpRule jvp_cumsum = linear(kSelf);
// y[i] = y[i - 1] x[i]
const JvpRule jvp_cumprod = formula(
    [](Along a) { return linear_scan(shifted(a.y, dim_of(a), 1, 1) * a.t(), a.x(), dim_of(a)); });
// y[i] = factor[i] y[i - 1] + x[i]
const JvpRule jvp_linear_scan = formula([](Along a) {
  const auto terms = through_operands(
      a, [](Term t) { return t; }, [&](Term t) { return t * shifted(a.y, dim_of(a), 1, 0); });
  return linear_scan(*terms, a.x(1), dim_of(a));
});
// exp(y[i]) = exp(y[i - 1]) + exp(x[i]); no exponent is positive
const JvpRule jvp_logcumsumexp = formula([](Along a) {
  const Term before = shifted(a.y, dim_of(a), 1, -std::numeric_limits<double>::infinity());
  return linear_scan(exp_of_difference(a.x(), a.y) * a.t(), exp_of_difference(before, a.y),
                     dim_of(a));
});
const JvpRule jvp_cummax_indices = kNoTangent;
const JvpRule jvp_cummin_indices = kNoTangent;
const JvpRule jvp_argsort = kNoTangent;
const JvpRule jvp_topk_indices = kNoTangent;
const JvpRule jvp_kth_index = kNoTangent;
const JvpRule jvp_median_index = kNoTangent;
const JvpRule jvp_mode_index = kNoTangent;
const JvpRule jvp_searchsorted = kNoTangent;
// By element.
const JvpRule jvp_igamma = kElementwise;
const JvpRule jvp_igammac = kElementwise;

}  // namespace tandem::autodiff
