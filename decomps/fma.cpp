// Forms fused multiply-adds, before the partition: both halves and every recomputed copy then have
// the same equations.
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// The equation of `v` if it is a product that nothing else reads. No product is new, so that
/// `uses` has those of every one.
EquationId product_of(const Graph& graph, ValueId v, const std::vector<uint32_t>& uses) {
  const EquationId e = graph.producer(v);
  return e.valid() && graph.op(e) == Op::mul && uses[v.index] == 1 ? e : EquationId{};
}

bool has_fma(ir::DType dtype) { return dtype == ir::DType::F32 || dtype == ir::DType::F64; }

// a b + c = fma(a, b, c);  a b - c = fma(a, b, -c);  c - a b = fma(-a, b, c)
ValueId fused(ir::Splicer& splicer, EquationId e, EquationId product, int side) {
  const Graph& graph = splicer.graph();
  ir::Builder& b = splicer.builder();
  const ValueId factor = graph.operand(product, 1);
  ValueId a = graph.operand(product, 0), c = graph.operand(e, 1 - side);
  if (graph.op(e) == Op::sub) (side == 0 ? c : a) = b.neg(side == 0 ? c : a);
  return b.fma(a, factor, c);
}

void fuse(ir::Splicer& splicer, EquationId e, const std::vector<uint32_t>& uses) {
  const Graph& graph = splicer.graph();
  const Op op = graph.op(e);
  if ((op != Op::add && op != Op::sub) || !has_fma(graph.type(graph.result(e)).dtype)) return;
  for (int side : {0, 1}) {
    const EquationId product = product_of(graph, graph.operand(e, side), uses);
    if (product.valid()) return splicer.replace(e, {{fused(splicer, e, product, side)}});
  }
}

}  // namespace

Graph form_fma(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = form_fma(std::move(graph.subgraph({i})));
  const std::vector<uint32_t> uses = use_counts(graph);
  ir::Splicer splicer(std::move(graph));
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    splicer.at({i});
    fuse(splicer, {i}, uses);
  }
  return splicer.take();
}

}  // namespace tandem::decomps
