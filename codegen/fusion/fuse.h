// The fusion planner: which nodes run in one kernel. Greedy over the topological order, by rules
// over iteration spaces; never by the names of ops.
#ifndef TANDEM_CODEGEN_FUSION_FUSE_H
#define TANDEM_CODEGEN_FUSION_FUSE_H

#include <cstdint>
#include <vector>

#include "codegen/nodes/program.h"
#include "ir/base/inline_vector.h"

namespace tandem::codegen {

/// The iteration space that the nodes of a group share: `total` elements, as rows of `cols` where
/// something in the group depends on rows. A node of total / cols elements computes one value a
/// row.
struct Domain {
  int64_t total = 1;
  int64_t cols = 0;           // 0: undetermined
  bool row_nodes = false;     // has nodes of one element a row
  bool row_reduces = false;   // has reductions of whole rows
  int64_t row_block = 0;      // of these, if their order matters: elements of a block; 0: of none
  Reduction partial{.n = 0};  // of the ColPartial or RowPartial nodes; n = 0: has none
  bool col_partial = false;   // `partial` is that of columns
  // where accesses step unevenly: suffix products, ascending
  ir::InlineVector<int64_t, 4> cuts = {};

  int64_t rows() const { return cols > 0 ? total / cols : total; }
  bool needs_whole_rows() const { return row_nodes || row_reduces; }
  friend bool operator==(const Domain&, const Domain&) = default;
};

struct Group {
  std::vector<NodeId> nodes;  // ascending
  Domain domain;
  friend bool operator==(const Group&, const Group&) = default;
};

/// Groups in an order in which they can run; every node is in one.
std::vector<Group> fuse(const Program& program);

/// By node: which of the groups has it.
Table<NodeId, size_t> groups_of_nodes(const Program& program, const std::vector<Group>& groups);

/// By root: whether some group reads what another one writes, or it is an output.
Table<RootId, bool> stored_roots(const Program& program, const std::vector<Group>& groups);

/// Whether a node of `group` needs one of `other` to have run.
bool depends(const Program& program, const Group& group, const Group& other);

/// Whether a node of the group computes one value per row.
bool is_row_node(const Node& node, const Domain& domain);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_FUSE_H
