// A body inside a trace: what it does as a functional graph, and which tensors from outside it
// reads and writes.
#ifndef TANDEM_RUNTIME_CONTROL_BODY_H
#define TANDEM_RUNTIME_CONTROL_BODY_H

#include <tandem/control_flow.h>

#include <span>
#include <string>
#include <vector>

#include "ir/build/body_graph.h"
#include "ir/graph.h"

namespace tandem::runtime {
class Trace;
}

namespace tandem::control {

using ir::BodyGraph;
using ir::slice_of;
using ir::stack_of;

struct TracedBody {
  /// A tensor from outside that is written: which input, and by which output.
  struct Write {
    size_t input, output;
    bool no_grad;
  };
  ir::Graph graph;  // Functional; inputs: the ports, then what it captured
  size_t ports = 0;
  std::vector<size_t> results;   // what the function gave: which outputs
  std::vector<Tensor> captured;  // by input behind the ports: of the enclosing trace
  std::vector<Write> writes;     // inputs counted from the first captured one
  ir::Dim draws = 0;             // of the process's generator

  ir::Type type_of(size_t output) const { return graph.type(graph.outputs()[output].value); }
  std::vector<ir::Type> result_types() const;
};

/// A tensor that a body which is traced is handed. What goes in may have a history, so in grad mode
/// it has.
Tensor port_of(runtime::Trace& trace, const ir::Type& type);

/// Traces `body` on new tensors of these types. Inside a trace, or (to learn the types of what it
/// gives) outside. Errors for what only the caller could do: changes of a tensor itself, of
/// `.grad`, operators that are ordered.
TracedBody trace_body(const std::string& name, const std::vector<ir::Type>& ports, Body body);

std::vector<ir::Type> types_of(std::span<const Tensor> tensors);
}  // namespace tandem::control

#endif  // TANDEM_RUNTIME_CONTROL_BODY_H
