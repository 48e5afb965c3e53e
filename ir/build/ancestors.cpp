#include "ir/build/ancestors.h"

#include <algorithm>

namespace tandem::ir {

void mark_ancestors(const Graph& graph, ValueMap<bool>& marked) {
  for (size_t i = graph.num_equations(); i-- > 0;) {
    const EquationId e = graph.equation_id(i);
    const auto is_marked = [&](ValueId v) { return bool{marked[v]}; };
    if (!std::ranges::any_of(graph.results(e), is_marked)) continue;
    for (ValueId v : graph.operands(e)) marked[v] = true;
  }
}

}  // namespace tandem::ir
