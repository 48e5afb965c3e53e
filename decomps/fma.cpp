// Forms fused multiply-adds. It changes rounding, so it runs once, before the partition: both
// halves and every recomputed copy then have the same equations.
#include "decomps/simplify.h"
#include "ir/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// The equation of `v` if it is a product that nothing else reads.
EquationId product_of(const Graph& graph, ValueId v, const std::vector<uint32_t>& uses) {
  const EquationId e = graph.producer(v);
  return e.valid() && graph.op(e) == Op::mul && uses[v.index] == 1 ? e : EquationId{};
}

bool has_fma(ir::DType dtype) { return dtype == ir::DType::F32 || dtype == ir::DType::F64; }

// a b + c = fma(a, b, c);  a b - c = fma(a, b, -c);  c - a b = fma(-a, b, c)
ir::Replacement fuse(ir::Rewriter& r, EquationId e, const std::vector<uint32_t>& uses) {
  const Graph& graph = r.source();
  const Op op = graph.op(e);
  if ((op != Op::add && op != Op::sub) || !has_fma(graph.type(graph.result(e)).dtype))
    return std::nullopt;
  for (int side : {0, 1}) {
    const EquationId product = product_of(graph, graph.operand(e, side), uses);
    if (!product.valid()) continue;
    ValueId a = r[graph.operand(product, 0)], c = r[graph.operand(e, 1 - side)];
    if (op == Op::sub) (side == 0 ? c : a) = r.builder().neg(side == 0 ? c : a);
    return std::vector{r.builder().fma(a, r[graph.operand(product, 1)], c)};
  }
  return std::nullopt;
}

}  // namespace

Graph form_fma(const Graph& graph) {
  ir::Rewriter rewriter(graph);
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    rewriter.set_subgraph({i}, form_fma(graph.subgraph({i})));
  const std::vector<uint32_t> uses = use_counts(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    rewriter.at(e);
    if (const ir::Replacement values = fuse(rewriter, e, uses))
      rewriter.replace(e, *values);
    else
      rewriter.copy(e);
  }
  rewriter.copy_outputs();
  return ir::remove_dead_code(rewriter.take());
}

}  // namespace tandem::decomps
