// What is decided about contractions before the partition: which algorithm, and in which layout the
// result is computed. A contraction that is only used transposed is computed transposed: (A B)^T =
// B^T A^T; so a weight's gradient comes out as the weight is stored, without a copy.
#include <algorithm>

#include "codegen/contractions/contraction.h"
#include "codegen/contractions/transposition.h"
#include "codegen/contractions/vector_products.h"
#include "codegen/lower.h"
#include "ir/build/rewrite.h"
#include "machine/linalg/f64_product.h"

namespace tandem::codegen {
namespace {

using ir::Attr;
using ir::EquationId;
using ir::Graph;
using ir::ValueId;

/// The contraction of two operands that view `e` transposes, if nothing else uses it; else invalid.
EquationId transposed_contraction(const Graph& g, EquationId e, const std::vector<uint32_t>& uses) {
  if (!ir::has_attr(g.op(e), Attr::dims) || !ir::is_view(g.op(e))) return {};
  const ValueId value = g.operand(e, 0);
  const EquationId contraction = g.producer(value);
  if (!contraction.valid() || !is_transposition(g.attr<ir::Axes>(e, Attr::dims))) return {};
  if (!ir::has_attr(g.op(contraction), Attr::algorithm) || g.operands(contraction).size() != 2)
    return {};
  const bool same_half = g.equation(contraction).is_backward == g.equation(e).is_backward;
  return same_half && uses[value.index] == 1 ? contraction : EquationId();
}

/// B^T A^T in place of view `e` of the contraction A B.
void emit_transposed(ir::Splicer& splicer, EquationId e, EquationId contraction) {
  const Graph& g = splicer.graph();
  const ir::Axes dims = g.attr<ir::Axes>(e, Attr::dims);
  const ValueId a = g.operand(contraction, 0), b = g.operand(contraction, 1);
  const ValueId left = transposed(splicer, b, dims), right = transposed(splicer, a, dims);
  splicer.replace(e, {{splicer.builder().emit(g.op(contraction), {left, right}, {std::string()})}});
}

Graph with_transposed_contractions(Graph core) {
  const std::vector<uint32_t> uses = ir::use_counts(core);
  std::vector<EquationId> contractions;  // by equation: the one that it transposes
  for (uint32_t i = 0; i < core.num_equations(); ++i)
    contractions.push_back(transposed_contraction(core, {i}, uses));
  ir::Splicer splicer(std::move(core));
  for (uint32_t i = 0; i < contractions.size(); ++i) {
    splicer.at({i});
    if (contractions[i].valid()) emit_transposed(splicer, {i}, contractions[i]);
  }
  return splicer.take();
}

/// In f32 between converts: the same sums, rounded once.
void emit_widened(ir::Splicer& splicer, EquationId e) {
  const Graph& g = splicer.graph();
  const ir::DType dtype = g.type(g.result(e)).dtype;
  ir::ValueList wide;
  for (const ValueId v : g.operands(e)) wide.push_back(v);
  for (ValueId& v : wide) v = splicer.builder().convert(v, ir::DType::F32);
  const ValueId sum = splicer.builder().emit(g.op(e), wide, {std::string()});
  splicer.replace(e, {{splicer.builder().convert(sum, dtype)}});
}

Graph with_widened_contractions(Graph core) {
  const size_t count = core.num_equations();
  ir::Splicer splicer(std::move(core));
  for (uint32_t i = 0; i < count; ++i) {
    const Graph& g = splicer.graph();
    const EquationId e{i};
    const bool widens =
        ir::has_attr(g.op(e), Attr::algorithm) && is_widened(g.type(g.result(e)).dtype);
    splicer.at(e);
    if (widens) emit_widened(splicer, e);
  }
  return splicer.take();
}

std::string algorithm_of(const Graph& g, EquationId e) {
  const size_t count = g.operands(e).size();
  const ir::Type &a = g.type(g.operand(e, count - 2)), &result = g.type(g.result(e));
  const bool is_large = result.dtype == ir::DType::F64 &&
                        machine::is_large_f64_product(a.sizes[a.sizes.rank() - 2],
                                                      result.sizes.back(), a.sizes.back());
  if (is_large) return std::string(kBlas);
  return std::string(result.dtype == ir::DType::BF16 ? kBf16 : algorithm_for(result.dtype));
}

class Planner final : public ir::ContractionPlanner {
 public:
  Graph plan(Graph core) const override {
    for (uint32_t i = 0; i < core.subgraphs().size(); ++i)
      core.subgraph({i}) = plan(std::move(core.subgraph({i})));
    Graph out = with_vector_products(with_transposed_contractions(std::move(core)));
    out = with_widened_contractions(std::move(out));
    for (size_t i = 0; i < out.num_equations(); ++i) {
      const EquationId e = out.equation_id(i);
      if (!ir::has_attr(out.op(e), Attr::algorithm)) continue;
      out.set_attr(e, Attr::algorithm, algorithm_of(out, e));
    }
    return out;
  }
};

}  // namespace

std::unique_ptr<ir::ContractionPlanner> make_contraction_planner() {
  return std::make_unique<Planner>();
}

}  // namespace tandem::codegen
