// What the kinds of Combine are: one row each.
#ifndef TANDEM_CODEGEN_LOOPS_COMBINE_H
#define TANDEM_CODEGEN_LOOPS_COMBINE_H

#include "codegen/loops/kernel.h"

namespace tandem::codegen {

/// How values of `op` combine in a reduction.
Combine combine_of(ir::Op op);
/// What combines two partials of `combine` (not argmax, argmin).
ir::Op combining_op(Combine combine);
/// The value of `combine` over nothing, in `dtype`.
ir::Number identity_of(Combine combine, ir::DType dtype);

/// Whether it gives where an extremum is.
constexpr bool finds_position(Combine combine) {
  return combine == Combine::ArgMax || combine == Combine::ArgMin;
}
/// Whether the bits of the result depend on the order of combination.
inline bool is_ordered(Combine combine, ir::DType dtype) {
  return ir::is_floating(dtype) && !finds_position(combine);
}

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LOOPS_COMBINE_H
