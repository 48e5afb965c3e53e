// From groups of nodes to kernels.
#ifndef TANDEM_CODEGEN_KERNELS_BUILD_KERNEL_H
#define TANDEM_CODEGEN_KERNELS_BUILD_KERNEL_H

#include <vector>

#include "codegen/draft.h"
#include "codegen/fusion/bundle.h"

namespace tandem::codegen {

/// The kernel of a fusible group, or of several that run side by side. `is_stored`: by root,
/// whether it has to be in memory afterwards. `vector_bytes`: as LowerOptions has it.
KernelDraft build_kernel(const Program& program, const Bundle& bundle,
                         const Table<RootId, bool>& is_stored, int vector_bytes);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_BUILD_KERNEL_H
