// The backends that ship with Tandem.
#ifndef TANDEM_RUNTIME_BACKENDS_BACKENDS_H
#define TANDEM_RUNTIME_BACKENDS_BACKENDS_H

#include <memory>
#include <string>

#include "ir/interfaces/backend.h"
#include "machine/library/matmul.h"

namespace tandem::runtime {

struct JitOptions {
  std::string cache_dir = {};  // where object code is kept; empty: TANDEM_CACHE_DIR, if set
  machine::MatmulPrecision matmul_precision = machine::MatmulPrecision::Highest;
  bool leaves_out_unread = false;  // as LowerOptions'
};

/// Fused kernels compiled in process by LLVM, library products for contractions.
std::unique_ptr<ir::Executable> compile_by_jit(const ir::Graph& graph, const JitOptions& options);
/// The same of a graph (which lives as long) of a function that is called with many shapes: new
/// code takes sizes as arguments, and what recurs gets code of its own.
std::unique_ptr<ir::Executable> compile_for_any_size(const ir::Graph& graph,
                                                     const JitOptions& options = {});
/// With the options' defaults.
std::shared_ptr<const ir::Backend> jit_backend();
/// The reference interpreter.
std::shared_ptr<const ir::Backend> interpreter_backend();

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_BACKENDS_BACKENDS_H
