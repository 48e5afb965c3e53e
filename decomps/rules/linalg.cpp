// Pseudoinverses.
#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {
namespace {

/// 1 / value of the values that count, else 0.
V inverses(Context& c, V values) {
  const V counts = c.b.counting(c.b.abs(values), c[1], c[2]);
  return c.b.where(counts, c.b.reciprocal(c.b.where(counts, values, 1)), 0);
}

/// right diag(inverses of values) left^T
V product(Context& c, V left, V values, V right) {
  const V scaled = c.b.mul(right, c.b.unsqueeze(inverses(c, values), -2));
  return c.b.matmul(scaled, c.b.transpose(left, -2, -1));
}

}  // namespace

V pinv(Context& c) {
  if (c.b.numel(c[0]) == 0) return c.b.full(c.result().sizes, c.result().dtype, 0);
  const V self[] = {c[0]};
  if (c.attr<bool>(Attr::hermitian)) {
    const ir::ValueList found = c.b.emit_all(Op::eigh, self);
    return product(c, found[1], found[0], found[1]);
  }
  const ir::ValueList found = c.b.emit_all(Op::svd, self, {false});
  return product(c, found[0], found[1], c.b.transpose(found[2], -2, -1));
}
V truncated_pinv(Context& c) { return pinv(c); }

}  // namespace tandem::decomps::rules
