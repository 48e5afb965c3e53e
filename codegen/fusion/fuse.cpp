#include "codegen/fusion/fuse.h"

#include <algorithm>
#include <queue>
#include <unordered_set>
#include <utility>

#include "codegen/fusion/domain.h"
#include "codegen/nodes/elements.h"

namespace tandem::codegen {
namespace {

constexpr size_t kMaxNodes = 128;       // of a group
constexpr size_t kMaxOperands = 400;    // of a group
constexpr size_t kMaxVisits = 256;      // groups looked at to prove that a merge makes no cycle
constexpr size_t kMaxReaders = 4;       // groups remembered per value, for siblings
constexpr int64_t kSmallDomain = 8192;  // siblings of so few elements save a launch

/// A group under construction, named by one of its nodes.
using ClusterId = ir::Id<struct ClusterTag>;
using Groups = ir::InlineVector<ClusterId, kMaxReaders + 1>;

/// Edges point to groups as they were; find() says what became of them.
struct Cluster {
  Domain domain;
  Groups before, after;  // groups that it reads from; groups that read from it
  size_t nodes = 1;
  size_t reads = 0;  // operands of its nodes
  NodeId last;       // of its nodes
  int depth = 0;     // greater than that of every group in `before`
  int search = 0;    // the latest one that met it
  bool fusible = false;
  bool writes_parts = false;  // has nodes that write parts of their values
  bool late = false;  // as its nodes: what is computed again would else run, and be kept, early
};

class Fuser {
 public:
  explicit Fuser(const Program& p)
      : p_(p), parent_(p.nodes.size()), next_(p.nodes.size()), readers_(p.roots.size()) {
    clusters_.reserve(p.nodes.size());
  }

  std::vector<Group> run() {
    for (NodeId n : p_.nodes.ids()) {
      add(n);
      if (!at(cluster_of(n)).fusible) continue;
      fuse_with_producers(n);
      if (!node(n).again) fuse_with_siblings(n);
    }
    return in_order();
  }

 private:
  static ClusterId cluster_of(NodeId n) { return {n.index}; }
  Cluster& at(ClusterId c) { return clusters_[c]; }
  const Cluster& at(ClusterId c) const { return clusters_[c]; }
  const Node& node(NodeId n) const { return p_.nodes[n]; }

  ClusterId find(ClusterId c) {
    auto& up = parent_;
    while (up[c] != c) {
      up[c] = up[up[c]];
      c = up[c];
    }
    return c;
  }
  ClusterId find(NodeId n) { return find(cluster_of(n)); }

  template <class F>
  void for_each_read(const Node& n, F f) const {
    for (const View& v : n.operands) f(v);
    if (traits_of(n.kind).reads_table) f(n.table);
  }

  std::span<const NodeId> writers(const View& v) const { return p_.roots[v.root].writers; }

  /// What the groups are now, each once and ascending, without `self`.
  void resolve(Groups& groups, ClusterId self) {
    bool resolved = true;
    ClusterId last;
    for (ClusterId& g : groups) {
      const ClusterId now = find(g);
      resolved = resolved && now == g && (!last.valid() || now > last) && now != self;
      last = g = now;
    }
    if (resolved) return;
    std::sort(groups.begin(), groups.end());
    const auto end = std::remove(groups.begin(), std::unique(groups.begin(), groups.end()), self);
    groups.resize(static_cast<size_t>(end - groups.begin()));
  }

  /// A cluster of the one node `n`.
  void add(NodeId n) {
    const Node& node_n = node(n);
    Cluster c{.last = n,
              .fusible = is_fusible(node_n),
              .writes_parts = !node_n.whole,
              .late = node_n.late};
    if (c.fusible) c.domain = domain_of(node_n);
    c.fusible = c.fusible && !node_n.alone;
    c.before.reserve(node_n.operands.size());
    for_each_read(node_n, [&](const View& v) {
      for (NodeId w : writers(v)) c.before.push_back(cluster_of(w));
      ++c.reads;
    });
    if (node_n.kind == Node::Kind::Fold) {  // as so many nodes of two operands
      c.nodes = static_cast<size_t>(node_n.parts - 1);
      c.reads = 2 * c.nodes;
    }
    if (node_n.after.valid()) c.before.push_back(cluster_of(node_n.after));
    const ClusterId own = clusters_.next();
    parent_[own] = own;
    next_[n] = n;
    resolve(c.before, own);
    for (ClusterId b : c.before) {
      at(b).after.push_back(own);
      c.depth = std::max(c.depth, at(b).depth + 1);
    }
    clusters_.push_back(std::move(c));
  }

