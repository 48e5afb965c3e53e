// From a kernel to an LLVM function.
#ifndef TANDEM_CODEGEN_JIT_EMIT_EMIT_H
#define TANDEM_CODEGEN_JIT_EMIT_EMIT_H

#include <string>

#include "codegen/jit/form.h"
#include "codegen/jit/jit.h"

namespace llvm {
class Module;
}

namespace tandem::jit {

/// Adds a kernel to `module` as the external function `name`, with the signature
/// codegen::KernelFunction. The code is a pure function of form and target.
void emit_kernel(llvm::Module& module, const Form& form, const Target& target,
                 const std::string& name);

/// About how much code `kernel` becomes, in its instructions: what compiling it takes time for.
size_t code_length(const codegen::Kernel& kernel);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_EMIT_H
