#include "codegen/contractions/transposition.h"

#include <utility>

namespace tandem::codegen {

bool is_transposition(std::span<const ir::Axis> dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  if (rank < 2) return false;
  for (int64_t d = 0; d + 2 < rank; ++d)
    if (dims[static_cast<size_t>(d)] != d) return false;
  return dims[static_cast<size_t>(rank - 2)] == rank - 1 &&
         dims[static_cast<size_t>(rank - 1)] == rank - 2;
}

ir::ValueId transposed(ir::Splicer& splicer, ir::ValueId v, const ir::Axes& dims) {
  const ir::Graph& g = splicer.graph();
  const ir::EquationId e = g.producer(v);
  const bool again =
      e.valid() && g.op(e) == ir::Op::permute && g.attr<ir::Axes>(e, ir::Attr::dims) == dims;
  return again ? g.operand(e, 0) : splicer.builder().permute(v, dims);
}

ir::ValueId transposed(ir::Splicer& splicer, ir::ValueId v) {
  ir::Axes dims;
  for (int d = 0; d < splicer.builder().sizes(v).rank(); ++d) dims.push_back(d);
  std::swap(dims[dims.size() - 2], dims.back());
  return transposed(splicer, v, dims);
}

}  // namespace tandem::codegen