  /// What is computed again waits for its reader: with nothing else should it share a group.
  void fuse_with_producers(NodeId n) {
    const Groups& before = at(cluster_of(n)).before;
    producers_.assign(before.begin(), before.end());
    std::ranges::sort(producers_, {}, [&](ClusterId c) { return std::pair(-at(c).depth, c); });
    for (ClusterId c : producers_)
      if (!node(n).again || node(NodeId{c.index}).again) merge_if_legal(find(c), find(n));
  }

  /// With groups that read the same value, or another value of the same group.
  void fuse_with_siblings(NodeId n) {
    const Groups sources = at(find(n)).before;
    for (ClusterId source : sources) {
      if (at(find(n)).domain.total > kSmallDomain) break;
      resolve(at(find(source)).after, find(source));
      const Groups& after = at(find(source)).after;
      const size_t known = std::min(after.size(), kMaxReaders);
      siblings_.assign(after.end() - static_cast<ptrdiff_t>(known), after.end());
      for (ClusterId sibling : siblings_) fuse_with_sibling(find(sibling), find(n));
    }
    for_each_read(node(n), [&](const View& v) {
      if (!worth_sharing(v, at(find(n)).domain)) return;
      Groups& readers = readers_[v.root];
      resolve(readers, {});
      siblings_.assign(readers.begin(), readers.end());
      for (ClusterId sibling : siblings_) fuse_with_sibling(find(sibling), find(n));
      resolve(readers, {});
      readers.push_back(find(n));
      if (readers.size() <= kMaxReaders) return;
      std::shift_left(readers.begin(), readers.end(), 1);
      readers.resize(kMaxReaders);
    });
  }

  /// Siblings are for reading a large value once, or for saving launches.
  bool worth_sharing(const View& v, const Domain& d) const {
    const Root& root = p_.roots[v.root];
    if (root.formula()) return false;
    return d.total <= kSmallDomain || 2 * root.numel >= d.total;
  }

  void fuse_with_sibling(ClusterId sibling, ClusterId self) {
    if (sibling != self && at(sibling).domain.total == at(self).domain.total)
      merge_if_legal(sibling, self);
  }

  // --- legality
  void merge_if_legal(ClusterId a, ClusterId b) {
    if (a == b || !at(a).fusible || !at(b).fusible || at(a).late != at(b).late) return;
    if (at(a).nodes + at(b).nodes > kMaxNodes) return;
    if (at(a).depth > at(b).depth) std::swap(a, b);  // then a cannot depend on b
    auto domain = united(at(a).domain, at(b).domain);
    if (!domain || !edges_fit(a, b, *domain) || !sweeps_fit(a, b, *domain) || !writes_fit(a, b))
      return;
    if (path_between(a, b)) return;
    if (raise(a, b)) merge(a, b, std::move(*domain));
  }

  /// Every value that would pass from node to node inside the merged group can do so, also those
  /// that pass inside a and b now, if rows have appeared there.
  bool edges_fit(ClusterId a, ClusterId b, const Domain& d) {
    if (at(a).reads + at(b).reads > kMaxOperands) return false;
    return (same_rows(at(a).domain, d) || edges_between_fit(a, a, d)) &&
           (same_rows(at(b).domain, d) || edges_between_fit(b, b, d)) && edges_between_fit(a, b, d);
  }

  static bool same_rows(const Domain& a, const Domain& b) {
    return a.total == b.total && a.rows() == b.rows();
  }

  /// Whether f(node) for all nodes of a group.
  template <class F>
  bool all_of_nodes(ClusterId c, F f) const {
    const NodeId first{c.index};
    NodeId n = first;
    do {
      if (!f(n)) return false;
      n = next_[n];
    } while (n != first);
    return true;
  }

  bool edges_between_fit(ClusterId from, ClusterId to, const Domain& d) {
    return all_of_nodes(to, [&](NodeId n) {
      bool fits = !node(n).after.valid() || find(node(n).after) != from;
      for_each_read(node(n), [&](const View& v) {
        for (NodeId w : writers(v))
          fits = fits && (find(w) != from || passes_in_registers(node(w), node(n), v, d));
      });
      return fits;
    });
  }

