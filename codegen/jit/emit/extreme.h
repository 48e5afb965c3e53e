// The larger or smaller of two numbers by one instruction (vrange of AVX-512DQ), which knows that
// -0 is below +0; without it that takes five.
#ifndef TANDEM_CODEGEN_JIT_EMIT_EXTREME_H
#define TANDEM_CODEGEN_JIT_EMIT_EXTREME_H

#include "codegen/jit/jit.h"
#include "codegen/jit/llvm.h"

namespace tandem::jit {

/// Whether the machine has that for vectors of floats or doubles of this type: a register or some.
bool has_extreme_number(const Target& target, const llvm::Type* type);

/// Of a number and a NaN the number.
llvm::Value* extreme_number(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b, bool largest);

/// Of a number and a NaN the NaN, as llvm.maximum and llvm.minimum have it.
llvm::Value* extreme_or_nan(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b, bool largest);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_EXTREME_H
