#include "codegen/fusion/sources.h"

#include <algorithm>
#include <cstdlib>

#include "codegen/kernels/scatter.h"
#include "codegen/kernels/source_rows.h"
#include "codegen/loops/scalar_ops.h"

namespace tandem::codegen {
namespace {

constexpr size_t kMostNodes = 8;  // each is written once for every number of sources of a row

/// In the groups of a program: what makes the sources of scatters and nothing else.
class SourceFinder {
 public:
  SourceFinder(const Program& p, const std::vector<Group>& groups)
      : p_(p), group_of_(groups_of_nodes(p, groups)), readers_(p.roots.size()) {
    for (NodeId n : p.nodes.ids()) {
      for (const View& v : p.nodes[n].operands) readers_[v.root].push_back(n);
      if (p.nodes[n].table.root.valid()) readers_[p.nodes[n].table.root].push_back(n);
    }
  }

  /// The nodes that may run inside the scatter's kernel, ascending: none if they do not fit there.
  std::vector<NodeId> find(const Group& group) const {
    const NodeId id = group.nodes.back();
    const Node& scatter = p_.nodes[id];
    if (scatter.kind != Node::Kind::Scatter || !moves_rows(scatter)) return {};
    std::vector<NodeId> nodes;
    const bool fits = is_linear(scatter.operands[1]) &&
                      collect(scatter.operands[1].root, scatter, nodes) && is_closed(nodes, id);
    if (!fits) return {};
    std::ranges::sort(nodes);
    return nodes;
  }

 private:
  static bool moves_rows(const Node& scatter) {
    return scatters_rows(scatter.operands[0], scatter.scatter_dim, scatter.domain);
  }

  static bool is_short(const Node& n) {
    if (n.kind == Node::Kind::Gather) return !n.only_checks;
    return n.kind == Node::Kind::Pointwise && !scalar_op(n.op).is_long();
  }

  /// Adds what makes `root`, and what of its group makes that.
  bool collect(RootId root, const Node& scatter, std::vector<NodeId>& nodes) const {
    const Root& made = p_.roots[root];
    if (made.writers.size() != 1 || made.output >= 0 || made.numel != scatter.total()) return false;
    const NodeId id = made.writers[0];
    if (std::ranges::find(nodes, id) != nodes.end()) return true;
    nodes.push_back(id);
    const Node& n = p_.nodes[id];
    return nodes.size() <= kMostNodes && is_short(n) && n.whole && is_linear(n.dest) &&
           n.late == scatter.late && reads_what_is_complete(id) && steps_with(n, scatter) &&
           std::ranges::all_of(n.operands, [&](const View& v) {
             return !is_made_in(group_of_[id], v.root) || collect(v.root, scatter, nodes);
           });
  }

  bool is_made_in(size_t group, RootId r) const {
    return std::ranges::any_of(p_.roots[r].writers,
                               [&](NodeId w) { return group_of_[w] == group; });
  }

  bool reads_what_is_complete(NodeId id) const {
    const Node& n = p_.nodes[id];
    const auto is_complete = [&](const View& v) {
      const auto& writers = p_.roots[v.root].writers;
      return writers.empty() || writers.back() < id;
    };
    return std::ranges::all_of(n.operands, is_complete) &&
           (!n.table.root.valid() || is_complete(n.table));
  }

  /// Whether nobody else reads what the nodes make, and the scatter nothing but its sources.
  bool is_closed(const std::vector<NodeId>& nodes, NodeId scatter) const {
    const RootId sources = p_.nodes[scatter].operands[1].root;
    return std::ranges::all_of(nodes, [&](NodeId n) {
      const RootId made = p_.nodes[n].dest.root;
      const auto& readers = readers_[made];
      if (made == sources) return readers.size() == 1;
      return std::ranges::all_of(
          readers, [&](NodeId r) { return std::ranges::find(nodes, r) != nodes.end(); });
    });
  }

  /// Whether the scatter's loops can read what the node reads: where they are, or of a source whose
  /// number comes from data; and along its rows (what lies across is a matter of tiles).
  bool steps_with(const Node& n, const Node& scatter) const {
    const int dim = scatter.scatter_dim;
    const auto along_rows = [](const View& v) {
      return std::abs(int64_t{v.strides[v.strides.rank() - 1]}) <= 1;
    };
    if (n.total() != scatter.total()) return false;
    if (n.table.root.valid()) {
      const auto table = reshaped(n.table, scatter.domain);
      if (!table || table->strides[dim] != 0 || !along_rows(*table)) return false;
    }
    return std::ranges::all_of(n.operands, [&](const View& v) {
      const auto source = source_view(v, scatter);
      return source && along_rows(source->view) &&
             (p_.roots[v.root].kind != Root::Kind::Iota || source->view.strides[dim] == 0);
    });
  }

  const Program& p_;
  Table<NodeId, size_t> group_of_;
  Table<RootId, ir::InlineVector<NodeId, 4>> readers_;
};

}  // namespace

std::vector<Group> with_sources_inside(const Program& program, std::vector<Group> groups) {
  if (std::ranges::none_of(program.nodes,
                           [](const Node& n) { return n.kind == Node::Kind::Scatter; }))
    return groups;
  const SourceFinder finder(program, groups);
  Table<NodeId, bool> moved(program.nodes.size());
  std::vector<std::vector<NodeId>> inside;
  for (const Group& g : groups)
    for (NodeId n : inside.emplace_back(finder.find(g))) moved[n] = true;
  std::vector<Group> out;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<NodeId>& nodes = groups[g].nodes;
    std::erase_if(nodes, [&](NodeId n) { return moved[n]; });
    if (nodes.empty()) continue;
    nodes.insert(nodes.begin(), inside[g].begin(), inside[g].end());
    out.push_back(std::move(groups[g]));
  }
  return out;
}

}  // namespace tandem::codegen
