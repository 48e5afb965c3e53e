// What the rules of matrix products and attention, of gradients and of tangents, are made of.
#ifndef TANDEM_AUTODIFF_PRODUCT_TERMS_H
#define TANDEM_AUTODIFF_PRODUCT_TERMS_H

#include "autodiff/rules.h"

namespace tandem::autodiff {

inline Term mm(Term p, Term q) { return {p.b, p.b->mm(p, q)}; }
inline Term bmm(Term p, Term q) { return {p.b, p.b->bmm(p, q)}; }
inline Term t(Term p) { return {p.b, p.b->transpose(p, 0, 1)}; }
/// [b, m, n] -> [b, n, m]
inline Term bt(Term p) { return {p.b, p.b->permute(p, {Dim(0), Dim(2), Dim(1)})}; }

// --- of scaled_dot_product_attention
/// v [..., t, d] as [n, t, d].
Term batched(Args a, Term v);
/// Scores of halves are f32, and so are their derivatives until they are summed.
Term wide(Term v);
/// v in the dtype of the operands.
Term narrow(Args a, Term v);
/// [n, t, s]
Term attention_probabilities(Args a);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_PRODUCT_TERMS_H