  /// What steps inside rows runs in a sweep behind all that reduces rows (kernels/sweeps.h), so no
  /// reduction of the merged group may need it.
  bool sweeps_fit(ClusterId a, ClusterId b, const Domain& d) {
    if (!d.row_reduces || !steps_inside_rows(d)) return true;
    const std::vector<NodeId> nodes = nodes_of(a, b);
    std::unordered_set<RootId> late;
    for (NodeId n : nodes) {
      const auto is_late = [&](const View& v) { return late.contains(v.root); };
      const bool needs_late = std::ranges::any_of(node(n).operands, is_late);
      if (needs_late && reduces_rows(makes(node(n)))) return false;
      if (needs_late || (!is_row_node(node(n), d) && steps_inside_rows(node(n), d.cols)))
        late.insert(node(n).dest.root);
    }
    return true;
  }

  /// What a kernel writes into parts of an input it reads before, element by element, or not at
  /// all: else the whole would first be copied. So what is made of other places of the input, or of
  /// rows that it is written into, is written behind what reads these.
  bool writes_fit(ClusterId a, ClusterId b) const {
    return writes_fit_beside(a, b) && writes_fit_beside(b, a);
  }

  bool writes_fit_beside(ClusterId writing, ClusterId reading) const {
    if (!at(writing).writes_parts) return true;
    return all_of_nodes(writing, [&](NodeId w) {
      const std::vector<RootId> before = input_before(node(w));
      return before.empty() || all_of_nodes(reading, [&](NodeId n) {
               return !reads_elsewhere(node(n), before, node(w));
             });
    });
  }

  /// If `writer` writes a part of new contents of an input: that input, and what it was between
  /// writes.
  std::vector<RootId> input_before(const Node& writer) const {
    std::vector<RootId> before;
    if (writer.whole) return before;
    for (RootId root = writer.dest.root;; root = before.back()) {
      const Node* const begun = begun_as_copy(p_.nodes, p_.roots[root]);
      if (begun == nullptr || !begun->alone) break;
      before.push_back(begun->operands[0].root);
    }
    return before;
  }

  /// Whether `n` reads what `writer` overwrites of these values, other than element by element.
  static bool reads_elsewhere(const Node& n, const std::vector<RootId>& values,
                              const Node& writer) {
    const auto reads = [&](const View& v) {
      return std::ranges::count(values, v.root) > 0 &&
             !are_apart(elements_of(v), elements_of(writer.dest));
    };
    bool elsewhere = n.table.root.valid() && reads(n.table);
    n.for_each_operand([&](const View& v) {
      View there = v;
      there.root = writer.dest.root;
      const bool element_by_element =
          n.total() == writer.total() && same_elements(there, writer.dest);
      elsewhere = elsewhere || (reads(v) && !element_by_element);
    });
    return elsewhere;
  }

  /// Whether some other group lies on a path from a to b (or too much would have to be searched).
  bool path_between(ClusterId a, ClusterId b) {
    begin_search();
    stack_.push_back(b);
    for (size_t visits = 0; !stack_.empty(); ++visits) {
      const ClusterId c = stack_.back();
      stack_.pop_back();
      if (visits > kMaxVisits) return true;
      for (ClusterId producer : at(c).before) {
        const ClusterId up = find(producer);
        if (up == a && c != b) return true;
        if (at(up).depth > at(a).depth && is_new(up)) stack_.push_back(up);
      }
    }
    return false;
  }

  /// Makes `a` as deep as b, and what depends on it deeper; nothing if that is too much.
  bool raise(ClusterId a, ClusterId b) {
    begin_search();
    raise_to(at(b).depth, a);
    while (!stack_.empty()) {
      const ClusterId c = stack_.back();
      stack_.pop_back();
      resolve(at(c).after, c);
      for (ClusterId down : at(c).after)
        if (down != b && at(down).depth <= at(c).depth) raise_to(at(c).depth + 1, down);
      if (raised_.size() <= kMaxVisits) continue;
      for (const auto& [group, depth] : raised_) at(group).depth = depth;
      return false;
    }
    return true;
  }

  void raise_to(int depth, ClusterId c) {
    if (is_new(c)) raised_.push_back({c, at(c).depth});
    at(c).depth = depth;
    stack_.push_back(c);
  }

  void begin_search() {
    ++search_;
    stack_.clear();
    raised_.clear();
  }
  /// Whether this search meets `c` for the first time.
  bool is_new(ClusterId c) { return std::exchange(at(c).search, search_) != search_; }

