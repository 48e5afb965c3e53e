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
  if (node.table.root >= 0) f(node.table);
  f(node.dest);
}

size_t count_nodes(const Bundle& groups) {
  size_t count = 0;
  for (const Group& g : groups) count += g.nodes.size();
  return count;
}

}  // namespace

Slicer::Slicer(const Program& program, const std::vector<bool>& stored)
    : program_(program), stored_(stored), numbers_(program.roots.size(), -1) {}

const Slice& Slicer::cut(const Bundle& groups) {
  for (int v : roots_) numbers_[static_cast<size_t>(v)] = -1;
  roots_.clear();
  slice_.program.roots.clear();
  slice_.stored.clear();
  slice_.groups.assign(groups.begin(), groups.end());
  slice_.program.nodes.resize(count_nodes(groups));
  int next = 0;
  for (Group& g : slice_.groups)
    for (int& n : g.nodes) {
      Node& own = slice_.program.nodes[static_cast<size_t>(next)];
      own = program_.nodes[static_cast<size_t>(n)];
      renumber(own);
      n = next++;
    }
  move_to_start();
  return slice_;
}

/// Makes each value in memory begin where the slice first touches it.
void Slicer::move_to_start() {
  offsets_.assign(roots_.size(), std::numeric_limits<int64_t>::max());
  const auto for_all = [&](auto f) {
    for (Node& node : slice_.program.nodes)
      for_each_view(node, [&](View& v) { f(v, offsets_[static_cast<size_t>(v.root)]); });
  };
  for_all([](const View& v, int64_t& offset) { offset = std::min(offset, int64_t{v.offset}); });
  for (size_t v = 0; v < roots_.size(); ++v)
    if (slice_.program.roots[v].formula()) offsets_[v] = 0;
  for_all([](View& v, int64_t offset) { v.offset -= offset; });
}

/// Without `after`, which says when the node runs, not what it does.
void Slicer::renumber(Node& node) {
  for_each_view(node, [&](View& v) { v.root = number(v.root); });
  node.after = -1;
}

int Slicer::number(int value) {
  int& number = numbers_[static_cast<size_t>(value)];
  if (number >= 0) return number;
  number = static_cast<int>(roots_.size());
  roots_.push_back(value);
  const Root& v = program_.roots[static_cast<size_t>(value)];
  slice_.program.roots.push_back({.kind = v.formula() ? v.kind : Root::Kind::Computed,
                                  .dtype = v.dtype,
                                  .numel = v.numel,
                                  .first = v.first,
                                  .increment = v.increment});
  slice_.stored.push_back(stored_[static_cast<size_t>(value)]);
  return number;
}

size_t SliceHash::operator()(const Slice& slice) const {
  Hasher hasher;
  for (const Node& n : slice.program.nodes) {
    hasher.word(static_cast<int64_t>(n.kind));
    hasher.word(static_cast<int64_t>(n.op));
    for (int64_t size : n.domain) hasher.word(size);
    for (const View& v : n.operands) hasher.word(v.root), hasher.word(v.offset);
  }
  for (bool stored : slice.stored) hasher.word(stored);
  return hasher.state;
}

}  // namespace tandem::codegen
