// Composites that reduce: mean, variance, softmax and its relatives, layer norm. x is the operand.
#include <algorithm>
#include <array>
#include <limits>

#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {
namespace {

/// How many elements each result combines.
double reduced_count(Builder& b, V x, std::span<const ir::Axis> dims) {
  double n = 1;
  for (ir::Axis d : dims) n *= static_cast<double>(b.sizes(x)[static_cast<int>(d)]);
  return n;
}

/// x - amax(x) along `dim`: at most 0, so that exp does not overflow.
V centred_at_max(Builder& b, V x, int dim) { return b.sub(x, b.amax(x, {dim}, true)); }

struct Dims {
  ir::Axes outer, inner;
};

/// `dims` as those that end the operand, whose elements lie side by side, and the others.
Dims split_at_end(Builder& b, V x, const ir::Axes& dims) {
  const auto reduces = [&](int d) { return std::ranges::find(dims, ir::Axis{d}) != dims.end(); };
  int first = b.rank(x);
  while (first > 0 && reduces(first - 1)) --first;
  Dims split;
  for (const ir::Axis d : dims)
    (static_cast<int>(d) >= first ? split.inner : split.outer).push_back(d);
  return split;
}

V sum_of_squares(Builder& b, V x, V from, const ir::Axes& dims, bool keepdim) {
  const V centred = b.sub(x, from);
  return b.sum(b.mul(centred, centred), dims, keepdim);
}

// sum((x - mean)^2); mean has 1 in the reduced dims. Where the elements of a sum lie in several
// rows, as the images' of a channel, each row is centred at its own mean while it is at hand, and
// what the rows' means differ from the whole one's is added: x is read once. (Chan, Golub and
// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances".)
V squares_about(Context& c, V mean) {
  Builder& b = c.b;
  const auto& dims = c.attr<ir::Axes>(Attr::dims);
  const auto [outer, inner] = split_at_end(b, c[0], dims);
  if (outer.empty() || inner.empty())
    return sum_of_squares(b, c[0], mean, dims, c.attr<bool>(Attr::keepdim));
  const V means = b.mean(c[0], inner, true);
  const V within = b.sum(sum_of_squares(b, c[0], means, inner, true), outer, true);
  const V between = sum_of_squares(b, means, mean, outer, true);
  const V sum = b.add(within, b.mul(between, reduced_count(b, c[0], inner)));
  return b.view(sum, c.result(0).sizes);
}

// sum((x - mean)^2) / (n - correction)
V variance(Context& c, V mean) {
  const auto& dims = c.attr<ir::Axes>(Attr::dims);
  const double n = reduced_count(c.b, c[0], dims) - c.attr<double>(Attr::correction);
  return c.b.div(squares_about(c, mean), std::max(n, 0.0));
}

V mean_kept(Context& c) { return c.b.mean(c[0], c.attr<ir::Axes>(Attr::dims), true); }

// (the element at p, p) of p = argmax or argmin
std::array<V, 2> with_indices(Context& c, Op position) {
  Builder& b = c.b;
  const auto& dims = c.attr<ir::Axes>(Attr::dims);
  const V place = b.reduce(position, c[0], dims, true);
  const V value = b.gather(c[0], static_cast<int>(dims[0]), place);
  return {b.view(value, c.result(0).sizes), b.view(place, c.result(1).sizes)};
}

}  // namespace

// sum(x) / n
V mean(Context& c) {
  const auto& dims = c.attr<ir::Axes>(Attr::dims);
  return c.b.div(c.b.sum(c[0], dims, c.attr<bool>(Attr::keepdim)), reduced_count(c.b, c[0], dims));
}

V var(Context& c) { return variance(c, mean_kept(c)); }
V std(Context& c) { return c.b.sqrt(variance(c, mean_kept(c))); }
std::array<V, 2> var_mean(Context& c) {
  const V mean = mean_kept(c);
  return {variance(c, mean), c.b.view(mean, c.result(1).sizes)};
}
std::array<V, 2> std_mean(Context& c) {
  const auto [var, mean] = var_mean(c);
  return {c.b.sqrt(var), mean};
}

