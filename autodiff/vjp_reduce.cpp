// Rules of reductions and losses. x [.., n, ..] is reduced over `dims`; g and y have 1 or
// nothing there.
#include <algorithm>

#include "autodiff/rules.h"
#include "autodiff/scan_terms.h"

namespace tandem::autodiff {
namespace {

using ir::Axes;
using ir::Axis;
using ir::Dims;

Shape kept_sizes(const Shape& sizes, const Axes& dims) {
  Shape kept = sizes;
  for (Axis d : dims) kept[static_cast<int>(d)] = 1;
  return kept;
}

/// A reduction's result (or its gradient) with 1 in the reduced dims.
Term kept(Args a, Term v) {
  return {&a.b, a.b.reshape(v, kept_sizes(a.sizes(), a.attr<Axes>(Attr::dims)))};
}

Term spread(Args a, Term v) {
  return {&a.b, spread(a.b, v, a.sizes(), a.attr<Axes>(Attr::dims), a.attr<bool>(Attr::keepdim))};
}

int64_t reduced_count(Args a) {
  Dim n = 1;
  for (Axis d : a.attr<Axes>(Attr::dims)) n = n * a.sizes()[static_cast<int>(d)];
  return n;
}

Term mean_gradient(Args a, Term g) { return spread(a, g / static_cast<double>(reduced_count(a))); }

Term mean_kept(Args a, Term x) { return {&a.b, a.b.mean(x, a.attr<Axes>(Attr::dims), true)}; }

}  // namespace

V spread(Builder& b, V grad, const Shape& sizes, const Axes& dims, bool keepdim) {
  return b.expand(keepdim ? grad : b.reshape(grad, kept_sizes(sizes, dims)), sizes);
}

const VjpRule vjp_sum = rule(wrt<kNothing>([](Args a) { return spread(a, a.g); }));
const VjpRule vjp_mean = rule(wrt<kNothing>([](Args a) { return mean_gradient(a, a.g); }));

namespace {

/// Product of the elements before each one along the last dim of x [m, n].
Term product_before(Term x) {
  return shifted({x.b, x.b->emit(Op::cumprod, {x}, {int64_t{1}})}, 1, 1, 1);
}

/// Product of all other elements, right with any number of zeros.
Term product_of_others(Term x) {
  const auto flipped = [](Term v) { return Term{v.b, v.b->flip(v, Axes{1})}; };
  return product_before(x) * flipped(product_before(flipped(x)));
}

/// The order of dimensions with `dims` last.
Axes reduced_last(int rank, const Axes& dims) {
  Axes order;
  for (int d = 0; d < rank; ++d)
    if (std::ranges::find(dims, Axis{d}) == dims.end()) order.push_back(d);
  order.append(dims);
  return order;
}

/// x's [.., n, ..] as [m, n].
Term as_rows(Args a, const Axes& order) {
  const Dim n = reduced_count(a);
  const V x = a.b.permute(a.x(), order);
  return {&a.b, a.b.reshape(x, {n == 0 ? Dim(0) : a.b.numel(x) / n, n})};
}

/// [m, n] back in x's sizes.
Term from_rows(Args a, Term rows, const Axes& order) {
  Shape permuted;
  for (const ir::Axis d : order) permuted.push_back(a.sizes()[static_cast<int>(d)]);
  return {&a.b, a.b.permute(a.b.reshape(rows, permuted), ir::inverse(order))};
}

}  // namespace

// g times the product of all other elements
const VjpRule vjp_prod = rule(wrt<kSelf>([](Args a) {
  const Axes order = reduced_last(a.sizes().rank(), a.attr<Axes>(Attr::dims));
  const Term x = as_rows(a, order);
  return spread(a, a.g) * from_rows(a, product_of_others(x), order);
}));

namespace {
/// g where x equals the extremum y, in equal parts among ties.
Term extremum_gradient(Args a, Term y, Term g) {
  Builder& b = a.b;
  const Term is_extremum = equal(a.x(), kept(a, y));
  const Term mask{&b, b.convert(is_extremum, b.dtype(a.x()))};
  return mask * (kept(a, g) / Term{&b, b.sum(mask, a.attr<Axes>(Attr::dims), true)});
}

/// g at the place that the indices (result 1) say.
Term place_gradient(Args a) {
  Builder& b = a.b;
  const Axis dim = a.attr<Axes>(Attr::dims)[0];
  Shape line = Shape::filled(a.sizes().rank(), 1);
  line[static_cast<int>(dim)] = a.sizes()[static_cast<int>(dim)];
  const V places = b.view(b.iota(line[static_cast<int>(dim)], ir::DType::I64), line);
  return where(equal(Term{&b, places}, kept(a, a.result(1))), kept(a, a.g), 0);
}
}  // namespace
const VjpRule vjp_amax =
    rule(wrt < kSelf | kResult > ([](Args a) { return extremum_gradient(a, a.y, a.g); }));
const VjpRule vjp_amin =
    rule(wrt < kSelf | kResult > ([](Args a) { return extremum_gradient(a, a.y, a.g); }));
constexpr Reads kSelfAndBoth = kSelf | kResult | kSecondResult;
const VjpRule vjp_aminmax = rule(wrt<kSelfAndBoth>([](Args a) {
  return through_results(
      a, [&](Term g) { return extremum_gradient(a, a.y, g); },
      [&](Term g) { return extremum_gradient(a, a.result(1), g); });
}));
const VjpRule vjp_max_with_indices =
    rule(wrt<kSecondResult>([](Args a) { return place_gradient(a); }));
const VjpRule vjp_min_with_indices = vjp_max_with_indices;
const VjpRule vjp_argmax = kZeroGradient;
const VjpRule vjp_argmin = kZeroGradient;
const VjpRule vjp_any = kZeroGradient;
const VjpRule vjp_all = kZeroGradient;

namespace {
/// d var: 2 g (x - mean(x)) / (n - correction)
Term var_gradient(Args a, Term g) {
  const double n = static_cast<double>(reduced_count(a)) - a.attr<double>(Attr::correction);
  return kept(a, g) * (2 / n) * (a.x() - mean_kept(a, a.x()));
}

/// var's with g / (2 y), 0 where y = 0
Term std_gradient(Args a, Term g) {
  return var_gradient(a, zero_where(equal(a.y, 0), g / (2 * a.y)));
}
}  // namespace
const VjpRule vjp_var = rule(wrt<kSelf>([](Args a) { return var_gradient(a, a.g); }));
constexpr Reads kSelfAndResult = kSelf | kResult;
const VjpRule vjp_std = rule(wrt<kSelfAndResult>([](Args a) { return std_gradient(a, a.g); }));
// As ATen they do not keep the mean, which may be written.
const VjpRule vjp_var_mean = rule(wrt<kSelf>([](Args a) {
  return through_results(
      a, [&](Term g) { return var_gradient(a, g); }, [&](Term g) { return mean_gradient(a, g); });
}));
const VjpRule vjp_std_mean = rule(wrt<kSelfAndResult>([](Args a) {
  return through_results(
      a, [&](Term g) { return std_gradient(a, g); }, [&](Term g) { return mean_gradient(a, g); });
}));
const VjpRule vjp_logsumexp = rule(wrt < kSelf | kResult > ([](Args a) {  //
                                                   return kept(a, a.g) * exp(a.x() - kept(a, a.y));
                                                 }));

namespace {
Term sum_along_dim(Args a, Term v) {
  return {&a.b, a.b.sum(v, {a.attr<int64_t>(Attr::dim)}, true)};
}
}  // namespace
// g y - y sum(g y)
const VjpRule vjp_softmax = rule(wrt<kResult>([](Args a) {
  const Term gy = a.g * a.y;
  return gy - a.y * sum_along_dim(a, gy);
}));
// g - exp(y) sum(g)
const VjpRule vjp_log_softmax = rule(wrt<kResult>([](Args a) {  //
  return a.g - exp(a.y) * sum_along_dim(a, a.g);
}));

namespace {

/// The gradient of each row's loss [n, 1]: 0 for ignored rows.
Term row_gradient(Args a, Term valid) {
  Builder& b = a.b;
  const std::string& reduction = a.attr<std::string>(Attr::reduction);
  Term g = a.g;
  if (reduction == "mean") g = g / Term{&b, b.sum(b.convert(valid, b.dtype(a.x())))};
  const Term rows = where(valid, Term{&b, b.expand(g, b.sizes(valid))}, 0);
  return {&b, b.unsqueeze(rows, 1)};
}

/// (softmax(x) - (1 - s) onehot(target) - s / c) times the row's gradient; x [n, c], target [n]
Term cross_entropy_self(Args a) {
  Builder& b = a.b;
  const Dim classes = a.sizes()[1];
  const double s = a.attr<double>(Attr::label_smoothing);
  const Term target = a.x(1), valid = !equal(target, a.attr<int64_t>(Attr::ignore_index));
  const Term column{&b, b.iota(classes, b.dtype(target))};
  const Term onehot{&b, b.convert(equal(Term{&b, b.unsqueeze(target, 1)}, column), b.dtype(a.x()))};
  Term difference = Term{&b, b.softmax(a.x(), 1)} - (s == 0 ? onehot : onehot * (1 - s));
  if (s != 0) difference = difference - s / static_cast<double>(classes);
  return row_gradient(a, valid) * difference;
}

}  // namespace
const VjpRule vjp_cross_entropy =
    rule(wrt < kSelf | kOther > ([](Args a) { return cross_entropy_self(a); }), NoGradient{});

}  // namespace tandem::autodiff
