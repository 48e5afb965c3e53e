// Copying one graph's equations into another, in place of an equation that names it.
#ifndef TANDEM_IR_BUILD_INLINE_H
#define TANDEM_IR_BUILD_INLINE_H

#include <span>
#include <vector>

#include "ir/graph.h"

namespace tandem::ir {

/// Appends `body` on `arguments` (one per input) to `target` and returns the target's values for
/// body's outputs. Calls in it are inlined too. `in_backward` puts all of it in the backward half.
std::vector<ValueId> inline_graph(Graph& target, const Graph& body,
                                  std::span<const ValueId> arguments, bool in_backward);

bool has_calls(const Graph& graph);

/// `graph` with every call replaced by its body.
Graph inline_calls(const Graph& graph);

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_INLINE_H
