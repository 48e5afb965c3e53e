#include "codegen/fuse.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "codegen/domain.h"

namespace tandem::codegen {
namespace {

constexpr size_t kMaxNodes = 128;       // of a group
constexpr size_t kMaxOperands = 400;    // looked at for one merge
constexpr size_t kMaxVisits = 256;      // groups looked at to prove that a merge makes no cycle
constexpr size_t kMaxReaders = 4;       // groups remembered per value, for siblings
constexpr int64_t kSmallDomain = 8192;  // siblings of so few elements save a launch

/// A group under construction. Edges point to groups as they were; find() says what became of them.
struct Cluster {
  std::vector<int> nodes;
  Domain domain;
  std::vector<int> before, after;  // groups that it reads from; groups that read from it
  int depth = 0;                   // greater than that of every group in `before`
  bool fusible = false;
};

class Fuser {
 public:
  explicit Fuser(const Program& p) : p_(p), parent_(p.nodes.size()), readers_(p.values.size()) {
    clusters_.reserve(p.nodes.size());
  }

  std::vector<Group> run() {
    for (int n = 0; n < static_cast<int>(p_.nodes.size()); ++n) {
      add(n);
      if (!clusters_[static_cast<size_t>(n)].fusible) continue;
      fuse_with_producers(n);
      fuse_with_siblings(n);
    }
    return in_order();
  }

 private:
  Cluster& at(int c) { return clusters_[static_cast<size_t>(c)]; }
  const Node& node(int n) const { return p_.nodes[static_cast<size_t>(n)]; }

  int find(int c) {
    auto& up = parent_;
    while (up[static_cast<size_t>(c)] != c) {
      up[static_cast<size_t>(c)] = up[static_cast<size_t>(up[static_cast<size_t>(c)])];
      c = up[static_cast<size_t>(c)];
    }
    return c;
  }

  template <class F>
  void for_each_read(const Node& n, F f) const {
    for (const View& v : n.operands) f(v);
    if (n.kind == Node::Kind::Gather) f(n.table);
  }

  const std::vector<int>& writers(const View& v) const {
    return p_.values[static_cast<size_t>(v.root)].writers;
  }

  void resolve(std::vector<int>& groups, int self) {
    for (int& g : groups) g = find(g);
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    std::erase(groups, self);
  }

  /// A cluster of the one node `n`.
  void add(int n) {
    const Node& node_n = node(n);
    Cluster c{.nodes = {n}, .fusible = is_fusible(node_n)};
    if (c.fusible) c.domain = domain_of(node_n);
    for_each_read(node_n, [&](const View& v) {
      for (int w : writers(v)) c.before.push_back(w);
    });
    if (node_n.after >= 0) c.before.push_back(node_n.after);
    parent_[static_cast<size_t>(n)] = n;
    resolve(c.before, n);
    for (int b : c.before) {
      at(b).after.push_back(n);
      c.depth = std::max(c.depth, at(b).depth + 1);
    }
    clusters_.push_back(std::move(c));
  }

  void fuse_with_producers(int n) {
    std::vector<int> candidates = at(n).before;
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](int a, int b) { return at(a).depth > at(b).depth; });
    for (int c : candidates) merge_if_legal(find(c), find(n));
  }

  /// With groups that read the same value, or another value of the same group.
  void fuse_with_siblings(int n) {
    for (int source : std::vector<int>(at(find(n)).before)) {
      if (at(find(n)).domain.total > kSmallDomain) break;
      resolve(at(find(source)).after, find(source));
      const std::vector<int>& after = at(find(source)).after;
      const size_t known = std::min(after.size(), kMaxReaders);
      for (int sibling : std::vector<int>(after.end() - static_cast<ptrdiff_t>(known), after.end()))
        fuse_with_sibling(find(sibling), find(n));
    }
    for_each_read(node(n), [&](const View& v) {
      if (!worth_sharing(v, at(find(n)).domain)) return;
      auto& readers = readers_[static_cast<size_t>(v.root)];
      resolve(readers, -1);
      for (int r : std::vector<int>(readers)) fuse_with_sibling(find(r), find(n));
      resolve(readers, -1);
      readers.push_back(find(n));
      if (readers.size() > kMaxReaders) readers.erase(readers.begin());
    });
  }

  /// Siblings are for reading a large value once, or for saving launches.
  bool worth_sharing(const View& v, const Domain& d) const {
    const Value& value = p_.values[static_cast<size_t>(v.root)];
    if (value.formula()) return false;
    return d.total <= kSmallDomain || 2 * value.numel >= d.total;
  }

  void fuse_with_sibling(int sibling, int self) {
    if (sibling != self && at(sibling).domain.total == at(self).domain.total)
      merge_if_legal(sibling, self);
  }

