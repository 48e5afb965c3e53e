// Inline vector math for generated kernels: each function becomes plain IR at the builder's
// position, for f32 and f64, scalars and vectors of any length, with no call out of the module. An
// element's result depends on its value alone and has the same bits at every vector width and on
// every CPU with FMA.
#ifndef TANDEM_CODEGEN_JIT_MATH_MATH_H
#define TANDEM_CODEGEN_JIT_MATH_MATH_H

#include <cstdint>
#include <span>
#include <string_view>

#include "codegen/jit/jit.h"

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace tandem::jit {

enum class MathFn : uint8_t {
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  atan2,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  pow,
  rsqrt,
  sigmoid,
};

/// What is promised of a function: the largest error in units in the last place, over all
/// arguments.
struct MathInfo {
  std::string_view name;
  int arity;
  double f32_ulp, f64_ulp;
};

/// The table of all functions, in the order of MathFn.
std::span<const MathInfo> math_functions();

/// Emits fn(x), or fn(x, y) for atan2(y = first, x = second) and pow(base, exponent). Functions
/// with a rare slow path (sin, cos, tan of large arguments) split the block: the builder must stand
/// at the end of a block that has no terminator yet.
llvm::Value* emit_math(llvm::IRBuilderBase& ir, const Target& target, MathFn fn, llvm::Value* x,
                       llvm::Value* y = nullptr);

/// The bits of emit_math for x that is NaN or within [-1, 1]: in fewer steps, and in f32 without a
/// split block, where there is a formula for such x.
llvm::Value* emit_math_of_unit(llvm::IRBuilderBase& ir, const Target& target, MathFn fn,
                               llvm::Value* x, llvm::Value* y = nullptr);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_MATH_MATH_H
