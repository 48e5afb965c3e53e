// The passes that `tandem opt` runs, by name.
#ifndef TANDEM_TOOLS_PASSES_H
#define TANDEM_TOOLS_PASSES_H

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tandem::tools {

/// Runs `passes` (spelled "joint", "partition=default", ...) one after the other, each verified.
/// One graph comes back, or after partition, which must be the last, the forward and the backward
/// one. Error{Argument} for an unknown pass, or one that does not take graphs of this level.
std::vector<ir::Graph> run_passes(ir::Graph graph, const std::vector<std::string>& passes);

/// "functionalize, joint, ..., partition=NAME".
std::string pass_names();

}  // namespace tandem::tools

#endif  // TANDEM_TOOLS_PASSES_H
