// When updates run: groups that write the new contents of inputs, as an optimizer does.
#ifndef TANDEM_CODEGEN_FUSION_UPDATES_H
#define TANDEM_CODEGEN_FUSION_UPDATES_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// The groups in an order in which each update runs as soon as what it is made of is known, the old
/// contents have been read, and nothing can fail any more (unless its result is needed before):
/// then it can be written where the old contents are. So a gradient lives no longer than until its
/// parameter's update, and is still in the caches then. All else keeps its order, but for numbers
/// made of inputs alone (how large a step is), which run when an update asks for them. `targets`:
/// by output, the input that it may be written into, or -1.
std::vector<Group> with_updates_in_place(const Program& program, std::vector<Group> groups,
                                         const std::vector<int>& targets);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_UPDATES_H
