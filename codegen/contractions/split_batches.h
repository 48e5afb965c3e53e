// Matmuls of merged batches, as attention's over the heads of one value: a matmul reads and writes
// each matrix where it lies, so that no copy has to bring the heads together.
#ifndef TANDEM_CODEGEN_CONTRACTIONS_SPLIT_BATCHES_H
#define TANDEM_CODEGEN_CONTRACTIONS_SPLIT_BATCHES_H

#include <optional>
#include <vector>

#include "codegen/nodes/view.h"
#include "ir/graph.h"

namespace tandem::codegen {

/// What view equations show of a value. `split` is there if `view`, of sizes [n, r, c], takes a
/// copy, but strides can express the same as [outer, inner, r, c].
struct Shown {
  std::optional<View> view;
  std::optional<View> split;
};

/// What view, permute or expand equation `e` shows of `from`, whose `view` is there.
Shown shown(const ir::Graph& graph, ir::EquationId e, const Shown& from);

/// Where a matmul of merged batches reads its operands: [outer, inner, rows, columns].
struct SplitLayout {
  View a, b;
};
/// The layout of a matmul A [n, m, k] B [n, k, n'] whose operands are laid out like this, if some
/// matrix is a part of wider rows and the matmul's bits can be independent of strides. So what
/// decides is what these arguments say, not where the operands really lie.
std::optional<SplitLayout> split_layout(const Shown& a, const Shown& b);
/// Whether a matmul laid out as `planned` may read an operand from `v`: a matrix of the library,
/// with the same one of rows and columns contiguous.
bool fits_layout(const View& v, const View& planned);

/// The equations by which a matmul's result gets to where it is first needed in memory.
struct ResultPath {
  std::vector<ir::EquationId> views;  // views and permutes, in order
  ir::EquationId zero_add;            // adds +0 to what the last view shows, if valid
  ir::EquationId cat;                 // has that as a part, if valid
  ir::ValueId end;                    // what the last view shows
};

/// Finds the only reader of a value.
class ResultPaths {
 public:
  explicit ResultPaths(const ir::Graph& graph);
  /// The way of `result` through values with one reader each, if it leads to a copy: to a view that
  /// strides cannot express, or into a concatenation.
  std::optional<ResultPath> of(ir::ValueId result) const;
  /// The equation that alone reads `v`, and once; none if there is no such.
  ir::EquationId only_reader(ir::ValueId v) const;

 private:
  bool adds_zero(ir::EquationId e, ir::ValueId to) const;

  const ir::Graph& graph_;
  std::vector<uint32_t> counts_;         // by value: uses
  std::vector<ir::EquationId> readers_;  // by value: the last
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_CONTRACTIONS_SPLIT_BATCHES_H
