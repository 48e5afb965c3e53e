// From an LLVM module to object bytes: verification, the short list of IR passes, code generation.
#ifndef TANDEM_CODEGEN_JIT_OBJECT_H
#define TANDEM_CODEGEN_JIT_OBJECT_H

#include <string>

#include "codegen/jit/jit.h"

namespace llvm {
class Module;
}

namespace tandem::jit {

/// Optimises `module` in place and returns its object file; a pure function of module and target.
/// Every function that is not declared only gets the target's attributes and `nounwind`. Invalid IR
/// or an unknown feature throws InternalError. Threads may compile at the same time (each module in
/// its own LLVMContext).
std::string compile_object(llvm::Module& module, const Target& target);

/// The assembly text of what compile_object would emit (for tests and for reading).
std::string compile_assembly(llvm::Module& module, const Target& target);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_OBJECT_H
