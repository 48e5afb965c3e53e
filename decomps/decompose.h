// Decomposition: composites become primitives, and what must be fixed before the partition is
// fixed.
#ifndef TANDEM_DECOMPS_DECOMPOSE_H
#define TANDEM_DECOMPS_DECOMPOSE_H

#include "ir/graph.h"

namespace tandem::decomps {

/// Joint or Functional -> Core: every composite is replaced by its decomposition until only
/// primitives stand; bodies take the places of equations whose rows say so, the others' are
/// decomposed where they are; arithmetic in bf16 and f16 becomes f32 between converts; a reduction
/// over dims that are no neighbours becomes a chain; a power with a small constant exponent becomes
/// products.
ir::Graph decompose(const ir::Graph& graph);

/// The same with an answer of its own to whose bodies are inlined.
using IsInlined = bool (*)(ir::Op op);
ir::Graph decompose_inlining(const ir::Graph& graph, IsInlined is_inlined);

/// Whether bf16 and f16 operands of `op` are computed with in f32: of pointwise ops and reductions
/// those that neither move elements only nor work on their bits.
bool computes_halves_in_f32(ir::Op op);

/// Sets the summation order [lanes, block] of every reduction from its sizes alone.
ir::Graph set_reduction_orders(ir::Graph core);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_DECOMPOSE_H
