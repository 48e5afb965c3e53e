// The passes that `tandem opt` runs, by name.
#ifndef TANDEM_TOOLS_PASSES_H
#define TANDEM_TOOLS_PASSES_H

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tandem::tools {

struct Passed {
  std::vector<ir::Graph> graphs;  // one, or after a partition the forward and the backward one
  std::string text;               // where the last pass prints: of each graph
};

/// Runs `passes` one after the other: stages of the pipeline ("joint", ...), each verified; a
/// partition ("partition=default"), then perhaps "forward" or "backward", which keeps that half;
/// last perhaps one that prints ("plan": what graphs of primitives are lowered to; "code": what
/// their machine code comes to). Error{Argument} for an unknown pass, or one that does not take
/// graphs of this level.
Passed run_passes(ir::Graph graph, const std::vector<std::string>& passes);

/// "functionalize, joint, ..., partition=NAME, forward, backward, plan, code".
std::string pass_names();

}  // namespace tandem::tools

#endif  // TANDEM_TOOLS_PASSES_H
