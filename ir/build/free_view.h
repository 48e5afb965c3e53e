// Views that are saved as what they show. Lowering lays out the operands of contractions as the
// partition would have saved them, so that bits do not depend on what was saved: both ask here.
#ifndef TANDEM_IR_BUILD_FREE_VIEW_H
#define TANDEM_IR_BUILD_FREE_VIEW_H

#include "ir/graph.h"

namespace tandem::ir {

/// Whether primitive `e` is a view that is no smaller than what it shows: saving it is saving that.
inline bool is_free_view(const Graph& graph, EquationId e) {
  const auto count = [&](ValueId v) { return numel(graph.type(v).sizes); };
  return is_view(graph.op(e)) && count(graph.result(e)) >= count(graph.operand(e, 0));
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_FREE_VIEW_H
