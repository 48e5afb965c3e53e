// The rows that a scatter moves: they lie in memory, or the nodes of its group before it make them,
// row by row where it needs them.
#ifndef TANDEM_CODEGEN_KERNELS_SOURCE_ROWS_H
#define TANDEM_CODEGEN_KERNELS_SOURCE_ROWS_H

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/kernels/kernel_writer.h"

namespace tandem::codegen {

/// A view over a scatter's domain, in which each row stands for so many neighbouring sources.
struct SourceView {
  View view;
  int64_t repeats = 1;
};
/// What a node that makes sources reads, as the scatter sees it; nothing if strides cannot say so.
std::optional<SourceView> source_view(const View& v, const Node& scatter);

/// Whether a view over a scatter's domain is the same for all elements of a row: of what lies
/// behind `dim`, the scattered one.
bool is_same_along_row(const View& v, int dim);

class SourceRows {
 public:
  /// `nodes`: of the group; the last is the scatter. `loops`: of the dims of its domain, as they
  /// are when a row or an element is asked for.
  SourceRows(KernelWriter& writer, const std::vector<Node>& nodes,
             const std::vector<DimLoops>& loops);

  /// What is known of a row before its elements.
  struct Row {
    InstrId number;               // of the source; none: that of the loops
    std::vector<InstrId> values;  // by node: if it is one for all elements
    std::map<std::pair<size_t, size_t>, InstrId> operands;  // by node and operand: likewise
  };
  /// Written outside the loops over a row, of whose elements one may then be asked for inside.
  Row row(InstrId number = {});
  InstrId element(Row row);

 private:
  const Node& scatter() const { return nodes_.back(); }
  const View& view(size_t node, size_t operand) const { return views_[node][operand].view; }
  bool is_same_along_row(const View& v) const {
    return codegen::is_same_along_row(v, scatter().scatter_dim);
  }
  InstrId load(const SourceView& v, const Row& row);
  Affine at(const View& v) const;
  InstrId operand(size_t node, size_t operand, const Row& row);
  InstrId compute(size_t node, const Row& row);

  KernelWriter& w_;
  const std::vector<Node>& nodes_;
  const std::vector<DimLoops>& loops_;
  std::vector<std::vector<SourceView>> views_;  // by node: its operands over the scatter's domain
  std::vector<View> tables_;                    // by node: likewise
  std::map<RootId, size_t> made_by_;
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_SOURCE_ROWS_H
