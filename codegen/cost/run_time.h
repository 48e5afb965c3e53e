// Estimated time of a graph by the kernels that it is lowered to: what they compute, and what they
// read and write, from the cache level it lies in by then.
#ifndef TANDEM_CODEGEN_COST_RUN_TIME_H
#define TANDEM_CODEGEN_COST_RUN_TIME_H

#include "codegen/cost/costs.h"
#include "ir/graph.h"

namespace tandem::codegen {

/// Seconds of one core to bring `bytes` from where they lie when `reach` bytes are touched between
/// two uses.
double transfer_seconds(const CostTable& costs, double bytes, double reach);

/// Seconds of one core. Nothing is compiled, and no kernel is made.
double run_seconds(const CostTable& costs, const ir::Graph& graph);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_COST_RUN_TIME_H