  // --- legality
  void merge_if_legal(int a, int b) {
    if (a == b || !at(a).fusible || !at(b).fusible) return;
    if (at(a).nodes.size() + at(b).nodes.size() > kMaxNodes) return;
    if (at(a).depth > at(b).depth) std::swap(a, b);  // then a cannot depend on b
    const auto domain = united(at(a).domain, at(b).domain);
    if (!domain || !edges_fit(a, b, *domain) || path_between(a, b)) return;
    std::vector<std::pair<int, int>> raised;
    if (!raise_after(a, b, raised)) return;
    for (const auto& [c, depth] : raised) at(c).depth = depth;
    merge(a, b, *domain);
  }

  /// Every value that would pass from node to node inside the merged group can do so, also those
  /// that pass inside a and b now (rows may have appeared).
  bool edges_fit(int a, int b, const Domain& d) {
    size_t seen = 0;
    for (int c : {a, b}) {
      for (int n : at(c).nodes) {
        bool fits = true;
        for_each_read(node(n), [&](const View& v) {
          for (int w : writers(v)) {
            const int from = find(w);
            if (from != a && from != b) continue;
            fits = fits && passes_in_registers(node(w), node(n), v, d);
          }
          ++seen;
        });
        if (node(n).after >= 0) {
          const int from = find(node(n).after);
          fits = fits && from != a && from != b;
        }
        if (!fits || seen > kMaxOperands) return false;
      }
    }
    return true;
  }

  /// Whether some other group lies on a path from a to b (or too much would have to be searched).
  bool path_between(int a, int b) {
    std::vector<int> stack, visited;
    resolve(at(b).before, b);
    for (int c : at(b).before)
      if (c != a && at(c).depth > at(a).depth) stack.push_back(c);
    while (!stack.empty()) {
      const int c = stack.back();
      stack.pop_back();
      if (std::find(visited.begin(), visited.end(), c) != visited.end()) continue;
      visited.push_back(c);
      if (visited.size() > kMaxVisits) return true;
      resolve(at(c).before, c);
      for (int up : at(c).before) {
        if (up == a) return true;
        if (at(up).depth > at(a).depth) stack.push_back(up);
      }
    }
    return false;
  }

  /// The depths that groups after `a` get when a is merged into the deeper b.
  bool raise_after(int a, int b, std::vector<std::pair<int, int>>& raised) {
    std::unordered_map<int, int> depth;
    std::vector<std::pair<int, int>> stack = {{a, at(b).depth}};
    while (!stack.empty()) {
      const auto [c, d] = stack.back();
      stack.pop_back();
      resolve(at(c).after, c);
      for (int down : at(c).after) {
        if (down == b || at(down).depth > d) continue;
        const auto known = depth.find(down);
        if (known != depth.end() && known->second > d) continue;
        depth[down] = d + 1;
        if (depth.size() > kMaxVisits) return false;
        stack.push_back({down, d + 1});
      }
    }
    raised.assign(depth.begin(), depth.end());
    return true;
  }

  void merge(int a, int b, const Domain& domain) {
    if (at(a).nodes.size() + at(a).after.size() > at(b).nodes.size() + at(b).after.size()) {
      at(a).depth = at(b).depth;
      std::swap(a, b);  // the smaller is moved
    }
    Cluster &from = at(a), &to = at(b);
    parent_[static_cast<size_t>(a)] = b;
    to.nodes.insert(to.nodes.end(), from.nodes.begin(), from.nodes.end());
    to.before.insert(to.before.end(), from.before.begin(), from.before.end());
    to.after.insert(to.after.end(), from.after.begin(), from.after.end());
    resolve(to.before, b);
    resolve(to.after, b);
    to.domain = domain;
    from = {};
  }

  // --- the result: from the end on, of the groups that no group left needs, the one that the
  // program finishes last. So what depends on inputs alone runs just before its first reader.
  std::vector<Group> in_order() {
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry> ready;
    std::vector<int> waiting(clusters_.size());
    for (int c = 0; c < static_cast<int>(clusters_.size()); ++c) {
      if (find(c) != c) continue;
      std::sort(at(c).nodes.begin(), at(c).nodes.end());
      resolve(at(c).after, c);
      waiting[static_cast<size_t>(c)] = static_cast<int>(at(c).after.size());
      if (at(c).after.empty()) ready.push({at(c).nodes.back(), c});
    }
    std::vector<Group> out;
    while (!ready.empty()) {
      const int c = ready.top().second;
      ready.pop();
      out.push_back({at(c).nodes, at(c).domain});
      resolve(at(c).before, c);
      for (int up : at(c).before)
        if (--waiting[static_cast<size_t>(up)] == 0) ready.push({at(up).nodes.back(), up});
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  const Program& p_;
  std::vector<Cluster> clusters_;
  std::vector<int> parent_;
  std::vector<std::vector<int>> readers_;  // by value: groups that read it, latest last
};

}  // namespace

std::vector<Group> fuse(const Program& program) { return Fuser(program).run(); }

}  // namespace tandem::codegen
