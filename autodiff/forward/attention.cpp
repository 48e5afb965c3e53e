// Tangents of attention that holds no scores, and of its gradients: by matrices of whole scores.
#include "autodiff/attention_terms.h"
#include "autodiff/forward/rules.h"

namespace tandem::autodiff {
namespace {

std::optional<Term> plus(std::optional<Term> p, std::optional<Term> q) {
  return p && q ? *p + *q : p ? p : q;
}

/// Of the scores [n, t, s]; empty if they do not move.
std::optional<Term> score_tangent(const Along& a, const Heads& h) {
  const auto at = [&](int operand) { return static_cast<size_t>(operand); };
  std::optional<Term> sum;
  if (a.moves(at(h.first))) sum = h.scaled(bmm(h.of_queries(a.t(at(h.first))), bt(h.key)));
  if (a.moves(at(h.first + 1)))
    sum = plus(sum, h.scaled(bmm(h.query, bt(h.of_keys(a.t(at(h.first + 1)))))));
  if (a.moves(at(h.others))) sum = plus(sum, h.of_mask(a.t(at(h.others))));
  return sum;
}

}  // namespace

// p = exp(s - logsumexp), y = p v: dlogsumexp = sum(p ds), dy = p (ds - sum(p ds)) v + p dv
const JvpRule jvp_flash_attention = formula([](Along a) {
  const Heads h(a, 0, 3);
  const Term p = h.weights(a.result(1));
  const std::optional<Term> ds = score_tangent(a, h);
  std::optional<Term> dy, sums;
  if (ds) {
    const Term ps = p * *ds;
    sums = row_sums(ps);
    dy = bmm(ps - p * *sums, h.value);
  }
  if (a.moves(2)) dy = plus(dy, bmm(p, h.of_keys(a.t(2))));
  return results(h.queries_of(*dy), sums ? h.rows_of(*sums) : V());
});

// r = g v^T - sum(g result), c = scale p r: c k, c^T q, p^T g
const JvpRule jvp_flash_attention_backward = formula([](Along a) {
  const Heads h(a, 1, 6);
  const Term g = h.of_queries(a.x(0)), result = h.of_queries(a.x(4)), p = h.weights(a.x(5));
  const Term r = bmm(g, bt(h.value)) - row_sums(g * result), c = h.scaled(p * r);
  const auto queries = [&](size_t i) { return h.of_queries(a.t(i)); };
  const auto keys = [&](size_t i) { return h.of_keys(a.t(i)); };

  std::optional<Term> ds = score_tangent(a, h), dp, dr, dq, dk, dv;
  if (a.moves(5)) ds = plus(ds, -h.of_rows(a.t(5)));
  if (ds) dp = p * *ds;
  if (a.moves(0)) dr = bmm(queries(0), bt(h.value)) - row_sums(queries(0) * result);
  if (a.moves(3)) dr = plus(dr, bmm(g, bt(keys(3))));
  if (a.moves(4)) dr = plus(dr, -row_sums(g * queries(4)));
  const auto dc = plus(dp ? std::optional(h.scaled(*dp * r)) : std::nullopt,
                       dr ? std::optional(h.scaled(p * *dr)) : std::nullopt);
  if (dc) dq = bmm(*dc, h.key), dk = bmm(bt(*dc), h.query);
  if (a.moves(2)) dq = plus(dq, bmm(c, keys(2)));
  if (a.moves(1)) dk = plus(dk, bmm(bt(c), queries(1)));
  if (dp) dv = bmm(bt(*dp), g);
  if (a.moves(0)) dv = plus(dv, bmm(bt(p), queries(0)));
  return results(dq ? h.queries_of(*dq) : V(), dk ? h.keys_of(*dk) : V(),
                 dv ? h.keys_of(*dv) : V());
});

}  // namespace tandem::autodiff
