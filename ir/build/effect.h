// What equations may do beside giving their results, and the order of those that must happen in
// one. The one thing that passes ask before they remove, merge, repeat or move an equation.
#ifndef TANDEM_IR_BUILD_EFFECT_H
#define TANDEM_IR_BUILD_EFFECT_H

#include "ir/graph.h"

namespace tandem::ir {

/// As the op's row says; Ordered too for writes in place, for what takes or gives a token and for
/// what has a body in which there is an order.
Effect effect_of(const Graph& graph, const Equation& e);
inline Effect effect_of(const Graph& graph, EquationId e) {
  return effect_of(graph, graph.equation(e));
}

/// Makes one order of those that first_tokens begin in each half: the order in which the equations
/// stand. (What was put in the place of a call or of a gradient begins one of its own.) That of the
/// backward half begins once a tangent is there.
Graph join_orders(Graph graph);

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_EFFECT_H
