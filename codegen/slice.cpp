#include "codegen/slice.h"

#include <algorithm>
#include <limits>

#include "codegen/hasher.h"

namespace tandem::codegen {
namespace {

/// f(view) for what the node reads and writes.
template <class F>
void for_each_view(Node& node, F f) {
  for (View& v : node.operands) f(v);
  if (node.table.root.valid()) f(node.table);
  f(node.dest);
}

size_t count_nodes(const Bundle& bundle) {
  size_t count = 0;
  for (const Group& g : bundle.groups) count += g.nodes.size();
  return count;
}

}  // namespace

Slicer::Slicer(const Program& program, const Table<RootId, bool>& stored)
    : program_(program), stored_(stored), own_ids_(program.roots.size()) {}

const Slice& Slicer::cut(const Bundle& bundle) {
  for (RootId r : roots_) own_ids_[r] = {};
  roots_.clear();
  slice_.program.roots.clear();
  slice_.stored.clear();
  slice_.bundle = bundle;
  slice_.program.nodes.resize(count_nodes(bundle));
  NodeId next{0};
  for (Group& g : slice_.bundle.groups)
    for (NodeId& n : g.nodes) {
      Node& own = slice_.program.nodes[next];
      own = program_.nodes[n];
      renumber(own);
      n = next;
      ++next.index;
    }
  for (RootId& r : slice_.bundle.slabs.inside) r = own_id(r);
  move_to_start();
  return slice_;
}

/// Makes each root in memory begin where the slice first touches it.
void Slicer::move_to_start() {
  offsets_.assign(roots_.size(), std::numeric_limits<int64_t>::max());
  const auto for_all = [&](auto f) {
    for (Node& node : slice_.program.nodes)
      for_each_view(node, [&](View& v) { f(v, offsets_[v.root]); });
  };
  for_all([](const View& v, int64_t& offset) { offset = std::min(offset, int64_t{v.offset}); });
  for (RootId r : roots_.ids())
    if (slice_.program.roots[r].formula()) offsets_[r] = 0;
  for_all([](View& v, int64_t offset) { v.offset -= offset; });
}

/// Without `after` and `late`, which say when the node runs, not what it does.
void Slicer::renumber(Node& node) {
  for_each_view(node, [&](View& v) { v.root = own_id(v.root); });
  node.after = {};
  node.late = false;
}

RootId Slicer::own_id(RootId root) {
  RootId& own = own_ids_[root];
  if (own.valid()) return own;
  own = roots_.next();
  roots_.push_back(root);
  const Root& r = program_.roots[root];
  slice_.program.roots.push_back({.kind = r.formula() ? r.kind : Root::Kind::Computed,
                                  .dtype = r.dtype,
                                  .numel = r.numel,
                                  .first = r.first,
                                  .increment = r.increment});
  slice_.stored.push_back(stored_[root]);
  return own;
}

size_t SliceHash::operator()(const Slice& slice) const {
  Hasher hasher;
  for (const Node& n : slice.program.nodes) {
    hasher.word(static_cast<int64_t>(n.kind));
    hasher.word(static_cast<int64_t>(n.op));
    for (int64_t size : n.domain) hasher.word(size);
    hasher.word(n.parts);
    for (const View& v : n.operands) hasher.word(v.root.index), hasher.word(v.offset);
  }
  for (bool stored : slice.stored) hasher.word(stored);
  return hasher.state;
}

}  // namespace tandem::codegen
