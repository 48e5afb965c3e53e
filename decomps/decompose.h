// Decomposition: composites become primitives, and what must be fixed before the partition is
// fixed.
#ifndef TANDEM_DECOMPS_DECOMPOSE_H
#define TANDEM_DECOMPS_DECOMPOSE_H

#include "ir/graph.h"

namespace tandem::decomps {

/// Joint or Functional -> Core: every composite is replaced by its decomposition until only
/// primitives stand, and calls are inlined.
ir::Graph decompose(const ir::Graph& graph);

/// Sets the summation order [lanes, block] of every reduction from its sizes alone.
ir::Graph set_reduction_orders(const ir::Graph& core);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_DECOMPOSE_H
