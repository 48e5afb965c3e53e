// What the bodies of branches and loops must be to their equation. Internal to the verifier.
#ifndef TANDEM_IR_VERIFY_CHECK_BODIES_H
#define TANDEM_IR_VERIFY_CHECK_BODIES_H

#include "ir/graph.h"

namespace tandem::ir {

/// Whether `op` is one of those whose bodies check_bodies knows: cond, while_loop, scan.
bool is_control_flow(Op op);

/// Throws Error unless the bodies of a cond, while_loop or scan take what its operands are and give
/// what its results are. Its subgraphs exist.
void check_bodies(const Graph& graph, EquationId e);

}  // namespace tandem::ir

#endif  // TANDEM_IR_VERIFY_CHECK_BODIES_H
