// One emit function for each pointwise primitive: specialisations of this template, in
// emit_compute.cpp and emit_divide.cpp. The table refers to all of them, so a missing one does not
// link.
#ifndef TANDEM_CODEGEN_JIT_EMIT_EMIT_ONE_H
#define TANDEM_CODEGEN_JIT_EMIT_EMIT_ONE_H

#include "codegen/jit/emit/emit_compute.h"

namespace tandem::jit {

template <ir::Op op>
llvm::Value* emit_one(const Compute& k);

template <>
llvm::Value* emit_one<ir::Op::floor_divide>(const Compute& k);
template <>
llvm::Value* emit_one<ir::Op::remainder>(const Compute& k);
template <>
llvm::Value* emit_one<ir::Op::fmod>(const Compute& k);
template <>
llvm::Value* emit_one<ir::Op::pow>(const Compute& k);
template <>
llvm::Value* emit_one<ir::Op::fma>(const Compute& k);
template <>
llvm::Value* emit_one<ir::Op::gt>(const Compute& k);
template <>
llvm::Value* emit_one<ir::Op::lt>(const Compute& k);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_EMIT_ONE_H
