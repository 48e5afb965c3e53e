// What values are computed from.
#ifndef TANDEM_IR_BUILD_ANCESTORS_H
#define TANDEM_IR_BUILD_ANCESTORS_H

#include "ir/graph.h"

namespace tandem::ir {

/// Marks everything that marked values are computed from.
TANDEM_API void mark_ancestors(const Graph& graph, ValueMap<bool>& marked);

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_ANCESTORS_H
