#include "codegen/fusion/rematerialize.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "codegen/fusion/domain.h"
#include "codegen/loops/scalar_ops.h"

namespace tandem::codegen {
namespace {

constexpr int64_t kSmallest = 16384;  // elements: less stays in the nearest cache
constexpr size_t kMostNodes = 8;      // that one value takes
constexpr int kMostRounds = 3;

using Roots = std::unordered_set<RootId>;
using GroupId = size_t;

/// A node that may run once more: of few instructions, the only one to write its value.
bool is_cheap(const Program& p, const Node& n) {
  const Root& made = p.roots[n.dest.root];
  return n.kind == Node::Kind::Pointwise && n.whole && !n.after.valid() && !n.only_checks &&
         !scalar_op(n.op).is_long() && made.writers.size() == 1 && made.numel == n.total() &&
         is_linear(n.dest);
}

/// Says of which values no memory is to be made.
class Choice {
 public:
  Choice(const Program& p, const std::vector<Group>& groups, const Roots& refused)
      : p_(p),
        group_of_(groups_of_nodes(p, groups)),
        stored_(stored_roots(p, groups)),
        readers_(p.roots.size()),
        reads_(groups.size()) {
    for (NodeId n : p.nodes.ids()) note_reads(n);
    for (NodeId n : p.nodes.ids())
      if (!refused.contains(p.nodes[n].dest.root)) consider(n);
  }

  bool empty() const { return chosen_.empty(); }
  GroupId group_of(NodeId n) const { return group_of_[n]; }

  /// Whether group `g` computes the value again, to read it.
  bool is_again(GroupId g, RootId r) const {
    return chosen_.contains(r) && group_of_[p_.roots[r].writers[0]] != g;
  }
  /// The same of what is read by what is computed again: also values that only one group knew.
  bool is_again_inside(const Node& n, RootId r) const {
    return is_large(r, n) && !lies_in_memory(r);
  }

  /// By node: whether it still has readers, or another reason to be.
  Table<NodeId, bool> needed() const {
    Table<NodeId, bool> needed(p_.nodes.size());
    for (uint32_t i = static_cast<uint32_t>(p_.nodes.size()); i-- > 0;) {
      const NodeId n{i};
      const RootId r = p_.nodes[n].dest.root;
      needed[n] = !is_cheap(p_, p_.nodes[n]) || p_.roots[r].output >= 0 || leaves_.contains(r) ||
                  readers_[r].empty() || std::ranges::any_of(readers_[r], [&](NodeId reader) {
                    return needed[reader] && !is_again(group_of_[reader], r);
                  });
    }
    return needed;
  }

 private:
  void note_reads(NodeId n) {
    const Node& node = p_.nodes[n];
    const auto note = [&](const View& v) {
      readers_[v.root].push_back(n);
      if (2 * p_.roots[v.root].numel >= kSmallest && comes_from_outside(group_of_[n], v.root))
        reads_[group_of_[n]].insert(v.root);
    };
    for (const View& v : node.operands) note(v);
    if (traits_of(node.kind).reads_table) note(node.table);
    if (node.table.root.valid()) tables_.insert(node.table.root);
  }

  bool comes_from_outside(GroupId g, RootId r) const {
    return std::ranges::none_of(p_.roots[r].writers, [&](NodeId w) { return group_of_[w] == g; });
  }

  bool is_large(RootId r, const Node& beside) const {
    return !p_.roots[r].formula() && 2 * p_.roots[r].numel >= beside.total();
  }

  bool lies_in_memory(RootId r) const {
    return p_.roots[r].kind == Root::Kind::Input || (stored_[r] && !chosen_.contains(r));
  }

  /// What computing `n` again reads; nothing if it cannot be.
  bool collect(const Node& n, Roots& leaves, Roots& large, size_t& nodes) const {
    if (!is_cheap(p_, n) || ++nodes > kMostNodes) return false;
    return std::ranges::all_of(n.operands, [&](const View& v) {
      if (p_.roots[v.root].formula()) return true;
      if (is_again_inside(n, v.root)) {
        const auto& writers = p_.roots[v.root].writers;
        return writers.size() == 1 && collect(p_.nodes[writers[0]], leaves, large, nodes);
      }
      leaves.insert(v.root);
      if (is_large(v.root, n)) large.insert(v.root);
      return true;
    });
  }

  /// Whether the node could have all that makes the value in its group.
  bool may_compute(const Node& reader, const Node& made) const {
    return is_fusible(reader) && reader.late == made.late &&
           std::ranges::all_of(reader.operands, [&](const View& v) {
             return v.root != made.dest.root || (is_linear(v) && v.numel() == made.total());
           });
  }

