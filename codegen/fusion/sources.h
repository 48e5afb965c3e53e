// What a scatter moves, computed by the scatter's own kernel.
#ifndef TANDEM_CODEGEN_FUSION_SOURCES_H
#define TANDEM_CODEGEN_FUSION_SOURCES_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// The groups, in which a scatter of whole rows has the nodes that make its sources and nothing
/// else, if they are few and short: gathered rows times weights, say. Each source is looked at
/// once, so nothing is computed twice, and the sources need not lie in memory.
std::vector<Group> with_sources_inside(const Program& program, std::vector<Group> groups);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_SOURCES_H
