// Rough costs of one element on one core, in nanoseconds: for the sizes of units, for what is kept
// between passes, and for the partitioner.
#ifndef TANDEM_CODEGEN_COSTS_H
#define TANDEM_CODEGEN_COSTS_H

#include "codegen/program.h"

namespace tandem::codegen {

inline constexpr double kLoadCost = 0.06;     // from the nearest caches
inline constexpr double kIndirectCost = 0.5;  // at a position that comes from data
inline constexpr double kMemoryCost = 0.14;   // 4 bytes streamed from memory
inline constexpr double kUnitCost = 6000;     // what a unit of work should cost
inline constexpr double kThreadCost = 2000;   // what pays for waking a thread

/// The arithmetic of `op`.
double op_cost(ir::Op op);
double node_cost(const Node& node);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_COSTS_H
