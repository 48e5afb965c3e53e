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
/// By that backend, of a graph (which lives as long) of a function that is called with many shapes:
/// new code takes sizes as arguments, and what recurs gets code of its own.
std::unique_ptr<ir::Executable> compile_for_any_size(const ir::Graph& graph,
                                                     const std::string& cache_dir = {});
/// The reference interpreter.
std::shared_ptr<const ir::Backend> interpreter_backend();

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_BACKENDS_BACKENDS_H
