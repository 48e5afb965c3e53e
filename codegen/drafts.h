// From bundles to drafts of steps.
#ifndef TANDEM_CODEGEN_DRAFTS_H
#define TANDEM_CODEGEN_DRAFTS_H

#include <vector>

#include "codegen/draft.h"
#include "codegen/fusion/bundle.h"

namespace tandem::codegen {

/// The steps of the bundles, in their order; the kernels of bundles that compute the same are built
/// once. `stored`: by root, whether it has to be in memory after the step that computes it.
/// `vector_bytes`: as LowerOptions has it.
Drafts make_drafts(const Program& program, const std::vector<Bundle>& bundles,
                   const Table<RootId, bool>& stored, int vector_bytes);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_DRAFTS_H
