// What the rules of scans, of gradients and of tangents, are made of.
#ifndef TANDEM_AUTODIFF_SCAN_TERMS_H
#define TANDEM_AUTODIFF_SCAN_TERMS_H

#include "autodiff/rules.h"

namespace tandem::autodiff {

/// Element i - by (by: 1 or -1) in place of element i along `dim`, and `edge` where there is none.
inline Term shifted(Term v, int64_t dim, int by, const Number& edge) {
  Builder& b = *v.b;
  const auto d = static_cast<int>(dim);
  const Dim n = b.sizes(v)[d];
  if (n == 0) return v;
  ir::Dims padding(static_cast<size_t>(2 * b.rank(v)), Dim(0));
  padding[2 * d + (by > 0 ? 0 : 1)] = 1;
  const V part = by > 0 ? b.slice(v, d, 0, n - 1) : b.slice(v, d, 1, n);
  return {&b, b.pad(part, padding, edge)};
}

/// r[i] = factors[i] r[i - 1] + terms[i]
inline Term linear_scan(Term terms, Term factors, int64_t dim) {
  return {terms.b, terms.b->emit(Op::linear_scan, {terms, factors}, {dim})};
}

/// exp(p - q), also where both are the same infinity.
inline Term exp_of_difference(Term p, Term q) { return where(equal(p, q), 1, exp(p - q)); }

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_SCAN_TERMS_H
