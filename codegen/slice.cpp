#include "codegen/slice.h"

#include "codegen/hasher.h"

namespace tandem::codegen {
namespace {

size_t count_nodes(const Bundle& groups) {
  size_t count = 0;
  for (const Group& g : groups) count += g.nodes.size();
  return count;
}

}  // namespace

Slicer::Slicer(const Program& program, const std::vector<bool>& stored)
    : program_(program), stored_(stored), numbers_(program.values.size(), -1) {}

const Slice& Slicer::cut(const Bundle& groups) {
  for (int v : values_) numbers_[static_cast<size_t>(v)] = -1;
  values_.clear();
  slice_.program.values.clear();
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
  return slice_;
}

/// Without `after`, which says when the node runs, not what it does.
void Slicer::renumber(Node& node) {
  for (View& v : node.operands) v.root = number(v.root);
  if (node.table.root >= 0) node.table.root = number(node.table.root);
  node.dest.root = number(node.dest.root);
  node.after = -1;
}

int Slicer::number(int value) {
  int& number = numbers_[static_cast<size_t>(value)];
  if (number >= 0) return number;
  number = static_cast<int>(values_.size());
  values_.push_back(value);
  const Value& v = program_.values[static_cast<size_t>(value)];
  slice_.program.values.push_back({.kind = v.formula() ? v.kind : Value::Kind::Computed,
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
