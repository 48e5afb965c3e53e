#include "codegen/fusion/slabs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "codegen/fusion/domain.h"
#include "codegen/kernels/tiles.h"
#include "codegen/loops/scalar_ops.h"

namespace tandem::codegen {
namespace {

constexpr int64_t kMinPiece = 256;  // elements in a row: what happens once a row is slow by slabs
constexpr int64_t kMinSlabs = 16;   // for threads to share
constexpr size_t kMaxSkipped = 4;   // groups between them that run behind them
constexpr int64_t kMaxSlabBytes = int64_t{2} << 20;  // of large values: as a second cache holds

/// From slab to slab of what is read or written through the view, by a row node or for each
/// element; nothing if an element belongs to two slabs.
std::optional<int64_t> stride_of(const View& view, const SlabDims& dims, int64_t count, bool row) {
  const size_t end = row ? dims.dims.row_dims : dims.dims.count();
  if (view.offset != 0 || dims.slab >= end) return std::nullopt;
  const std::vector<int64_t> strides = strides_over(view, dims.dims, 0, end);
  const int64_t stride = strides[dims.slab];
  if (stride <= 0) return std::nullopt;
  int64_t reach = 0;  // of the dims inside a slab
  for (size_t d = 0; d < end; ++d) {
    if (d == dims.slab || strides[d] % (stride * count) == 0) continue;
    if (strides[d] < 0) return std::nullopt;
    reach += strides[d] * (dims.dims.sizes[d] - 1);
  }
  return reach < stride ? std::optional(stride) : std::nullopt;
}

/// The groups that are to run slab by slab, one added after the other.
class Candidate {
 public:
  Candidate(const Program& p, const Table<RootId, bool>& stored, const Domain& first, int64_t count)
      : p_(p), stored_(stored), total_(first.total), cols_(first.cols), count_(count) {}

  /// Whether `g` can run with those before it.
  bool add(const Group& g) {
    const bool has_rows = g.domain.total == total_;
    if (!has_rows && g.domain.total > total_ / cols_) return false;  // slow, element by element
    const int64_t inner = has_rows ? cols_ : 1;
    const auto dims = slab_dims(g.domain, inner, count_);
    if (!dims || !is_plain(g, inner)) return false;
    for (NodeId n : g.nodes)
      if (!stays_inside(p_.nodes[n], g.domain, *dims)) return false;
    const bool again = meets_again(g);
    if (large_bytes_ / count_ > kMaxSlabBytes) return false;
    inner_.push_back(inner);
    if (again) worth_ = inner_.size();
    return true;
  }

  /// How many groups are worth it: the last of them reads what an earlier one has met.
  size_t worth() const { return worth_; }
  std::vector<int64_t> inner() const { return {inner_.begin(), inner_.begin() + worth_}; }

 private:
  bool is_plain(const Group& g, int64_t inner) const {
    const Domain& d = g.domain;
    if (d.needs_whole_rows() && d.cols != inner) return false;
    if (d.partial.n > 0) {
      const Reduction& r = d.partial;
      if (!d.col_partial || r.outer != 1 || r.blocks() != 1 || r.inner != count_ || inner != 1)
        return false;
    }
    return tile_of(p_, g).dim < 0;
  }

  /// What can fail does so before anything is written that stays.
  static bool can_run_in_slabs(const Node& n) {
    const bool computes = n.kind == Node::Kind::Pointwise || n.kind == Node::Kind::RowReduce ||
                          n.kind == Node::Kind::ColPartial;
    return computes && !may_fail(n.op, n.dtype) && n.whole && !n.after.valid() && !n.late;
  }

  /// Whether what the node reads and writes of this bundle's values lies in its own slab.
  bool stays_inside(const Node& n, const Domain& d, const SlabDims& dims) {
    if (!can_run_in_slabs(n)) return false;
    const bool row = is_row_node(n, d);
    for (const View& v : n.operands) {
      if (is_large(v.root) && !runs_along_rows(v, dims)) return false;
      const auto written = strides_.find(v.root);
      if (written != strides_.end() && stride_of(v, dims, count_, row) != written->second)
        return false;
    }
    const auto stride = written_stride(n, d, dims, count_);
    if (!stride) return false;
    strides_.emplace(n.dest.root, *stride);
    return true;
  }

