// Losses between an input and a target of its sizes.
#include "runtime/networks/losses.h"

#include <numbers>

namespace tandem {
namespace {

using runtime::Call;
using runtime::reduced_tensor;
using runtime::V;

std::string function() { return ir::ErrorScope::function(); }

/// log of max(x, eps), and at least -100 as ATen has it.
V bounded_log(Call& c, V x) { return c.b.clamp(c.b.log(x), Number(-100), std::nullopt); }

/// 0 for no target, as xlogy has it: target * log(target) - target * input.
V divergence(Call& c, V input, V target, bool log_target) {
  if (log_target) return c.b.mul(c.b.exp(target), c.b.sub(target, input));
  return c.b.sub(c.b.pointwise(ir::Op::xlogy, {target, target}), c.b.mul(target, input));
}

void require_ratio(double value, const char* name, bool zero) {
  if (!(value > 0 || (zero && value == 0)))
    ir::fail(Errc::Argument, fmt::format("{}: {} out of range; expected more than 0, got {}",
                                         function(), name, value));
}

/// weight * losses, if there is one.
V weighted(Call& c, V losses, const Tensor& weight) {
  return weight.defined() ? c.b.mul(losses, c.in(weight, "weight")) : losses;
}

/// x where positive, else 0; and the logarithm of it, 0 where it is not: by n log n - n + log(2 pi
/// n) / 2.
V stirling(Call& c, V target) {
  const V n = c.b.where(c.b.gt(target, 1), target, 1.0);
  const V terms = c.b.add(c.b.sub(c.b.mul(n, c.b.log(n)), n),
                          c.b.mul(c.b.log(c.b.mul(n, 2 * std::numbers::pi)), 0.5));
  return c.b.where(c.b.gt(target, 1), terms, 0.0);
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), y = c.in(target, "target");
  require_same_sizes(c, x, y, "target");
  const V no = c.b.mul(c.b.sub(y, 1), bounded_log(c, c.b.sub(1, x)));
  return reduced_tensor(c, weighted(c, c.b.sub(no, c.b.mul(y, bounded_log(c, x))), weight),
                        reduction);
}

// (1 - y) x + (1 + (p - 1) y) (log(1 + exp(-|x|)) + max(-x, 0))
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const LogitsOptions& options, SourceLocation at) {
  Call c(at);
  const V x = c.in(logits, "logits"), y = c.in(target, "target");
  require_same_sizes(c, x, y, "target");
  const V log_term = c.b.add(c.b.log1p(c.b.exp(c.b.neg(c.b.abs(x)))), c.b.relu(c.b.neg(x)));
  V positive = log_term;
  if (options.pos_weight.defined()) {
    const V p = c.in(options.pos_weight, "pos_weight");
    positive = c.b.mul(c.b.add(c.b.mul(c.b.sub(p, 1), y), 1), log_term);
  }
  const V losses = c.b.add(c.b.mul(c.b.sub(1, y), x), positive);
  return reduced_tensor(c, weighted(c, losses, options.weight), options.reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, std::string_view reduction,
              bool log_target, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input");
  const V losses = divergence(c, x, c.in(target, "target"), log_target);
  if (reduction != "batchmean") return reduced_tensor(c, losses, reduction);
  const Dim n = c.b.rank(x) == 0 ? Dim(1) : c.b.sizes(x)[0];
  return c.out(c.b.div(c.b.sum(losses), static_cast<double>(int64_t{n})));
}

// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                      double beta, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), d = c.b.sub(x, c.in(target, "target")), size = c.b.abs(d);
  require_ratio(beta, "beta", true);
  if (beta == 0) return reduced_tensor(c, size, reduction);
  const V small = c.b.mul(c.b.square(d), 0.5 / beta);
  return reduced_tensor(c, c.b.where(c.b.lt(size, beta), small, c.b.sub(size, 0.5 * beta)),
                        reduction);
}

// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2)
Tensor huber_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                  double delta, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), d = c.b.sub(x, c.in(target, "target")), size = c.b.abs(d);
  require_ratio(delta, "delta", false);
  const V small = c.b.mul(c.b.square(d), 0.5), large = c.b.mul(c.b.sub(size, 0.5 * delta), delta);
  return reduced_tensor(c, c.b.where(c.b.le(size, delta), small, large), reduction);
}

// (log v + d^2 / v) / 2, where v is var and at least eps
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, bool full,
                         double eps, std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), y = c.in(target, "target");
  V given = c.in(var, "var");
  if (c.b.rank(given) + 1 == c.b.rank(x)) given = c.b.unsqueeze(given, -1);
  // As ATen: the bound does not end var's gradient.
  const V bounded = c.b.clamp(given, Number(eps), std::nullopt);
  const V v = c.b.add(given, c.b.stop_gradient(c.b.sub(bounded, given)));
  V losses = c.b.mul(c.b.add(c.b.log(v), c.b.div(c.b.square(c.b.sub(x, y)), v)), 0.5);
  if (full) losses = c.b.add(losses, 0.5 * std::log(2 * std::numbers::pi));
  return reduced_tensor(c, losses, reduction);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full,
                        double eps, std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), y = c.in(target, "target");
  V losses = log_input ? c.b.sub(c.b.exp(x), c.b.mul(y, x))
                       : c.b.sub(x, c.b.mul(y, c.b.log(c.b.add(x, eps))));
  if (full) losses = c.b.add(losses, stirling(c, y));
  return reduced_tensor(c, losses, reduction);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                        SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), y = c.in(target, "target");
  return reduced_tensor(c, c.b.log1p(c.b.exp(c.b.neg(c.b.mul(y, x)))), reduction);
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin, std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V d = c.b.sub(c.in(input1, "input1"), c.in(input2, "input2"));
  const V losses = c.b.add(c.b.mul(c.b.neg(c.in(target, "target")), d), margin);
  return reduced_tensor(c, c.b.clamp(losses, Number(0), std::nullopt), reduction);
}

// x where the target is 1, max(0, margin - x) where it is -1
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), y = c.in(target, "target"), zero = c.b.full_like(x, 0);
  const V far = c.b.clamp(c.b.sub(margin, x), Number(0), std::nullopt);
  const V losses = c.b.add(c.b.where(c.b.ne(y, 1), far, zero), c.b.where(c.b.ne(y, -1), x, zero));
  return reduced_tensor(c, losses, reduction);
}

Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin, std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V a = c.in(input1, "input1"), b = c.in(input2, "input2"), y = c.in(target, "target");
  constexpr double kEps = 1e-12;
  const auto dot = [&](V p, V q) { return c.b.sum(c.b.mul(p, q), {-1}); };
  const V squares = c.b.mul(c.b.add(dot(a, a), kEps), c.b.add(dot(b, b), kEps));
  const V cosine = c.b.div(dot(a, b), c.b.sqrt(squares)), zero = c.b.full_like(cosine, 0);
  const V near = c.b.where(c.b.eq(y, 1), c.b.sub(1, cosine), zero);
  const V apart = c.b.clamp(c.b.sub(cosine, margin), Number(0), std::nullopt);
  return reduced_tensor(c, c.b.add(near, c.b.where(c.b.eq(y, -1), apart, zero)), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletOptions& o, SourceLocation at) {
  Call c(at);
  if (!(o.margin > 0))
    ir::fail(Errc::Argument, fmt::format("{}: expected a margin above 0, got {}",
                                         ir::ErrorScope::function(), o.margin));
  const auto apart = [&](const Tensor& a, const Tensor& b) {
    return c.in(pairwise_distance(c.cast(a), c.cast(b), o.p, o.eps, false, at));
  };
  const V near = apart(anchor, positive);
  V far = apart(anchor, negative);
  if (o.swap) far = c.b.minimum(far, apart(positive, negative));
  const V losses = c.b.clamp(c.b.add(c.b.sub(near, far), o.margin), Number(0), std::nullopt);
  return reduced_tensor(c, losses, o.reduction);
}

}  // namespace tandem
