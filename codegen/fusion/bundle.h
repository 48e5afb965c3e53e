// Bundles: groups that cannot share an iteration space, but run row by row in one kernel, as they
// write regions of the same rows of one value (the parts of a concatenation). So its memory is
// written in order, and once.
#ifndef TANDEM_CODEGEN_FUSION_BUNDLE_H
#define TANDEM_CODEGEN_FUSION_BUNDLE_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// Groups of one kernel; more than one only if all have one row dim of the same size and one column
/// dim, no tiles, no reductions, and none reads what another one writes.
using Bundle = std::vector<Group>;

/// The groups in the same order, neighbours together where that is worth it.
std::vector<Bundle> bundle(const Program& program, std::vector<Group> groups);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_BUNDLE_H
