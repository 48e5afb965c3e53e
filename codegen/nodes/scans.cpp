// Nodes of scans, sorts and searches: calls of the library.
#include "codegen/nodes/maker.h"

namespace tandem::codegen {

void scan_nodes(Maker& m, EquationId e) {
  const Graph& g = m.graph();
  const ir::Type& t = m.result_type(e);
  const View dest = m.fresh(e);
  m.set(e, dest);
  if (dest.numel() == 0) return;
  Node n{.kind = Node::Kind::External, .op = g.op(e), .dtype = t.dtype, .domain = t.sizes};
  n.attrs.assign(g.attrs(e).begin(), g.attrs(e).end());
  for (ValueId operand : g.operands(e)) {
    const View v = m.stored(m.view(operand));
    n.operands.push_back(is_ready(n.op, v) ? v : m.copied(v));
  }
  n.dest = dest;
  n.results = {dest};
  m.push_external(std::move(n));
}

}  // namespace tandem::codegen
