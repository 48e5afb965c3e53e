// Rules of matrix products and attention.
#include <limits>

#include "autodiff/product_terms.h"

namespace tandem::autodiff {
namespace {

/// left @ right, of which one is the gradient [..., m, n] of a product. That of a row by a column
/// is a number, by which the other is scaled.
template <Term product(Term, Term)>
Term times(Args a, Term left, Term right) {
  const Shape sizes = a.b.sizes(a.g);
  const bool is_number = sizes[sizes.rank() - 2] == 1 && sizes.back() == 1;
  return is_number ? left * right : product(left, right);
}

}  // namespace

// y [m, n] = a [m, k] @ b [k, n]: g b^T, a^T g
const VjpRule vjp_mm = rule(wrt<kOther>([](Args a) { return times<mm>(a, a.g, t(a.x(1))); }),
                            wrt<kSelf>([](Args a) { return times<mm>(a, t(a.x(0)), a.g); }));
const VjpRule vjp_bmm = rule(wrt<kOther>([](Args a) { return times<bmm>(a, a.g, bt(a.x(1))); }),
                             wrt<kSelf>([](Args a) { return times<bmm>(a, bt(a.x(0)), a.g); }));
const VjpRule vjp_addmm = rule(wrt<kNothing>([](Args a) { return a.g; }),
                               wrt<kThird>([](Args a) { return mm(a.g, t(a.x(2))); }),
                               wrt<kOther>([](Args a) { return mm(t(a.x(1)), a.g); }));

// Attention over [n, t, d] (n: all batch dims): p = softmax(q k^T scale + mask), y = p v. Written
// as decomps/ writes it, so that the backward's copy of p merges with the forward's.

namespace {

/// scores [n, t, s] with -inf after the diagonal.
Term causal(Term scores) {
  Builder& b = *scores.b;
  const Shape sizes = b.sizes(scores);
  const Term row{&b, b.view(b.iota(sizes[1], ir::DType::I64), {sizes[1], 1})};
  const Term column{&b, b.view(b.iota(sizes[2], ir::DType::I64), {1, sizes[2]})};
  return where(row >= column, scores, -std::numeric_limits<double>::infinity());
}

}  // namespace

Term batched(Args a, Term v) {
  const Shape sizes = a.b.sizes(v);
  const Dim rows = sizes[sizes.rank() - 2], columns = sizes.back();
  Dim n = 1;
  for (int d = 0; d < sizes.rank() - 2; ++d) n = n * sizes[d];
  return {&a.b, a.b.reshape(v, {n, rows, columns})};
}

Term wide(Term v) {
  const ir::DType dtype = v.b->dtype(v);
  const bool is_half = ir::is_half(dtype);
  return {v.b, is_half ? v.b->convert(v, ir::DType::F32) : V(v)};
}

Term narrow(Args a, Term v) { return {&a.b, a.b.convert(v, a.b.dtype(a.x(2)))}; }

Term attention_probabilities(Args a) {
  Builder& b = a.b;
  Term scores =
      bmm(wide(batched(a, a.x(0))), bt(wide(batched(a, a.x(1))))) * a.attr<double>(Attr::scale);
  if (a.attr<bool>(Attr::is_causal)) scores = causal(scores);
  if (a.c.operands.size() > 3) {
    const Term mask = batched(a, a.x(3));
    scores = b.dtype(mask) == ir::DType::Bool
                 ? where(mask, scores, -std::numeric_limits<double>::infinity())
                 : scores + wide(mask);
  }
  return narrow(a, {&b, b.attention_probabilities(scores)});
}

namespace {

/// The gradient of the masked scores: h = g v^T, p h - p sum(p h)
Term score_gradient(Args a, Term p, Term g) {
  p = wide(p);
  const Term hp = bmm(wide(g), bt(wide(batched(a, a.x(2))))) * p;
  return narrow(a, hp - p * Term{&a.b, a.b.sum(hp, {Dim(2)}, true)});
}

Gradients attention(VjpContext& c) {
  const Args a(c);
  Gradients gradients(c.operands.size());
  const bool needs_mask = c.operands.size() > 3 && c.needs(3);
  const bool needs_scores = c.needs(0) || c.needs(1) || needs_mask;
  if (!needs_scores && !c.needs(2)) return gradients;
  const Term g = batched(a, a.g), p = attention_probabilities(a);
  const auto give = [&](int i, Term v) {
    if (c.needs(i)) gradients[i] = a.b.reshape(v, a.sizes(i));
  };
  if (c.needs(2)) give(2, bmm(bt(p), g));
  if (!needs_scores) return gradients;
  const Term ds = score_gradient(a, p, g);
  if (needs_mask) give(3, ds);
  const Term scaled = ds * a.attr<double>(Attr::scale);
  if (c.needs(0)) give(0, bmm(scaled, batched(a, a.x(1))));
  if (c.needs(1)) give(1, bmm(bt(scaled), batched(a, a.x(0))));
  return gradients;
}

Reads attention_reads(std::span<const bool> needs) {
  const bool mask = needs.size() > 3, scores = needs[0] || needs[1] || (mask && needs[3]);
  if (!scores && !needs[2]) return {};
  return {3u | (scores ? 4u : 0u) | (mask ? 8u : 0u), 0};
}

}  // namespace
const VjpRule vjp_scaled_dot_product_attention{VjpRule::Kind::Differentiable, attention,
                                               attention_reads};

// (For inference. Training goes on with the weights that these were made of.)
const VjpRule vjp_weight_int8pack_mm{.kind = VjpRule::Kind::NotDifferentiable,
                                     .reads = read_nothing};
const VjpRule vjp_dynamic_int8pack_mm{.kind = VjpRule::Kind::NotDifferentiable,
                                      .reads = read_nothing};
const VjpRule vjp_int_mm = kZeroGradient;

}  // namespace tandem::autodiff
