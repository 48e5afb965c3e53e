// From a kernel to an LLVM function.
#ifndef TANDEM_CODEGEN_JIT_EMIT_H
#define TANDEM_CODEGEN_JIT_EMIT_H

#include <string>

#include "codegen/jit/jit.h"
#include "codegen/kernel.h"

namespace llvm {
class Module;
}

namespace tandem::jit {

/// Adds `kernel` to `module` as the external function `name`, with the signature
/// codegen::KernelFunction. The code is a pure function of kernel and target.
void emit_kernel(llvm::Module& module, const codegen::Kernel& kernel, const Target& target,
                 const std::string& name);

/// About how much code `kernel` becomes, in its instructions: what compiling it takes time for.
size_t code_length(const codegen::Kernel& kernel);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_H
