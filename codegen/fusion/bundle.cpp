#include "codegen/fusion/bundle.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "codegen/fusion/domain.h"
#include "codegen/fusion/slabs.h"
#include "codegen/kernels/schedule.h"
#include "codegen/kernels/tiles.h"

namespace tandem::codegen {
namespace {

constexpr int64_t kMaxRow = 8192;  // elements of a bundle's row: longer runs gain nothing
constexpr size_t kMaxNodes = 128;  // of a bundle

class Bundler {
 public:
  explicit Bundler(const Program& p) : p_(p) {}

  bool fits(const Bundle& bundle, const Group& g) const {
    const std::vector<Group>& b = bundle.groups;
    if (bundle.slabs.count > 0 || !write_one_value(b[0], g) || !is_plain(g) || !is_plain(b[0]) ||
        row_sizes(g) != row_sizes(b[0]))
      return false;
    int64_t row = columns(g);
    size_t nodes = g.nodes.size();
    for (const Group& member : b) {
      if (depends(p_, g, member)) return false;
      row += columns(member);
      nodes += member.nodes.size();
    }
    return row <= kMaxRow && nodes <= kMaxNodes;
  }

 private:
  const Node& node(NodeId n) const { return p_.nodes[n]; }

  /// Rows and columns, and no more.
  bool is_plain(const Group& g) const {
    const Domain& d = g.domain;
    return is_fusible(node(g.nodes[0])) && d.cols == 0 && !d.cuts.empty() && !d.row_nodes &&
           !d.row_reduces && d.partial.n == 0 && tile_of(p_, g).dim < 0;
  }
  static int64_t columns(const Group& g) { return g.domain.cuts[0]; }
  static std::vector<int64_t> row_sizes(const Group& g) {
    std::vector<int64_t> sizes = dims_of(g.domain).sizes;
    sizes.pop_back();
    return sizes;
  }

  bool writes_region(const Group& g, RootId root) const {
    return std::any_of(g.nodes.begin(), g.nodes.end(),
                       [&](NodeId n) { return !node(n).whole && node(n).dest.root == root; });
  }
  bool write_one_value(const Group& a, const Group& b) const {
    return std::any_of(a.nodes.begin(), a.nodes.end(), [&](NodeId n) {
      return !node(n).whole && writes_region(b, node(n).dest.root);
    });
  }

  const Program& p_;
};

}  // namespace

std::vector<Bundle> bundle(const Program& program, std::vector<Group> groups,
                           const Table<RootId, bool>& stored) {
  const Bundler bundler(program);
  const SlabFinder slabs(program, stored);
  std::vector<Bundle> out;
  for (auto next = groups.begin(); next != groups.end();) {
    if (SlabFinder::Found found = slabs.find({next, groups.end()}); !found.members.empty()) {
      for (size_t i = 0; i < found.members.size(); ++i)  // each moves up behind the one before
        std::rotate(next + i, next + found.members[i], next + found.members[i] + 1);
      const auto end = next + std::ssize(found.members);
      out.push_back({{std::move_iterator(next), std::move_iterator(end)}, std::move(found.slabs)});
      next = end;
      continue;
    }
    if (out.empty() || !bundler.fits(out.back(), *next)) out.emplace_back();
    out.back().groups.push_back(std::move(*next++));
  }
  return out;
}

}  // namespace tandem::codegen