  void merge(ClusterId a, ClusterId b, Domain domain) {
    if (at(a).nodes + at(a).after.size() > at(b).nodes + at(b).after.size())
      std::swap(a, b);  // the smaller is moved
    Cluster &from = at(a), &to = at(b);
    parent_[a] = b;
    std::swap(next_[NodeId{a.index}], next_[NodeId{b.index}]);
    to.before.append(from.before);
    to.after.append(from.after);
    resolve(to.before, b);
    resolve(to.after, b);
    to.nodes += from.nodes;
    to.reads += from.reads;
    to.writes_parts = to.writes_parts || from.writes_parts;
    to.last = std::max(to.last, from.last);
    to.domain = std::move(domain);
    from = {};
  }

  // --- the result: from the end on, of the groups that no group left needs, the one that the
  // program finishes last. So what depends on inputs alone runs just before its first reader.
  std::vector<Group> in_order() {
    using Entry = std::pair<NodeId, ClusterId>;
    std::priority_queue<Entry> ready;
    Table<ClusterId, size_t> waiting(clusters_.size());
    for (ClusterId c : clusters_.ids()) {
      if (find(c) != c) continue;
      resolve(at(c).after, c);
      waiting[c] = at(c).after.size();
      if (at(c).after.empty()) ready.push({at(c).last, c});
    }
    std::vector<Group> out;
    while (!ready.empty()) {
      const ClusterId c = ready.top().second;
      ready.pop();
      out.push_back({nodes_of(c), std::move(at(c).domain)});
      resolve(at(c).before, c);
      for (ClusterId up : at(c).before)
        if (--waiting[up] == 0) ready.push({at(up).last, up});
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  std::vector<NodeId> nodes_of(ClusterId c) {
    std::vector<NodeId> nodes;
    nodes.reserve(at(c).nodes);
    all_of_nodes(c, [&](NodeId n) { return nodes.push_back(n), true; });
    std::ranges::sort(nodes);
    return nodes;
  }

  std::vector<NodeId> nodes_of(ClusterId a, ClusterId b) {
    std::vector<NodeId> nodes = nodes_of(a);
    for (NodeId n : nodes_of(b)) nodes.push_back(n);
    std::ranges::sort(nodes);
    return nodes;
  }

  const Program& p_;
  Table<ClusterId, Cluster> clusters_;
  Table<ClusterId, ClusterId> parent_;           // see find()
  Table<NodeId, NodeId> next_;                   // of its group, in a ring
  Table<RootId, Groups> readers_;                // groups that read it, latest last
  std::vector<ClusterId> producers_, siblings_;  // of the node that is being fused
  // of the present search through the groups
  int search_ = 0;
  std::vector<ClusterId> stack_;
  std::vector<std::pair<ClusterId, int>> raised_;  // groups, and their depths before
};

}  // namespace

std::vector<Group> fuse(const Program& program) { return Fuser(program).run(); }

Table<NodeId, size_t> groups_of_nodes(const Program& p, const std::vector<Group>& groups) {
  Table<NodeId, size_t> group_of(p.nodes.size());
  for (size_t g = 0; g < groups.size(); ++g)
    for (NodeId n : groups[g].nodes) group_of[n] = g;
  return group_of;
}

bool depends(const Program& p, const Group& group, const Group& other) {
  const auto runs_in_other = [&](NodeId n) { return std::ranges::binary_search(other.nodes, n); };
  const auto reads = [&](const View& v) {
    return v.root.valid() && std::ranges::any_of(p.roots[v.root].writers, runs_in_other);
  };
  return std::ranges::any_of(group.nodes, [&](NodeId n) {
    const Node& x = p.nodes[n];
    return runs_in_other(x.after) || reads(x.table) || std::ranges::any_of(x.operands, reads);
  });
}

Table<RootId, bool> stored_roots(const Program& p, const std::vector<Group>& groups) {
  const Table<NodeId, size_t> group_of = groups_of_nodes(p, groups);
  Table<RootId, bool> stored(p.roots.size());
  for (RootId r : p.roots.ids()) stored[r] = p.roots[r].output >= 0;
  const auto read = [&](RootId r, NodeId by) {
    for (NodeId w : p.roots[r].writers)
      if (group_of[w] != group_of[by]) stored[r] = true;
  };
  for (NodeId n : p.nodes.ids()) {
    for (const View& v : p.nodes[n].operands) read(v.root, n);
    if (p.nodes[n].table.root.valid()) read(p.nodes[n].table.root, n);
  }
  return stored;
}

}  // namespace tandem::codegen
