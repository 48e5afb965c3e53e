// Nodes of pointwise ops, and of what the user registered.
#include "codegen/loops/scalar_ops.h"
#include "codegen/nodes/maker.h"

namespace tandem::codegen {

void pointwise_nodes(Maker& m, EquationId e) {
  if (m.is_known(e)) return;
  const Graph& g = m.graph();
  if (scalar_op(g.op(e)).code == ScalarOp::Code::Nothing) return m.set(e, m.operand(e, 0));
  std::vector<View> operands;
  operands.reserve(g.operands(e).size());
  for (ValueId v : g.operands(e)) operands.push_back(m.view(v));
  const ir::Type& t = m.result_type(e);
  const View dest = m.computed(t.dtype, t.sizes);
  m.push(
      {.op = g.op(e),
       .dtype = t.dtype,
       .domain = t.sizes,
       .operands = std::move(operands),
       .dest = dest,
       .check = ir::info(g.op(e)).effect == ir::Effect::MayFail ? m.check_text(e) : std::string()});
  m.set(e, dest);
}

namespace {

/// The operands and results that are tensors: tokens say when a node runs, not what it reads.
Node external_node(Maker& m, EquationId e) {
  const Graph& g = m.graph();
  Node n{.kind = Node::Kind::External, .op = g.op(e)};
  n.name = g.attr<std::string>(e, Attr::operator_name);
  n.numbers = g.attr<std::string>(e, Attr::arguments);
  for (ValueId operand : g.operands(e)) {
    if (g.type(operand).is_token) continue;
    const View v = m.stored(m.view(operand));
    n.operands.push_back(is_linear(v) ? v : m.copied(v));
  }
  for (ValueId result : g.results(e)) {
    const ir::Type& t = g.type(result);
    if (t.is_token) continue;
    n.results.push_back(m.computed(t.dtype, t.sizes));
    m.set(result, n.results.back());
  }
  if (!n.results.empty()) {
    n.dest = n.results[0];
    n.domain = n.dest.sizes;
    n.dtype = m.dtype(n.dest);
  }
  return n;
}

}  // namespace

template <>
void nodes_of<Op::custom_operator>(Maker& m, EquationId e) {
  m.push_external(external_node(m, e));
}

template <>
void nodes_of<Op::ordered_operator>(Maker& m, EquationId e) {
  Node n = external_node(m, e);
  n.ordered = true;
  n.after = m.giver(m.graph().operand(e, 0));
  m.set_giver(m.graph().result(e), m.push_external(std::move(n)));
}

/// (What it waits for is there before anything runs.)
template <>
void nodes_of<Op::first_token>(Maker& /*m*/, EquationId /*e*/) {}

}  // namespace tandem::codegen
