// Scattered additions to zeros that are then added to something else (the gradient of a table that
// is looked up and also used in whole: tied embeddings) go straight into it: no zeros, no sum. One
// to each line (the gradient of what was picked, a class's logit say) are selected where they are
// used.
#include <algorithm>
#include <array>

#include "decomps/candidate.h"
#include "decomps/fold.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

bool is_scattered_addition(const ir::Equation& e) {
  return e.op == Op::index_add || e.op == Op::scatter_add;
}

/// The equation of `v`, or of what `v` is a view of, if it adds to zeros and nothing else reads it;
/// of those that were there before, which `uses` counts.
EquationId addition_to_zeros(const Graph& g, ValueId v, const std::vector<uint32_t>& uses) {
  const EquationId e = g.producer(v);
  if (!e.valid() || v.index >= uses.size() || uses[v.index] != 1) return {};
  if (g.op(e) == Op::view) return addition_to_zeros(g, g.operand(e, 0), uses);
  const bool adds_to_zeros =
      is_scattered_addition(g.equation(e)) && is_constant(g, g.operand(e, 0), 0.0);
  return adds_to_zeros ? e : EquationId{};
}

/// `v` in other sizes: what it is a view of, if that has them.
ValueId seen_as(ir::Splicer& splicer, ValueId v, const ir::Shape& sizes) {
  const Graph& g = splicer.graph();
  const EquationId e = g.producer(v);
  if (e.valid() && g.op(e) == Op::view && g.type(g.operand(e, 0)).sizes == sizes)
    return g.operand(e, 0);
  return splicer.builder().view(v, sizes);
}

// x + view(index_add(0, i, s)) = view(index_add(view x, i, s))
void scatter_into(ir::Splicer& splicer, EquationId sum, const std::vector<uint32_t>& uses) {
  const Graph& g = splicer.graph();
  if (g.op(sum) != Op::add) return;
  for (const int side : {1, 0}) {
    const EquationId e = addition_to_zeros(g, g.operand(sum, side), uses);
    if (!e.valid()) continue;
    ir::Builder& b = splicer.builder();
    const ir::Shape sizes = g.type(g.result(sum)).sizes, added = g.type(g.result(e)).sizes;
    const ValueId index = g.operand(e, 1), source = g.operand(e, 2);
    const Op op = g.op(e);
    const std::vector<ir::AttrValue> attrs(g.attrs(e).begin(), g.attrs(e).end());
    const std::array operands = {seen_as(splicer, g.operand(sum, 1 - side), added), index, source};
    return splicer.replace(sum, {{b.view(b.emit(op, operands, attrs), sizes)}});
  }
}

// scatter_add(0, dim, i, s) = where(i = position along dim, s + 0, 0), where i picks one of each
// line
void select_scattered(ir::Splicer& splicer, EquationId e) {
  const Graph& g = splicer.graph();
  if (!scatters_one_to_each_line(g, e)) return;
  const ir::Type type = g.type(g.result(e));
  const auto dim = static_cast<int>(g.attr<int64_t>(e, ir::Attr::dim));
  const ValueId index = g.operand(e, 1), source = g.operand(e, 2);
  const ir::Shape lines = g.type(index).sizes;
  ir::Builder& b = splicer.builder();
  ir::Shape along{type.sizes[dim]};
  while (along.rank() < type.sizes.rank() - dim) along.push_back(1);
  const ValueId places = b.view(b.iota(type.sizes[dim], g.type(index).dtype), along),
                is_picked = b.eq(b.expand(index, type.sizes), b.expand(places, type.sizes)),
                positive = b.add(source, b.full(lines, type.dtype, 0.0));
  splicer.replace(e, {{b.where(is_picked, b.expand(positive, type.sizes), 0.0)}});
}

}  // namespace

Graph scatter_into_sums(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = scatter_into_sums(std::move(graph.subgraph({i})));
  if (std::ranges::none_of(graph.equations(), is_scattered_addition)) return graph;
  const std::vector<uint32_t> uses = use_counts(graph);
  ir::Splicer splicer(std::move(graph));
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    splicer.at({i});
    select_scattered(splicer, {i});
    scatter_into(splicer, {i}, uses);
  }
  return splicer.take();
}

}  // namespace tandem::decomps