  /// Whether the group reads a large value that an earlier one has read or written.
  bool meets_again(const Group& g) {
    std::vector<RootId> values;
    bool again = false;
    const auto meet = [&](RootId r) {
      if (is_large(r)) values.push_back(r);
    };
    for (NodeId n : g.nodes) p_.nodes[n].for_each_operand([&](const View& v) { meet(v.root); });
    for (RootId r : values) again = again || met_.contains(r);
    for (NodeId n : g.nodes) meet(p_.nodes[n].dest.root);
    for (RootId r : values)
      if (met_.insert(r).second)
        large_bytes_ += p_.roots[r].numel * static_cast<int64_t>(ir::size_of(p_.roots[r].dtype));
    return again;
  }

  /// Else what a slab reads lies among what others read.
  static bool runs_along_rows(const View& v, const SlabDims& dims) {
    const size_t count = dims.dims.count();
    return strides_over(v, dims.dims, count - 1, count)[0] == 1;
  }

  /// In memory, with an element for each of the first group's domain.
  bool is_large(RootId r) const {
    const Root& root = p_.roots[r];
    return root.numel >= total_ && (root.kind == Root::Kind::Input || stored_[r]);
  }

  const Program& p_;
  const Table<RootId, bool>& stored_;
  int64_t total_, cols_, count_;
  std::unordered_map<RootId, int64_t> strides_;  // of what these groups write, from slab to slab
  std::unordered_set<RootId> met_;               // large values
  int64_t large_bytes_ = 0;
  std::vector<int64_t> inner_;
  size_t worth_ = 0;
};

/// The columns of the sum over what a value a row is added up to, if that follows.
int64_t slabs_of(std::span<const Group> groups) {
  const Domain& first = groups[0].domain;
  if (!first.row_reduces || first.cols < kMinPiece) return 0;
  for (const Group& g : groups.subspan(1, std::min(kMaxSkipped + 1, groups.size() - 1)))
    if (g.domain.col_partial && g.domain.total == first.rows())
      return g.domain.partial.inner >= kMinSlabs ? g.domain.partial.inner : 0;
  return 0;
}

}  // namespace

std::optional<SlabDims> slab_dims(const Domain& domain, int64_t inner, int64_t count) {
  const auto stepped = with_dim(domain, inner, count);
  if (!stepped) return std::nullopt;
  SlabDims out{dims_of(*stepped)};
  int64_t within = 1;
  size_t d = out.dims.count();
  while (d > 0 && within < inner) within *= out.dims.sizes[--d];
  if (d == 0 || within != inner || out.dims.sizes[d - 1] != count) return std::nullopt;
  out.slab = d - 1;
  const bool alone = out.slab < out.dims.row_dims || out.dims.cols == count;
  return alone ? std::optional(out) : std::nullopt;
}

std::optional<int64_t> written_stride(const Node& node, const Domain& domain, const SlabDims& dims,
                                      int64_t count) {
  if (makes(node) == Makes::ColumnBlocks) return 1;  // a sum is one of `count`
  const bool row = is_row_node(node, domain) || makes(node) == Makes::Rows;
  return stride_of(node.dest, dims, count, row);
}

SlabFinder::Found SlabFinder::find(std::span<const Group> groups) const {
  const int64_t count = slabs_of(groups);
  if (count == 0) return {};
  Candidate candidate(program_, stored_, groups[0].domain, count);
  std::vector<size_t> members, skipped;
  for (size_t i = 0; i < groups.size() && skipped.size() <= kMaxSkipped; ++i) {
    const bool waits = std::ranges::any_of(
        skipped, [&](size_t s) { return depends(program_, groups[i], groups[s]); });
    (!waits && candidate.add(groups[i]) ? members : skipped).push_back(i);
  }
  members.resize(candidate.worth());
  if (members.empty()) return {};
  return {{count, candidate.inner(), read_inside(groups, members)}, std::move(members)};
}

/// What the members hand one another, and nothing else reads.
std::vector<RootId> SlabFinder::read_inside(std::span<const Group> groups,
                                            std::span<const size_t> members) const {
  Table<NodeId, bool> inside(program_.nodes.size());
  for (size_t i : members)
    for (NodeId n : groups[i].nodes) inside[n] = true;
  Table<RootId, bool> read_outside(program_.roots.size());
  for (NodeId n : program_.nodes.ids()) {
    if (inside[n]) continue;
    for (const View& v : program_.nodes[n].operands) read_outside[v.root] = true;
    if (const RootId r = program_.nodes[n].table.root; r.valid()) read_outside[r] = true;
  }
  std::vector<RootId> roots;
  for (size_t i : members)
    for (NodeId n : groups[i].nodes) {
      const RootId r = program_.nodes[n].dest.root;
      const Root& root = program_.roots[r];
      if (stored_[r] && root.output < 0 && root.gaps == 0 && !read_outside[r]) roots.push_back(r);
    }
  return roots;
}

}  // namespace tandem::codegen
