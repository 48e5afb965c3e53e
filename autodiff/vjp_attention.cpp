// Rules of attention that holds no scores. Its gradients are an op of their own, whose gradients
// are products of whole matrices of scores: those are of second order.
#include <algorithm>
#include <limits>

#include "autodiff/attention_terms.h"

namespace tandem::autodiff {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

Term masked(const Heads& h, Term scores) {
  Builder& b = h.a.b;
  if (h.a.attr<bool>(Attr::is_causal)) {
    const Dim t = h.q[2], s = h.v[2];
    const Term row{&b, b.view(b.iota(t, ir::DType::I64), {t, 1})};
    const Term column{&b, b.view(b.iota(s, ir::DType::I64), {1, s})};
    return where(row >= column, scores, kNever);
  }
  if (!h.has_mask()) return scores;
  const Term mask = h.of_mask(h.a.x(h.others));
  return b.dtype(mask) == ir::DType::Bool ? where(mask, scores, kNever) : scores + mask;
}

}  // namespace

Heads::Heads(Args of, int first_operand, int other_operands)
    : a(of),
      first(first_operand),
      others(other_operands),
      q(a.sizes(first)),
      v(a.sizes(first + 2)),
      n(q[0] * q[1]),
      group(q[1] / v[1]),
      query(of_queries(a.x(first))),
      key(of_keys(a.x(first + 1))),
      value(of_keys(a.x(first + 2))) {}

Term Heads::of_queries(Term x) const {
  const Shape s = a.b.sizes(x);
  return {&a.b, a.b.reshape(x, {n, s[2], s[3]})};
}
Term Heads::of_keys(Term x) const {
  const Shape s = a.b.sizes(x);
  const V each = a.b.expand(a.b.unsqueeze(x, 2), {s[0], s[1], group, s[2], s[3]});
  return {&a.b, a.b.reshape(each, {n, s[2], s[3]})};
}
Term Heads::of_mask(Term x) const {
  const V each = a.b.expand(x, {q[0], q[1], q[2], v[2]});
  return {&a.b, a.b.reshape(each, {n, q[2], v[2]})};
}
Term Heads::of_rows(Term x) const { return {&a.b, a.b.reshape(x, {n, q[2], 1})}; }

V Heads::queries_of(Term x) const {
  const Shape s = a.b.sizes(x);
  return a.b.reshape(x, {q[0], q[1], s[1], s[2]});
}
V Heads::keys_of(Term x) const {
  const Shape s = a.b.sizes(x);
  return a.b.sum(a.b.reshape(x, {v[0], v[1], group, s[1], s[2]}), {Dim(2)});
}
V Heads::mask_of(Term x) const {
  return a.b.sum_to(a.b.reshape(x, {q[0], q[1], q[2], v[2]}), a.sizes(others));
}
V Heads::rows_of(Term x) const { return a.b.reshape(x, {q[0], q[1], q[2]}); }

Term Heads::weights(Term logsumexp) const {
  const Term base = zero_where(equal(logsumexp, kNever), logsumexp);
  return exp(masked(*this, scaled(bmm(query, bt(key)))) - of_rows(base));
}

