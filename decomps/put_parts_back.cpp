// The gradient of what is changed in place. Where a part of y is read and what is computed of it
// written back, y's gradient is that behind the write, the part of it set to zero, and added to
// this, padded with zeros, the gradient of what was read: two sweeps over the whole for each write.
// It is one write into that part, as in ATen's gradient of a write through a view.
#include <algorithm>

#include "decomps/candidate.h"
#include "decomps/simplify.h"
#include "decomps/terms.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// The write that makes `v`, if it is one into a part.
EquationId write_of(const Graph& g, ValueId v) {
  const EquationId e = g.producer(v);
  const bool writes =
      e.valid() && (g.op(e) == Op::slice_scatter || g.op(e) == Op::diagonal_scatter);
  return writes ? e : EquationId();
}

/// What `v` has in the part that `write` writes, if it is zero elsewhere.
ValueId inside(const Graph& g, EquationId write, ValueId v) {
  const EquationId e = g.producer(v);
  if (!e.valid()) return {};
  if (g.op(e) == g.op(write))
    return std::ranges::equal(g.attrs(e), g.attrs(write)) && is_constant(g, g.operand(e, 0), 0.0)
               ? g.operand(e, 1)
               : ValueId();
  if (!pads_with_zeros(g, v) || g.op(write) != Op::slice_scatter ||
      g.attr<Dim>(write, Attr::step) != 1)
    return {};
  ir::Dims around(2 * static_cast<size_t>(g.type(v).rank()));
  const auto dim = static_cast<size_t>(g.attr<int64_t>(write, Attr::dim));
  around[2 * dim] = g.attr<Dim>(write, Attr::start);
  around[2 * dim + 1] = g.type(v).sizes[static_cast<int>(dim)] - g.attr<Dim>(write, Attr::end);
  return g.attr<ir::Dims>(e, Attr::padding) == around ? g.operand(e, 0) : ValueId();
}

/// The term of sum `v` whose part is set to zero, and what the other has there, alone.
struct Update {
  EquationId write;
  ValueId value;
};

std::optional<Update> update_of(const Graph& g, ValueId v) {
  const Terms terms = terms_of(g, v);
  for (size_t i = 0; i < terms.size(); ++i) {
    const EquationId write = write_of(g, terms[i].value);
    if (!write.valid() || !is_constant(g, g.operand(write, 1), 0.0)) continue;
    const ValueId value = inside(g, write, terms[1 - i].value);
    if (value.valid()) return Update{write, value};
  }
  return std::nullopt;
}

/// Whether the part that `write` writes has `value` there already.
bool has_already(const Graph& g, EquationId write, ValueId value) {
  const EquationId shown = g.producer(value);
  const Op shows = g.op(write) == Op::slice_scatter ? Op::slice : Op::diagonal;
  return shown.valid() && g.op(shown) == shows && g.operand(shown, 0) == g.operand(write, 0) &&
         std::ranges::equal(g.attrs(shown), g.attrs(write));
}

ValueId updated(ir::Splicer& splicer, const Update& update) {
  const Graph& g = splicer.graph();
  const ValueId whole = g.operand(update.write, 0);
  if (has_already(g, update.write, update.value)) return whole;
  const std::vector<ir::AttrValue> attrs(g.attrs(update.write).begin(),
                                         g.attrs(update.write).end());
  return splicer.builder().emit(g.op(update.write), {whole, update.value}, attrs);
}

}  // namespace

Graph put_parts_back(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = put_parts_back(std::move(graph.subgraph({i})));
  const auto writes = [](const ir::Equation& e) {
    return e.op == Op::slice_scatter || e.op == Op::diagonal_scatter;
  };
  if (std::ranges::none_of(graph.equations(), writes)) return graph;
  ir::Splicer splicer(std::move(graph));
  const Graph& g = splicer.graph();
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    const EquationId e{i};
    splicer.at(e);
    if (g.op(e) != Op::add && g.op(e) != Op::convert) continue;
    if (const auto update = update_of(g, g.result(e)))
      splicer.replace(e, {{updated(splicer, *update)}});
  }
  return splicer.take();
}

}  // namespace tandem::decomps
