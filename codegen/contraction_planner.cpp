// What is decided about contractions before the partition: which algorithm, and in which layout the
// result is computed. A product that is only used transposed is computed transposed: (A B)^T =
// B^T A^T; so a weight's gradient comes out as the weight is stored, without a copy.
#include "codegen/contraction.h"
#include "codegen/lower.h"
#include "ir/rewrite.h"

namespace tandem::codegen {
namespace {

using ir::Attr;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::ValueId;

/// Whether `dims` exchanges the last two dims and nothing else.
bool is_transposition(std::span<const Dim> dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  if (rank < 2) return false;
  for (int64_t d = 0; d + 2 < rank; ++d)
    if (dims[static_cast<size_t>(d)] != d) return false;
  return dims[static_cast<size_t>(rank - 2)] == rank - 1 &&
         dims[static_cast<size_t>(rank - 1)] == rank - 2;
}

class Planner final : public ir::ContractionPlanner {
 public:
  Graph plan(const Graph& core) const override {
    const std::vector<uint32_t> uses = ir::use_counts(core);
    const auto transpose = [&](ir::Rewriter& r, EquationId e) {
      return &r.source() == &core ? transposed(r, e, uses) : ir::Replacement();
    };
    Graph out = ir::remove_dead_code(ir::rewrite(core, transpose));
    for (size_t i = 0; i < out.num_equations(); ++i) {
      const EquationId e = out.equation_id(i);
      if (!ir::has_attr(out.op(e), Attr::algorithm)) continue;
      out.set_attr(e, Attr::algorithm, std::string(algorithm_for(out.type(out.result(e)).dtype)));
    }
    return out;
  }

 private:
  /// For a transposition of a product of two operands that nothing else uses: the transposed
  /// product.
  static ir::Replacement transposed(ir::Rewriter& r, EquationId e,
                                    const std::vector<uint32_t>& uses) {
    const Graph& g = r.source();
    if (!ir::has_attr(g.op(e), Attr::dims) || !ir::is_view(g.op(e))) return {};
    const auto& dims = g.attr<std::vector<Dim>>(e, Attr::dims);
    const ValueId product = g.operand(e, 0);
    const EquationId from = g.producer(product);
    if (!from.valid() || !is_transposition(dims)) return {};
    if (!ir::has_attr(g.op(from), Attr::algorithm) || g.operands(from).size() != 2) return {};
    if (uses[product.index] != 1 || g.equation(from).is_backward != g.equation(e).is_backward)
      return {};
    const std::vector<ValueId> operands = r.operands(from);
    ir::Builder& b = r.builder();
    return {{b.emit(g.op(from), {b.permute(operands[1], dims), b.permute(operands[0], dims)},
                    {std::string()})}};
  }
};

}  // namespace

std::unique_ptr<ir::ContractionPlanner> make_contraction_planner() {
  return std::make_unique<Planner>();
}

}  // namespace tandem::codegen