  void consider(NodeId n) {
    const Node& node = p_.nodes[n];
    const RootId made = node.dest.root;
    if (node.total() < kSmallest || p_.roots[made].output >= 0 || tables_.contains(made)) return;
    Roots leaves, large;
    size_t nodes = 0;
    std::vector<GroupId> groups;  // that read it, but its own
    for (NodeId reader : readers_[made])
      if (group_of_[reader] != group_of_[n]) groups.push_back(group_of_[reader]);
    if (groups.empty() || !collect(node, leaves, large, nodes)) return;
    const bool fits = std::ranges::all_of(readers_[made], [&](NodeId reader) {
      return group_of_[reader] == group_of_[n] || may_compute(p_.nodes[reader], node);
    });
    const bool reads_no_more = std::ranges::all_of(groups, [&](GroupId g) {
      return std::ranges::count_if(large, [&](RootId r) { return !reads_[g].contains(r); }) <= 1;
    });
    if (!fits || !reads_no_more) return;
    chosen_.insert(made);
    leaves_.insert(leaves.begin(), leaves.end());
    for (GroupId g : groups) {
      reads_[g].erase(made);
      reads_[g].insert(large.begin(), large.end());
    }
  }

  const Program& p_;
  Table<NodeId, GroupId> group_of_;
  Table<RootId, bool> stored_;
  Table<RootId, ir::InlineVector<NodeId, 4>> readers_;
  std::vector<Roots> reads_;  // by group: what it reads from memory
  Roots tables_;              // read or written at positions that come from data
  Roots chosen_, leaves_;     // leaves: what is read by what is computed again
};

/// The program in which each group has nodes of its own for what it computes again.
class Rewriter {
 public:
  Rewriter(const Program& p, const Choice& choice)
      : p_(p), choice_(choice), node_(p.nodes.size()) {}

  Program run() {
    out_.roots = p_.roots;
    out_.outputs = p_.outputs;
    for (Root& r : out_.roots) r.writers.clear();
    const Table<NodeId, bool> needed = choice_.needed();
    for (NodeId n : p_.nodes.ids())
      if (needed[n]) node_[n] = add(moved(n));
    return std::move(out_);
  }

  /// The values that were added, and what they are copies of.
  const std::vector<std::pair<RootId, RootId>>& copies() const { return copies_; }

 private:
  NodeId add(Node node) {
    const NodeId id = out_.nodes.next();
    node.for_each_written([&](RootId r) { out_.roots[r].writers.push_back(id); });
    return out_.nodes.add(std::move(node));
  }

  Node moved(NodeId n) {
    Node node = p_.nodes[n];
    const GroupId g = choice_.group_of(n);
    for (View& v : node.operands)
      if (choice_.is_again(g, v.root)) v.root = copy(g, v.root);
    if (node.after.valid()) node.after = node_[node.after];
    return node;
  }

  /// The value that group `g` has in place of `r`.
  RootId copy(GroupId g, RootId r) {
    if (const auto known = made_.find({g, r}); known != made_.end()) return known->second;
    Node node = p_.nodes[p_.roots[r].writers[0]];
    node.again = true;
    for (View& v : node.operands)
      if (choice_.is_again_inside(node, v.root)) v.root = copy(g, v.root);
    Root root = p_.roots[r];
    root.writers.clear();
    node.dest.root = out_.roots.add(std::move(root));
    copies_.push_back({node.dest.root, r});
    made_[{g, r}] = node.dest.root;
    const RootId result = node.dest.root;
    add(std::move(node));
    return result;
  }

  const Program& p_;
  const Choice& choice_;
  Program out_;
  Table<NodeId, NodeId> node_;  // what became of each
  std::map<std::pair<GroupId, RootId>, RootId> made_;
  std::vector<std::pair<RootId, RootId>> copies_;
};

/// Adds to `refused` what would be kept in memory all the same.
bool add_stored(const Fusion& f, const std::vector<std::pair<RootId, RootId>>& copies,
                Roots& refused) {
  const Table<RootId, bool> stored = stored_roots(f.program, f.groups);
  const size_t before = refused.size();
  for (const auto& [copy, of] : copies)
    if (stored[copy]) refused.insert(of);
  return refused.size() > before;
}

}  // namespace

Fusion fuse_lean(Program program) {
  std::vector<Group> groups = fuse(program);
  Roots refused;
  for (int round = 0; round < kMostRounds; ++round) {
    const Choice choice(program, groups, refused);
    if (choice.empty()) break;
    Rewriter rewriter(program, choice);
    Fusion lean{rewriter.run(), {}};
    lean.groups = fuse(lean.program);
    if (add_stored(lean, rewriter.copies(), refused)) continue;
    if (lean.groups.size() > groups.size()) break;
    return lean;
  }
  return {std::move(program), std::move(groups)};
}

}  // namespace tandem::codegen
