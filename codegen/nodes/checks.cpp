#include "codegen/nodes/checks.h"

#include "codegen/loops/scalar_ops.h"

namespace tandem::codegen {

bool Checks::can_fail(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Gather:
    case Node::Kind::Scatter: {
      const auto [known, fresh] =
          below_.try_emplace(elements(node.operands[0]), node.gather_extent);
      if (!fresh && known->second <= node.gather_extent) return false;
      known->second = node.gather_extent;
      return true;
    }
    case Node::Kind::External:
      return ir::info(node.op).effect != ir::Effect::Pure;
    case Node::Kind::Pointwise:
    case Node::Kind::Fold:
    case Node::Kind::Random:
    case Node::Kind::RowReduce:
    case Node::Kind::RowPartial:
    case Node::Kind::ColPartial:
    case Node::Kind::Matmul:
    case Node::Kind::TiledMatmul:
      return may_fail(node.op, node.dtype);
  }
  return true;
}

/// In whatever order and however often they are read.
Checks::Elements Checks::elements(const View& index) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  const Runs all = collapsed(without_repetition(index));
  for (size_t i = 0; i < all.size(); ++i) runs.emplace_back(all[i].size, all[i].stride);
  return {index.root, index.offset, std::move(runs)};
}

}  // namespace tandem::codegen
