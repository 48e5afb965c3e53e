// What the rules of flash_attention and of its gradients are made of: matrices of whole scores,
// which first derivatives need for a mask's gradient alone.
#ifndef TANDEM_AUTODIFF_ATTENTION_TERMS_H
#define TANDEM_AUTODIFF_ATTENTION_TERMS_H

#include "autodiff/product_terms.h"

namespace tandem::autodiff {

/// The operands with all heads [b h = n, ., .]; those from `first` on are query, key and value, and
/// there may be a mask behind all `others`.
struct Heads {
  Heads(Args of, int first_operand, int other_operands);

  Args a;
  int first, others;
  Shape q, v;  // sizes of query and value
  Dim n, group;
  Term query, key, value;

  bool has_mask() const { return static_cast<int>(a.c.operands.size()) > others; }
  Term scaled(Term x) const { return x * a.attr<double>(Attr::scale); }

  /// [b, h, t, x] -> [n, t, x]
  Term of_queries(Term x) const;
  /// [b, hk, s, x] -> [n, s, x]: for each head of queries
  Term of_keys(Term x) const;
  /// [1 or b, 1 or h, 1 or t, 1 or s] -> [n, t, s]
  Term of_mask(Term x) const;
  /// [b, h, t] -> [n, t, 1]
  Term of_rows(Term x) const;
  // Back; of keys and masks the sum over all that see them.
  V queries_of(Term x) const;
  V keys_of(Term x) const;
  V mask_of(Term x) const;
  V rows_of(Term x) const;

  /// exp(scores - logsumexp) [n, t, s]; zeros in rows where that is -inf.
  Term weights(Term logsumexp) const;
};

/// [n, t, s] -> [n, t, 1]
inline Term row_sums(Term p) { return {p.b, p.b->sum(p, {Dim(2)}, true)}; }

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_ATTENTION_TERMS_H
