// The order in which one sweep over a row computes its nodes.
#ifndef TANDEM_CODEGEN_KERNELS_SWEEP_ORDER_H
#define TANDEM_CODEGEN_KERNELS_SWEEP_ORDER_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// `compute` (positions in group.nodes, ascending) with every pointwise node moved up to where it
/// ends the life of an operand, so that no more values live at once than before. A backward half
/// that recomputes a long chain first and consumes it afterwards has nothing to do while it waits
/// for each link; in this order the consumers fill the gaps.
std::vector<int> consumers_early(const Program& program, const Group& group,
                                 const std::vector<int>& compute);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_SWEEP_ORDER_H