namespace {

bool any(std::span<const bool> needs) { return std::ranges::count(needs, true) > 0; }

void add_to(std::optional<Term>& sum, Term term) { sum = sum ? *sum + term : term; }

/// Of logsumexp, l, beside the result's: ds = p l. The mask's: p (g v^T - sum(g result) + l).
void add_by_scores(Args a, Gradients& gradients) {
  const V g = a.c.grads[0], l = a.c.grads[1];
  const bool needs_mask = a.c.operands.size() > 3 && a.c.needs(3);
  if (!l.valid() && !needs_mask) return;
  const Heads h(a, 0, 3);
  const Term p = h.weights(a.result(1));
  const auto add = [&](int i, V v) {
    if (a.c.needs(i)) gradients[i] = gradients[i] ? a.b.add(*gradients[i], v) : v;
  };
  if (l.valid()) {
    const Term ds = p * h.of_rows({&a.b, l});
    if (needs_mask) add(3, h.mask_of(ds));
    if (a.c.needs(0)) add(0, h.queries_of(h.scaled(bmm(ds, h.key))));
    if (a.c.needs(1)) add(1, h.keys_of(h.scaled(bmm(bt(ds), h.query))));
  }
  if (g.valid() && needs_mask) {
    const Term grad = h.of_queries({&a.b, g}), result = h.of_queries(a.y);
    add(3, h.mask_of(p * (bmm(grad, bt(h.value)) - row_sums(grad * result))));
  }
}

Gradients attention(VjpContext& c) {
  const Args a(c);
  Gradients gradients(c.operands.size());
  if (!any(c.needs_grad)) return gradients;
  if (c.grads[0].valid() && (c.needs(0) || c.needs(1) || c.needs(2))) {
    ir::ValueList operands{c.grads[0], a.x(0), a.x(1), a.x(2), a.y, a.result(1)};
    if (c.operands.size() > 3) operands.push_back(a.x(3));
    const auto made = a.b.emit_all(Op::flash_attention_backward, operands,
                                   {a.attr<double>(Attr::scale), a.attr<bool>(Attr::is_causal)});
    for (int i = 0; i < 3; ++i)
      if (c.needs(i)) gradients[i] = made[static_cast<size_t>(i)];
  }
  add_by_scores(a, gradients);
  return gradients;
}

Reads attention_reads(std::span<const bool> needs) {
  if (!any(needs)) return {};
  return {needs.size() > 3 ? 15u : 7u, 3};
}

/// Of L = <x, ds k> + <y, ds^T q> + <z, p^T g>, with p = exp(s - logsumexp), delta = sum(g result)
/// and ds = p (g v^T - delta) scale. With m = scale (x k^T + y q^T):
///   g: (p m) v + p z - sum(p m) result      result: -sum(p m) g      v: (p m)^T g
///   s: w = p (m (g v^T - delta) + g z^T)    logsumexp: -sum(w)
///   q: scale w k + ds y                     k: scale w^T q + ds^T x
Gradients attention_backward(VjpContext& c) {
  Gradients gradients(c.operands.size());
  if (!any(c.needs_grad)) return gradients;
  const Args a(c);
  const Heads h(a, 1, 6);
  const V x = c.grads[0], y = c.grads[1], z = c.grads[2];
  const Term g = h.of_queries(a.x(0)), result = h.of_queries(a.x(4));
  const Term p = h.weights(a.x(5));
  const Term rest = bmm(g, bt(h.value)) - row_sums(g * result), ds = h.scaled(p * rest);
  std::optional<Term> m, of_p, of_g, of_q, of_k;
  if (x.valid()) {
    const Term queries = h.of_queries({&a.b, x});
    add_to(m, h.scaled(bmm(queries, bt(h.key))));
    add_to(of_k, bmm(bt(ds), queries));
  }
  if (y.valid()) {
    const Term keys = h.of_keys({&a.b, y});
    add_to(m, h.scaled(bmm(h.query, bt(keys))));
    add_to(of_q, bmm(ds, keys));
  }
  if (z.valid()) {
    const Term values = h.of_keys({&a.b, z});
    add_to(of_p, bmm(g, bt(values)));
    add_to(of_g, bmm(p, values));
  }
  if (m) {
    const Term pm = p * *m, sums = row_sums(pm);
    add_to(of_p, *m * rest);
    add_to(of_g, bmm(pm, h.value) - sums * result);
    if (c.needs(4)) gradients[4] = h.queries_of(-(sums * g));
    if (c.needs(3)) gradients[3] = h.keys_of(bmm(bt(pm), g));
  }
  const Term w = p * *of_p;
  if (c.needs(0)) gradients[0] = h.queries_of(*of_g);
  if (c.needs(5)) gradients[5] = h.rows_of(-row_sums(w));
  add_to(of_q, h.scaled(bmm(w, h.key)));
  add_to(of_k, h.scaled(bmm(bt(w), h.query)));
  if (c.needs(1)) gradients[1] = h.queries_of(*of_q);
  if (c.needs(2)) gradients[2] = h.keys_of(*of_k);
  if (h.has_mask() && c.needs(6)) gradients[6] = h.mask_of(w);
  return gradients;
}

Reads attention_backward_reads(std::span<const bool> needs) {
  if (!any(needs)) return {};
  return {needs.size() > 6 ? 127u : 63u, 0};
}

}  // namespace

const VjpRule vjp_flash_attention{VjpRule::Kind::Differentiable, attention, attention_reads};
const VjpRule vjp_flash_attention_backward{VjpRule::Kind::Differentiable, attention_backward,
                                           attention_backward_reads};

}  // namespace tandem::autodiff
