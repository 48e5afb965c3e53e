// Nodes of pointwise ops, and of what the user registered.
#include "codegen/nodes/maker.h"

namespace tandem::codegen {

void pointwise_nodes(Maker& m, EquationId e) {
  if (m.is_known(e)) return;
  const Graph& g = m.graph();
  std::vector<View> operands;
  operands.reserve(g.operands(e).size());
  for (ValueId v : g.operands(e)) operands.push_back(m.view(v));
  const ir::Type& t = m.result_type(e);
  const View dest = m.computed(t.dtype, t.sizes);
  m.push({.op = g.op(e),
          .dtype = t.dtype,
          .domain = t.sizes,
          .operands = std::move(operands),
          .dest = dest,
          .check = ir::info(g.op(e)).may_fail ? m.check_text(e) : std::string()});
  m.set(e, dest);
}

template <>
void nodes_of<Op::clone>(Maker& m, EquationId e) {
  m.set(e, m.operand(e, 0));
}
template <>
void nodes_of<Op::stop_gradient>(Maker& m, EquationId e) {
  m.set(e, m.operand(e, 0));
}

template <>
void nodes_of<Op::custom_operator>(Maker& m, EquationId e) {
  const Graph& g = m.graph();
  Node n{.kind = Node::Kind::External, .op = Op::custom_operator};
  n.name = g.attr<std::string>(e, Attr::operator_name);
  n.numbers = g.attr<std::string>(e, Attr::arguments);
  for (ValueId operand : g.operands(e)) {
    const View v = m.stored(m.view(operand));
    n.operands.push_back(is_linear(v) ? v : m.copied(v));
  }
  for (ValueId result : g.results(e)) {
    const ir::Type& t = g.type(result);
    n.results.push_back(m.computed(t.dtype, t.sizes));
    m.set(result, n.results.back());
  }
  n.dest = n.results[0];
  n.domain = n.dest.sizes;
  n.dtype = m.dtype(n.dest);
  m.push_external(std::move(n));
}

}  // namespace tandem::codegen
