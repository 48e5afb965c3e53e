// Nodes of what runs as a whole: library functions, branches and loops, and what the user
// registered.
#include "codegen/library/library.h"
#include "codegen/nodes/maker.h"

namespace tandem::codegen {

bool is_ready(Op op, const View& v) { return is_linear(v) || reads_lines(op, v.sizes, v.strides); }

namespace {

/// The node stands for its first result.
void lead_by_first(Maker& m, Node& n) {
  n.dest = n.results[0];
  n.domain = n.dest.sizes;
  n.dtype = m.dtype(n.dest);
}

/// The operands and results that are tensors: tokens say when a node runs, not what it reads.
Node external_node(Maker& m, EquationId e) {
  const Graph& g = m.graph();
  Node n{.kind = Node::Kind::External, .op = g.op(e)};
  n.attrs.assign(g.attrs(e).begin(), g.attrs(e).end());
  for (ValueId operand : g.operands(e)) {
    if (g.type(operand).is_token) continue;
    const View v = m.stored(m.view(operand));
    n.operands.push_back(is_ready(n.op, v) ? v : m.copied(v));
  }
  for (ValueId result : g.results(e)) {
    const ir::Type& t = g.type(result);
    if (t.is_token) continue;
    n.results.push_back(m.computed(t.dtype, t.sizes));
    m.set(result, n.results.back());
  }
  if (!n.results.empty()) lead_by_first(m, n);
  return n;
}

/// In the dtype that the function computes in.
View library_operand(Maker& m, Op op, ValueId operand) {
  const View v = m.converted(m.view(operand), library_dtype(op, m.graph().type(operand).dtype));
  return is_ready(op, v) ? m.stored(v) : m.copied(v);
}

}  // namespace

void library_nodes(Maker& m, EquationId e) {
  const Graph& g = m.graph();
  Node n{.kind = Node::Kind::External, .op = g.op(e)};
  n.attrs.assign(g.attrs(e).begin(), g.attrs(e).end());
  for (const ValueId operand : g.operands(e))
    n.operands.push_back(library_operand(m, n.op, operand));
  for (const ValueId result : g.results(e)) {
    const ir::Type& t = g.type(result);
    n.results.push_back(m.computed(library_dtype(n.op, t.dtype), t.sizes));
  }
  lead_by_first(m, n);
  const auto made = n.results;
  m.push_external(std::move(n));
  for (size_t i = 0; i < made.size(); ++i) {
    const ValueId result = g.results(e)[i];
    m.set(result, m.converted(made[i], g.type(result).dtype));
  }
}

template <>
void nodes_of<Op::convolution>(Maker& m, EquationId e) {
  library_nodes(m, e);
}
template <>
void nodes_of<Op::convolution_weight>(Maker& m, EquationId e) {
  library_nodes(m, e);
}
template <>
void nodes_of<Op::window_sum>(Maker& m, EquationId e) {
  library_nodes(m, e);
}
template <>
void nodes_of<Op::window_spread>(Maker& m, EquationId e) {
  library_nodes(m, e);
}
template <>
void nodes_of<Op::max_pool>(Maker& m, EquationId e) {
  library_nodes(m, e);
}

template <>
void nodes_of<Op::weight_int8pack_mm>(Maker& m, EquationId e) {
  library_nodes(m, e);
}
template <>
void nodes_of<Op::int_mm>(Maker& m, EquationId e) {
  library_nodes(m, e);
}

template <>
void nodes_of<Op::flash_attention>(Maker& m, EquationId e) {
  m.push_external(external_node(m, e));
}
template <>
void nodes_of<Op::flash_attention_backward>(Maker& m, EquationId e) {
  m.push_external(external_node(m, e));
}

void linalg_nodes(Maker& m, EquationId e) {
  Node n = external_node(m, e);
  n.check = m.check_text(e);
  m.push_external(std::move(n));
}

template <>
void nodes_of<Op::custom_operator>(Maker& m, EquationId e) {
  m.push_external(external_node(m, e));
}

namespace {

/// A branch or loop, with results of its own for `scratch` beside the equation's.
void control_node(Maker& m, EquationId e, std::span<const ir::Type> scratch) {
  Node n = external_node(m, e);
  for (const ir::Type& t : scratch) n.results.push_back(m.computed(t.dtype, t.sizes));
  m.push_external(std::move(n));
}

/// Where every second step of a loop leaves its carries.
std::vector<ir::Type> carry_types(const Maker& m, EquationId e) {
  std::vector<ir::Type> types;
  for (int i = 0; i < m.graph().attr<int64_t>(e, Attr::carries); ++i)
    types.push_back(m.graph().type(m.graph().result(e, i)));
  return types;
}

}  // namespace

template <>
void nodes_of<Op::cond>(Maker& m, EquationId e) {
  control_node(m, e, {});
}

template <>
void nodes_of<Op::scan>(Maker& m, EquationId e) {
  control_node(m, e, carry_types(m, e));
}

template <>
void nodes_of<Op::while_loop>(Maker& m, EquationId e) {
  std::vector<ir::Type> scratch = carry_types(m, e);
  scratch.push_back({DType::Bool, {}});  // what the condition says
  control_node(m, e, scratch);
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