std::array<V, 2> aminmax(Context& c) {
  const auto& dims = c.attr<ir::Axes>(Attr::dims);
  const bool keepdim = c.attr<bool>(Attr::keepdim);
  return {c.b.reduce(Op::amin, c[0], dims, keepdim), c.b.reduce(Op::amax, c[0], dims, keepdim)};
}
std::array<V, 2> max_with_indices(Context& c) { return with_indices(c, Op::argmax); }
std::array<V, 2> min_with_indices(Context& c) { return with_indices(c, Op::argmin); }

// m + log(sum(exp(x - m))) of m = amax(x), or 0 where that is infinite
V logsumexp(Context& c) {
  Builder& b = c.b;
  const auto& dims = c.attr<ir::Axes>(Attr::dims);
  const bool keepdim = c.attr<bool>(Attr::keepdim);
  if (b.numel(c[0]) == 0) return b.log(b.sum(c[0], dims, keepdim));
  const V max = b.reduce(Op::amax, c[0], dims, true);
  const V infinite = b.eq(b.abs(max), std::numeric_limits<double>::infinity());
  const V m = b.where(infinite, 0, max);
  const V log_sum = b.log(b.sum(b.exp(b.sub(c[0], m)), dims, keepdim));
  return b.add(log_sum, b.reshape(m, c.result().sizes));
}

// e (1 / sum(e)) of e = exp(x - amax(x)). The sum lies in [1, n], so its reciprocal is normal: one
// division for a row in place of one for each element.
V softmax(Context& c) {
  Builder& b = c.b;
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  if (b.numel(c[0]) == 0) return c[0];
  const V e = b.exp(centred_at_max(b, c[0], dim));
  return b.mul(e, b.reciprocal(b.sum(e, {dim}, true)));
}

// y - log(sum(exp(y))) of y = x - amax(x)
V log_softmax(Context& c) {
  Builder& b = c.b;
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  if (b.numel(c[0]) == 0) return c[0];
  const V y = centred_at_max(b, c[0], dim);
  return b.sub(y, b.log(b.sum(b.exp(y), {dim}, true)));
}

// y r weight + bias, mean(x), r of y = x - mean(x), r = rsqrt(mean(y^2) + eps), over the trailing
// dims
std::array<V, 3> native_layer_norm(Context& c) {
  Builder& b = c.b;
  const int rank = b.rank(c[0]), n = static_cast<int>(c.attr<int64_t>(Attr::normalized_dims));
  ir::Axes dims;
  for (int d = rank - n; d < rank; ++d) dims.push_back(d);
  const V mean = b.mean(c[0], dims, true), y = b.sub(c[0], mean);
  const V variance = b.mean(b.mul(y, y), dims, true);
  const V rstd = b.rsqrt(b.add(variance, c.attr<double>(Attr::eps)));
  V out = b.mul(y, rstd);
  if (const auto weight = c.optional(1)) out = b.mul(out, *weight);
  if (const auto bias = c.optional(2)) out = b.add(out, *bias);
  return {out, mean, rstd};
}

// the same over the channels of each group of [n, c, ...]
std::array<V, 3> native_group_norm(Context& c) {
  Builder& b = c.b;
  const ir::Shape& sizes = c.result().sizes;
  const auto groups = c.attr<int64_t>(Attr::groups);
  const ir::Dim rows = sizes[0] * groups;
  const ir::Dim n = rows == 0 ? ir::Dim(0) : b.numel(c[0]) / rows;
  const ir::ValueList normal = b.native_layer_norm(b.reshape(c[0], {sizes[0], groups, n}), {}, {},
                                                   1, c.attr<double>(Attr::eps));
  ir::Shape channels = ir::Shape::filled(sizes.rank() - 1, 1);
  channels[0] = sizes[1];
  V out = b.reshape(normal[0], sizes);
  if (const auto weight = c.optional(1)) out = b.mul(out, b.reshape(*weight, channels));
  if (const auto bias = c.optional(2)) out = b.add(out, b.reshape(*bias, channels));
  const auto statistic = [&](V v) { return b.reshape(v, {sizes[0], groups}); };
  return {out, statistic(normal[1]), statistic(normal[2])};
}

}  // namespace tandem::decomps::rules
