#include "autodiff/forward/linear.h"

#include <algorithm>
#include <bit>

#include "autodiff/forward/jvp.h"

namespace tandem::autodiff {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// Operands that move together: bit i: operand i.
using Operands = uint32_t;

/// A pointwise op that is linear in some of its operands at once, with the others fixed.
struct LinearIn {
  Op op;
  Operands together;
};
constexpr LinearIn kPointwise[] = {
    {Op::neg, 1},     {Op::add, 3},     {Op::sub, 3},   {Op::mul, 1},
    {Op::mul, 2},     {Op::div, 1},     {Op::where, 6}, {Op::convert, 1},
    {Op::fma, 1 | 4}, {Op::fma, 2 | 4}, {Op::clone, 1},
};

Operands operands_where(const Graph& g, EquationId e, auto holds) {
  Operands found = 0;
  for (size_t i = 0; i < std::min<size_t>(g.operands(e).size(), 32); ++i)
    if (holds(g.operands(e)[i])) found |= Operands{1} << i;
  return found;
}

bool is_zero(const Graph& g, ValueId v) {
  const EquationId e = g.producer(v);
  return e.valid() && g.op(e) == Op::full &&
         g.attr<ir::Number>(e, ir::Attr::value).to_double() == 0;
}

/// Whether `e` is linear in what moves: of operands that it is linear in together each moves, or
/// is zero.
bool is_linear(const Graph& g, EquationId e, Operands moving) {
  const Operands zero = operands_where(g, e, [&](ValueId v) { return is_zero(g, v); });
  const auto moves = [&](Operands together) {
    return (moving & ~together) == 0 && (together & ~(moving | zero)) == 0;
  };
  for (const LinearIn& rule : kPointwise)
    if (rule.op == g.op(e) && moves(rule.together)) return true;
  const JvpRule& rule = jvp_rule(g.op(e));
  const auto all = static_cast<Operands>((uint64_t{1} << g.operands(e).size()) - 1);
  if (rule.kind == JvpRule::Kind::Linear) return moves(rule.moving & all);
  return rule.kind == JvpRule::Kind::Multilinear && std::has_single_bit(moving) &&
         (moving & rule.moving) != 0;
}

}  // namespace

bool is_linear(const Graph& body) {
  ir::ValueMap<bool> moves(body);
  moves[body.inputs()[0].value] = true;
  for (size_t i = 0; i < body.num_equations(); ++i) {
    const EquationId e = body.equation_id(i);
    if (body.operands(e).size() >= 32) return false;
    const Operands moving = operands_where(body, e, [&](ValueId v) { return moves[v]; });
    if (moving == 0) continue;
    if (!is_linear(body, e, moving)) return false;
    for (const ValueId v : body.results(e)) moves[v] = true;
  }
  const ValueId output = body.outputs()[0].value;
  return moves[output] || is_zero(body, output);
}

bool has_linear_hooks(const Graph& graph) {
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    if (graph.op(e) == Op::hook &&
        !is_linear(graph.subgraph(graph.attr<ir::SubgraphId>(e, ir::Attr::backward))))
      return false;
  }
  return std::ranges::all_of(graph.subgraphs(), has_linear_hooks);
}

}  // namespace tandem::autodiff
