// Attention, and looking up rows.
#include <limits>

#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {
namespace {

/// `x` [..., t, d] as [batch, t, d].
V as_batch(Builder& b, V x) {
  const Shape sizes = b.sizes(x);
  const Dim t = sizes[sizes.rank() - 2], d = sizes.back();
  Dim batch = 1;
  for (int i = 0; i < sizes.rank() - 2; ++i) batch *= sizes[i];
  return b.reshape(x, {batch, t, d});
}

/// `scores` [batch, t, s] with -inf right of the diagonal.
V mask_future(Builder& b, V scores) {
  const Dim t = b.sizes(scores)[1], s = b.sizes(scores)[2];
  const V row = b.view(b.iota(t, DType::I64), {t, 1});
  const V column = b.view(b.iota(s, DType::I64), {1, s});
  return b.where(b.ge(row, column), scores, -std::numeric_limits<double>::infinity());
}

/// A bool mask says which scores stay, a float mask is added; `sizes` are [..., t, s].
V apply_mask(Builder& b, V scores, V mask, const Shape& sizes) {
  mask = as_batch(b, b.expand(mask, sizes));
  if (b.dtype(mask) != DType::Bool) return b.add(scores, wide(b, mask));
  return b.where(mask, scores, -std::numeric_limits<double>::infinity());
}

}  // namespace

// softmax(q k^T scale + mask) v
V scaled_dot_product_attention(Context& c) {
  Builder& b = c.b;
  // (Scores of halves are f32: what rounding them would change grows with them.)
  const V q = wide(b, as_batch(b, c[0])), k = wide(b, as_batch(b, c[1])), v = as_batch(b, c[2]);
  V scores = b.mul(b.bmm(q, b.permute(k, {0, 2, 1})), c.attr<double>(Attr::scale));
  if (c.attr<bool>(Attr::is_causal)) scores = mask_future(b, scores);
  if (const auto mask = c.optional(3)) {
    Shape sizes = c.result().sizes;
    sizes[sizes.rank() - 1] = b.sizes(scores)[2];
    scores = apply_mask(b, scores, *mask, sizes);
  }
  const V p = b.convert(b.attention_probabilities(scores), b.dtype(v));
  return b.reshape(b.bmm(p, v), c.result().sizes);
}

// weight[indices[...], :]
V embedding(Context& c) {
  Builder& b = c.b;
  const V rows = b.index_select(c[0], 0, b.reshape(c[1], {b.numel(c[1])}));
  return b.reshape(rows, c.result().sizes);
}

}  // namespace tandem::decomps::rules
