// Rules of norms: y = xhat weight + bias, xhat = (x - mean) rstd, mean and rstd results 1 and 2.
// Computed in their dtype.
#include <algorithm>

#include "autodiff/rules.h"

namespace tandem::autodiff {
namespace {

using ir::Axes;
using ir::Axis;

// --- layer norm, over the trailing `normalized_dims` dimensions (n elements)

Axes trailing_dims(int rank, int64_t count) {
  Axes dims;
  for (int64_t d = rank - count; d < rank; ++d) dims.push_back(d);
  return dims;
}

Axes leading_dims(int rank, int64_t trailing) {
  Axes dims;
  for (int64_t d = 0; d < rank - trailing; ++d) dims.push_back(d);
  return dims;
}

/// In the dtype of the statistics.
Term as_statistics(Args a, Term v) { return {&a.b, a.b.convert(v, a.b.dtype(a.result(2)))}; }

Term normalized(Args a) { return (as_statistics(a, a.x()) - a.result(1)) * a.result(2); }

/// Of y: rstd (h - mean(h) - xhat mean(h xhat)), h = g weight. Of mean: g / n. Of rstd:
/// -g rstd^2 xhat / n.
Term layer_norm_self(Args a, Term xhat) {
  const Term rstd = a.result(2);
  const Axes dims = trailing_dims(a.sizes().rank(), a.attr<int64_t>(Attr::normalized_dims));
  const auto mean = [&](Term v) { return Term{&a.b, a.b.mean(v, dims, true)}; };
  const auto n = static_cast<double>(a.b.numel(a.x()) / std::max<int64_t>(a.b.numel(rstd), 1));
  return through_results(
      a,
      [&](Term g) {
        const Term wide = as_statistics(a, g);
        const Term h = a.c.operands.size() > 1 ? wide * as_statistics(a, a.x(1)) : wide;
        return rstd * (h - mean(h) - xhat * mean(h * xhat));
      },
      [&](Term g) { return Term{&a.b, a.b.expand(g / n, a.sizes())}; },
      [&](Term g) { return xhat * (g * rstd * rstd / -n); });
}

/// The sum of v over the leading dims, as operand i's gradient.
V sum_leading(Args a, Term v, int i) {
  const Axes dims = leading_dims(a.sizes().rank(), a.attr<int64_t>(Attr::normalized_dims));
  return a.b.convert(dims.empty() ? v.v : a.b.sum(v, dims), a.b.dtype(a.x(i)));
}

Gradients layer_norm(VjpContext& c) {
  const Args a(c);
  Gradients gradients(c.operands.size());
  const bool needs_weight = c.operands.size() > 1 && c.needs(1) && c.grads[0].valid();
  if (c.needs(0) || needs_weight) {
    const Term xhat = normalized(a);
    if (c.needs(0)) gradients[0] = a.b.convert(layer_norm_self(a, xhat), a.b.dtype(a.x()));
    if (needs_weight) gradients[1] = sum_leading(a, as_statistics(a, a.g) * xhat, 1);
  }
  if (c.operands.size() > 2 && c.needs(2) && c.grads[0].valid())
    gradients[2] = sum_leading(a, as_statistics(a, a.g), 2);
  return gradients;
}

/// Of both norms: self and the statistics, and the weight for self.
Reads norm_reads(std::span<const bool> needs) {
  const bool weight = needs.size() > 1 && needs[1];
  if (!needs[0] && !weight) return {};
  return {1u | (needs[0] && needs.size() > 1 ? 2u : 0u), 6};
}

}  // namespace
const VjpRule vjp_native_layer_norm{VjpRule::Kind::Differentiable, layer_norm, norm_reads};

namespace {

// --- group norm of [n, c, ...], over all channels of a group

/// Self and its gradient as [n, groups, channels of a group, image]: they are read twice, for their
/// sums over each image, of which all else is made, and for self's own gradient.
class GroupNorm {
 public:
  explicit GroupNorm(Args a) : a_(a) {
    const Shape statistics = a.b.sizes(a.result(2));
    const Dim rows = a.sizes()[0] * a.sizes()[1];
    const Dim image = rows == 0 ? Dim(0) : a.b.numel(a.x()) / rows;
    sizes_ = {statistics[0], statistics[1], a.sizes()[1] / statistics[1], image};
  }

  /// As layer norm's, with h = g weight: of y rstd (h - mean(h)) - (x - mean) rstd^2 mean(h xhat).
  Term self() const {
    const auto n = static_cast<double>(sizes_[2] * sizes_[3]);
    const Term rstd = statistic(2);
    return through_results(
        a_,
        [&](Term) {
          const Term mean_h = sum(by_weight(grad_sums()), {2}) / n,
                     mean_hx = sum(by_weight(product_sums()), {2}) * rstd / n;
          return of_self(images(a_.g) * by_weight(rstd) - rstd * mean_h -
                         centred() * (rstd * rstd * mean_hx));
        },
        [&](Term g) { return of_self({&a_.b, a_.b.expand(per_group(g) / n, sizes_)}); },
        [&](Term g) { return of_self(centred() * (per_group(g) * rstd * rstd * rstd / -n)); });
  }
  V weight() const { return of_channels(product_sums() * statistic(2), 1); }
  V bias() const { return of_channels(grad_sums(), 2); }

 private:
  Term shaped(V v, const Shape& sizes) const { return {&a_.b, a_.b.reshape(v, sizes)}; }
  Term images(Term v) const { return shaped(as_statistics(a_, v), sizes_); }
  Term per_group(Term v) const { return shaped(v, {sizes_[0], sizes_[1], 1, 1}); }
  Term statistic(int result) const { return per_group(a_.result(result)); }
  Term centred() const { return images(a_.x()) - statistic(1); }
  Term sum(Term v, std::initializer_list<Axis> dims) const {
    return {&a_.b, a_.b.sum(v, dims, true)};
  }
  Term grad_sums() const { return sum(images(a_.g), {3}); }
  Term product_sums() const { return sum(images(a_.g) * centred(), {3}); }
  Term by_weight(Term v) const {
    if (a_.c.operands.size() < 2) return v;
    return v * shaped(as_statistics(a_, a_.x(1)), {1, sizes_[1], sizes_[2], 1});
  }
  Term of_self(Term v) const { return shaped(v, a_.sizes()); }
  V of_channels(Term v, int operand) const {
    const Term total = shaped(a_.b.sum(v, {0}), a_.sizes(operand));
    return a_.b.convert(total, a_.b.dtype(a_.x(operand)));
  }

  Args a_;
  Shape sizes_;
};

Gradients group_norm(VjpContext& c) {
  const Args a(c);
  const bool is_empty = c.b.numel(a.x()) == 0;
  const GroupNorm norm(a);
  Gradients gradients(c.operands.size());
  const auto set = [&](int i, auto gradient) {
    if (i >= static_cast<int>(c.operands.size()) || !c.needs(i)) return;
    if (i > 0 && !c.grads[0].valid()) return;
    gradients[static_cast<size_t>(i)] = is_empty ? c.b.zeros_like(a.x(i)) : gradient();
  };
  set(0, [&] { return c.b.convert(norm.self(), c.b.dtype(a.x())); });
  set(1, [&] { return norm.weight(); });
  set(2, [&] { return norm.bias(); });
  return gradients;
}

}  // namespace
const VjpRule vjp_native_group_norm{VjpRule::Kind::Differentiable, group_norm, norm_reads};

}  // namespace tandem::autodiff
