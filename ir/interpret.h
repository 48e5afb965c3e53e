// The reference interpreter: slow and obvious, one thread, index loops, no library. The oracle for
// every pass and every kernel.
#ifndef TANDEM_IR_INTERPRET_H
#define TANDEM_IR_INTERPRET_H

#include <functional>
#include <span>
#include <vector>

#include "buffer.h"
#include "graph.h"

namespace tandem::ir {

struct InterpretOptions {
  /// Compute every floating value in f64, whatever its dtype says (inputs are widened; nothing is
  /// rounded in between).
  bool in_f64 = false;
  /// Called with each equation's result before it is used; tests perturb roundings through it.
  std::function<void(const Graph&, EquationId, Buffer&)> after_equation;
};

/// Runs a graph of any level: composites by their definition, in-place equations and views with
/// aliasing (Traced), subgraphs by recursion. Inputs that are aliases of others (alias_of) get
/// their buffer from the other's. Returns the outputs in order. At the Traced level `inputs` are
/// updated in place by the program's writes; at the others the epilogue's writes are applied to
/// them if `apply_epilogue` below is used.
std::vector<Buffer> interpret(const Graph& graph, std::span<Buffer> inputs,
                              const InterpretOptions& options = {});

/// interpret(), then the epilogue: writes go to `inputs`, and the caller's results
/// (epilogue.results) are returned.
std::vector<Buffer> interpret_with_epilogue(const Graph& graph, std::span<Buffer> inputs,
                                            const InterpretOptions& options = {});

}  // namespace tandem::ir

#endif  // TANDEM_IR_INTERPRET_H
