// The backends that ship with Tandem.
#ifndef TANDEM_RUNTIME_BACKENDS_BACKENDS_H
#define TANDEM_RUNTIME_BACKENDS_BACKENDS_H

#include <memory>
#include <string>

#include "ir/interfaces/backend.h"

namespace tandem::runtime {

/// Fused kernels compiled in process by LLVM, oneDNN for f32 contractions. Object code is kept in
/// `cache_dir`; empty: TANDEM_CACHE_DIR, if set.
std::shared_ptr<const ir::Backend> jit_backend(const std::string& cache_dir = {});
/// The same for a function that is called with many shapes: new code takes sizes as arguments.
std::shared_ptr<const ir::Backend> jit_backend_for_any_size(const std::string& cache_dir = {});
/// The reference interpreter.
std::shared_ptr<const ir::Backend> interpreter_backend();

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_BACKENDS_BACKENDS_H
