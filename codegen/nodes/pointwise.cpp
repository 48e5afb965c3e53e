// Nodes of pointwise ops.
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

}  // namespace tandem::codegen
