// Branches and loops as equations of graphs, on tensors.
#ifndef TANDEM_RUNTIME_CONTROL_EQUATION_H
#define TANDEM_RUNTIME_CONTROL_EQUATION_H

#include <tandem/control_flow.h>

#include "ir/graph.h"

namespace tandem::control {

inline bool is_control_flow(ir::Op op) {
  return op == ir::Op::cond || op == ir::Op::while_loop || op == ir::Op::scan;
}

/// One equation of `op` on operands of these types: its bodies, then its other attributes.
ir::Graph equation_graph(ir::Op op, const std::vector<ir::Type>& operands,
                         std::vector<ir::Graph> bodies, const std::vector<ir::AttrValue>& others,
                         const std::vector<ir::Type>& results);

/// Runs an equation of a graph: a cond, while_loop or scan. Inside a trace it is recorded there, on
/// the tape as any other operation.
Tensors dispatch_control(const ir::Graph& graph, ir::EquationId e, const Tensors& operands);

/// Whether a gradient flows to one of them in this thread's grad mode.
bool wants_gradient(const Tensors& operands);

}  // namespace tandem::control

#endif  // TANDEM_RUNTIME_CONTROL_EQUATION_H
