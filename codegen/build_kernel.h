// From a group of nodes to its kernel.
#ifndef TANDEM_CODEGEN_BUILD_KERNEL_H
#define TANDEM_CODEGEN_BUILD_KERNEL_H

#include <vector>

#include "codegen/draft.h"
#include "codegen/fuse.h"

namespace tandem::codegen {

/// The kernel of a fusible group. `is_stored`: by value, whether it has to be in memory afterwards.
LaunchDraft build_kernel(const Program& program, const Group& group,
                         const std::vector<bool>& is_stored);

/// The kernel of a Scatter node: source rows in order, threads over the other dims.
LaunchDraft scatter_kernel(const Program& program, const Node& node);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_BUILD_KERNEL_H
