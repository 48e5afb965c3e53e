// What a kernel's own instructions say about the values that they compute.
#ifndef TANDEM_CODEGEN_JIT_EMIT_RANGES_H
#define TANDEM_CODEGEN_JIT_EMIT_RANGES_H

#include <vector>

#include "codegen/loops/kernel.h"

namespace tandem::jit {

/// For each instruction: whether its value is floating and always NaN or within [-1, 1].
std::vector<bool> within_unit(const codegen::Kernel& kernel);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_RANGES_H
