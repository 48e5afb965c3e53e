// What each pointwise op computes on one element, for the kernel interpreter: plain libm, no table
// shared with the reference interpreter or the emitter.
#ifndef TANDEM_CODEGEN_LOOPS_SCALAR_FUNCTIONS_H
#define TANDEM_CODEGEN_LOOPS_SCALAR_FUNCTIONS_H

#include <cstdint>
#include <span>

#include "ir/dtype.h"
#include "ir/op.h"

namespace tandem::codegen {

/// One element, widened: floats in `f` (already rounded to their dtype), integers and bools in `i`.
struct Cell {
  double f = 0;
  int64_t i = 0;
};

/// `value` of dtype `from` as `to` stores it: rounded, wrapped or saturated as ir's `convert`.
Cell convert(Cell value, ir::DType from, ir::DType to);
Cell bitcast(Cell value, ir::DType from, ir::DType to);
/// The float rounded to a floating `dtype`, or the integer wrapped to an integral one.
Cell rounded(Cell value, ir::DType dtype);

/// Whether `op` on integers fails when its second operand is 0.
bool divides(ir::Op op);

/// `op` on `args` of dtypes `from`; the result has dtype `to`.
Cell compute(ir::Op op, std::span<const Cell> args, std::span<const ir::DType> from, ir::DType to);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LOOPS_SCALAR_FUNCTIONS_H
