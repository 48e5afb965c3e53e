// Functions of torch.special that have no other name.
#include <tandem/ops/special.h>

#include <numbers>

#include "runtime/ops/pointwise/operands.h"

namespace tandem {

using ir::Op;
using runtime::Call;
using runtime::operands;
using runtime::place_of;

namespace special {

#define X(op)                                          \
  Tensor op(const Tensor& self, SourceLocation at) {   \
    Call c(at);                                        \
    return c.out(c.b.pointwise(Op::op, {c.in(self)})); \
  }
TANDEM_SPECIAL_UNARY_OPS(X)
#undef X
#define X(op)                                            \
  Tensor op(const Located& self, const Located& other) { \
    Call c(place_of(self, other));                       \
    const auto [a, b] = operands(c, self, other);        \
    return c.out(c.b.pointwise(Op::op, {a, b}));         \
  }
TANDEM_SPECIAL_BINARY_OPS(X)
#undef X
Tensor ndtr(const Tensor& self, SourceLocation at) {
  Call c(at);
  return c.out(c.b.mul(c.b.erfc(c.b.mul(c.in(self), -1 / std::numbers::sqrt2)), 0.5));
}

}  // namespace special

}  // namespace tandem
