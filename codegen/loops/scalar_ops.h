// What each pointwise primitive is to code generation, beside what it computes: one row each.
#ifndef TANDEM_CODEGEN_LOOPS_SCALAR_OPS_H
#define TANDEM_CODEGEN_LOOPS_SCALAR_OPS_H

#include <cstdint>

#include "ir/dtype.h"
#include "ir/op.h"

namespace tandem::codegen {

struct ScalarOp {
  enum class Code : uint8_t {
    Nothing,  // it gives its operand
    Short,    // an instruction or few: not worth a call, and cheap to have many of
    Long,
    Branches,  // long, with a branch for rare arguments
    Longest,   // of so many instructions that those of one vector keep a processor busy
  };
  /// What is known of results in a floating dtype, from the definition alone.
  enum class Range : uint8_t {
    Any,
    IntoUnit,   // within [-1, 1] (or NaN)
    KeepsUnit,  // so if the operands are (a condition apart)
  };
  /// Which constant operands code can do without as well (`mul` by 2 is a shift, by 3 it is not).
  enum class Constants : uint8_t {
    Known,    // none
    Open,     // all
    Factor,   // of floats; of integers but 0 and powers of two
    Divisor,  // but a power of two
    Choice,   // but 0
  };

  double nanoseconds;  // roughly, of one element on one core, operands in registers
  Code code;
  Range range;
  Constants constants;

  bool is_long() const { return code >= Code::Long; }
};

/// Of a pointwise primitive.
const ScalarOp& scalar_op(ir::Op op);

/// Whether data can make an op with such a result fail: an integer divided by zero.
inline bool may_fail(ir::Op op, ir::DType dtype) {
  return ir::is_integral(dtype) && ir::info(op).effect == ir::Effect::MayFail;
}

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LOOPS_SCALAR_OPS_H
