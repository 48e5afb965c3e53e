// The backends that ship with Tandem.
#ifndef TANDEM_RUNTIME_BACKENDS_BACKENDS_H
#define TANDEM_RUNTIME_BACKENDS_BACKENDS_H

#include <memory>

#include "ir/backend.h"

namespace tandem::runtime {

/// Fused kernels compiled in process by LLVM, oneDNN for f32 contractions.
std::shared_ptr<const ir::Backend> jit_backend();
/// The reference interpreter.
std::shared_ptr<const ir::Backend> interpreter_backend();

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_BACKENDS_BACKENDS_H
