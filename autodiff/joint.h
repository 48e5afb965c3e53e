// The joint graph: forward and backward in one, (primals, tangents) -> (outputs, gradients).
#ifndef TANDEM_AUTODIFF_JOINT_H
#define TANDEM_AUTODIFF_JOINT_H

#include <vector>

#include "ir/graph.h"

namespace tandem::autodiff {

/// Functional -> Joint. Adds a Tangent input for every output that requires grad (Result and
/// MutatedInput), in output order, and a Gradient output for every input with requires_grad that is
/// reached (an input that no tangent reaches has none). Equations of the backward half carry
/// is_backward. The epilogue is kept; calls are inlined. A graph without differentiable outputs or
/// inputs comes back unchanged but for its level.
///
/// Ops with subgraphs of their own gradient:
/// - custom_function {forward, backward}: one result per output of `forward`, which are the results
///   (role Result) followed by what backward reads (role Saved; a gradient flows
///   through those only that are operands or results).
///   `backward` maps (every Saved value in that order, a Tangent per result; a missing one is
///   zeros) to Gradients, each with the number of its operand as target; an operand without one has
///   zero.
/// - hook {backward}: `backward` maps the gradient (its one input) to the gradient (its one
/// output). Both stand in the joint graph as they were, so that it can be differentiated again.
/// - cond and scan: as custom_functions whose halves control/gradient.h makes; the forward half
///   stands in the joint graph as itself, so that this can be differentiated again.
/// - an op that is not differentiable: its operands' gradients are `refuse`
/// (ir/interfaces/custom_operator.h).
ir::Graph joint(const ir::Graph& functional);

/// By result of a cond or scan: whether a gradient that arrives there can reach an operand that
/// needs one.
std::vector<bool> active_results(const ir::Graph& graph, ir::EquationId e,
                                 const std::vector<bool>& needs);

/// By input of a Functional graph: whether a gradient arrives there (be it zeros) if one arrives at
/// the outputs `arrives`.
std::vector<bool> reached_inputs(const ir::Graph& functional, const std::vector<bool>& arrives);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_JOINT_H
