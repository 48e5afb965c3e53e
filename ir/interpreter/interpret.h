// The reference interpreter: slow and obvious, one thread, index loops, no library. The oracle for
// every pass and every kernel.
#ifndef TANDEM_IR_INTERPRETER_INTERPRET_H
#define TANDEM_IR_INTERPRETER_INTERPRET_H

#include <functional>
#include <span>
#include <vector>

#include "ir/buffer.h"
#include "ir/graph.h"

namespace tandem::ir {

/// An equation that has been computed.
struct Evaluated {
  const Graph& graph;
  EquationId equation;
  std::function<Buffer(int)> operand;  // a copy of an operand's elements, f64 as the results are
};

struct InterpretOptions {
  /// Compute every floating value in f64, whatever its dtype says (inputs are widened; nothing is
  /// rounded in between).
  bool in_f64 = false;
  /// Called with each equation's result before it is used (for an in-place equation: before it is
  /// written); tests perturb roundings through it. Not called for views and ops with subgraphs,
  /// whose results are others' elements. The buffer is f64 for floating results if `in_f64`.
  std::function<void(const Evaluated&, Buffer&)> after_equation;
};

/// Runs a graph of any level: composites by their definition, in-place equations and views with
/// aliasing (Traced), subgraphs by recursion. Returns the outputs in order, as f64 where they are
/// floating if `in_f64`. At the Traced level `inputs` are updated in place by the program's writes.
/// Inputs are laid out by their strides; an input with alias_of lies in the other's storage and
/// takes its elements from there (its own buffer may be a default Buffer, or supplies what lies
/// outside the other). With `in_f64` a floating input may be an f64 buffer whatever its dtype.
std::vector<Buffer> interpret(const Graph& graph, std::span<Buffer> inputs,
                              const InterpretOptions& options = {});

/// interpret(), then the epilogue: writes go to `inputs`, and the caller's results
/// (epilogue.results) are returned.
std::vector<Buffer> interpret_with_epilogue(const Graph& graph, std::span<Buffer> inputs,
                                            const InterpretOptions& options = {});

}  // namespace tandem::ir

#endif  // TANDEM_IR_INTERPRETER_INTERPRET_H
