// The joint graph: forward and backward in one, (primals, tangents) -> (outputs, gradients).
#ifndef TANDEM_AUTODIFF_JOINT_H
#define TANDEM_AUTODIFF_JOINT_H

#include "ir/graph.h"

namespace tandem::autodiff {

/// Functional -> Joint. Adds a Tangent input for every output that requires grad (Result and
/// MutatedInput), in output order, and a Gradient output for every input with requires_grad that is
/// reached (an input that no tangent reaches has none). Equations of the backward half carry
/// is_backward. The epilogue is kept. A graph without differentiable outputs or inputs comes back
/// unchanged but for its level.
ir::Graph joint(const ir::Graph& functional);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_JOINT_H
