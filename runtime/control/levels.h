// Branches and loops inside vmap and forward mode: equations whose bodies are those of all
// examples, or of values and tangents.
#ifndef TANDEM_RUNTIME_CONTROL_LEVELS_H
#define TANDEM_RUNTIME_CONTROL_LEVELS_H

#include <tandem/control_flow.h>

#include "ir/graph.h"

namespace tandem::control {

/// Whether `condition`, one number for an example, is true for any at any level.
Tensor any_example(const Tensor& condition);
/// Says once that `what` is computed for all examples because its predicate differs between them.
void warn_of_select(const char* what);

/// A cond whose predicate differs between examples: both branches, and by example the results of
/// one.
Tensors select_branches(const ir::Graph& graph, ir::EquationId e, const Tensors& operands);

/// An equation on operands of which some are batched at level `depth`, and none further inside: one
/// of the levels around it. A loop goes on until all examples are done; carries of those that are
/// stay.
Tensors dispatch_examples(const ir::Graph& graph, ir::EquationId e, const Tensors& operands,
                          size_t depth);

/// The same for all equations of a Functional graph.
Tensors dispatch_graph_of_all(const ir::Graph& graph, const Tensors& operands, size_t depth);

/// `graph`, a Functional one, on operands that carry tangents at level `depth`: values of its
/// results and their tangents there (undefined: zero), in operations of the levels around it.
struct Moved {
  Tensors values, tangents;
};
Moved dispatch_moving(const ir::Graph& graph, const Tensors& operands, size_t depth);

}  // namespace tandem::control

#endif  // TANDEM_RUNTIME_CONTROL_LEVELS_H
