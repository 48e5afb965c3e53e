// Forward-mode differentiation of a graph: (primals, tangents) -> (outputs, their tangents).
#ifndef TANDEM_AUTODIFF_FORWARD_FORWARD_GRAPH_H
#define TANDEM_AUTODIFF_FORWARD_FORWARD_GRAPH_H

#include "ir/graph.h"

namespace tandem::autodiff {

/// Functional -> Functional, which can be differentiated again either way. Adds a Primal input
/// "d_NAME" for every floating input with requires_grad, behind the others and in their order, and
/// a Result output "d_NAME" for every floating output that is a Result or MutatedInput (zeros where
/// no tangent arrives), which the epilogue gives to the caller behind the others. Calls are
/// inlined, hooks pass tangents on, branches and loops move values and tangents along (control.h).
/// Error{Autograd} where a tangent arrives at an op or operand without a derivative, at a
/// custom_function or a custom operator: these are named.
ir::Graph jvp(const ir::Graph& functional);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_FORWARD_FORWARD_GRAPH_H
