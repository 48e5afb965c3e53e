// The LLVM headers that building IR needs, gathered once. Internal to codegen/jit: only its .cpp
// files and the tests of the inline math include it.
#ifndef TANDEM_CODEGEN_JIT_LLVM_H
#define TANDEM_CODEGEN_JIT_LLVM_H

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#endif  // TANDEM_CODEGEN_JIT_LLVM_H
