// What the pointwise primitives become: one emit function for each op, in a table that the linker
// refuses to build if one is missing. Values in registers: f64 as double, f32, bf16 and f16 as
// float (16-bit ones always exactly representable), integers as themselves, bool as i1; scalars or
// vectors of any length.
#ifndef TANDEM_CODEGEN_JIT_EMIT_EMIT_COMPUTE_H
#define TANDEM_CODEGEN_JIT_EMIT_EMIT_COMPUTE_H

#include "codegen/jit/jit.h"
#include "codegen/jit/llvm.h"
#include "ir/dtype.h"
#include "ir/op.h"

namespace tandem::jit {

/// One op on values that have been made equally long. The divisor of an integer division is not 0.
struct Compute {
  llvm::IRBuilder<>& ir;
  const Target& target;
  ir::DType from;  // of the operands (where: of the chosen ones)
  ir::DType to;
  llvm::Value* a;
  llvm::Value* b = nullptr;
  llvm::Value* c = nullptr;
  bool unit = false;  // `a` is NaN or within [-1, 1]
};

/// The IR type of one element in a register.
llvm::Type* register_type(llvm::LLVMContext& context, ir::DType dtype);
/// `type`'s element type replaced, its length kept.
llvm::Type* with_element(llvm::Type* type, llvm::Type* element);

/// Emits `op`; the result is rounded to `call.to`. May split the block at the builder's position.
llvm::Value* emit_op(ir::Op op, const Compute& call);
/// The same as a call of a function of the module, which is made once for all such calls.
llvm::Value* call_op(ir::Op op, const Compute& call);

/// A float rounded to bf16 or f16 and widened again.
llvm::Value* rounded_to_half(const Compute& call, llvm::Value* x);
/// The 16 bits of a float that `dtype` represents exactly, and the float of 16 bits.
llvm::Value* half_bits(llvm::IRBuilder<>& ir, const Target& target, ir::DType dtype,
                       llvm::Value* x);
llvm::Value* from_half_bits(llvm::IRBuilder<>& ir, const Target& target, ir::DType dtype,
                            llvm::Value* bits);

/// fmod(a, b), exact for all arguments: a loop, which splits the block.
llvm::Value* emit_fmod(const Compute& call);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_EMIT_COMPUTE_H
