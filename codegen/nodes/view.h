// Strided views of a value's memory: how an operand is read through any chain of view ops without
// copying it.
#ifndef TANDEM_CODEGEN_NODES_VIEW_H
#define TANDEM_CODEGEN_NODES_VIEW_H

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "codegen/ids.h"
#include "ir/graph.h"

namespace tandem::codegen {

/// Elements of `root`: element (i, j, ...) lies at offset + i * strides[0] +
/// ... What a kernel computes is contiguous; an input has the graph's strides.
struct View {
  RootId root;
  int64_t offset = 0;
  ir::Shape sizes;
  ir::Strides strides;

  int64_t numel() const { return ir::numel(sizes); }
  friend bool operator==(const View&, const View&) = default;
};

/// One dimension of a view with its neighbours merged where they step evenly.
struct Run {
  int64_t size = 1, stride = 0;
};
/// At most one run a dimension, outermost first.
class Runs {
 public:
  void push_back(Run run) { runs_[size_++] = run; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Run& operator[](size_t i) const { return runs_[i]; }
  Run& back() { return runs_[size_ - 1]; }
  auto rbegin() const { return std::make_reverse_iterator(runs_.begin() + size_); }
  auto rend() const { return runs_.rend(); }

 private:
  std::array<Run, ir::kMaxRank> runs_;
  uint8_t size_ = 0;
};
/// The view's dims without those of size 1, merged where possible.
Runs collapsed(const View& v);

/// Whether the view reads elements 0, 1, ..., numel - 1 in this order.
bool is_linear(const View& v);
/// If the view reads each of elements 0, 1, ..., r - 1 in order, repeating each numel / r times in
/// a row: r (numel itself for a linear view; 1 if one element is read everywhere).
std::optional<int64_t> repeated_rows(const View& v);

/// Whether both read the same elements in the same order.
bool same_elements(const View& a, const View& b);
/// `v` without the dims along which it shows the same elements.
View without_repetition(const View& v);
View permuted(const View& v, std::span<const ir::Axis> dims);
View expanded(const View& v, const ir::Shape& sizes);
View sliced(const View& v, int dim, int64_t start, int64_t end, int64_t step);
View diagonal(const View& v, int64_t offset, int dim0, int dim1);
View flipped(const View& v, std::span<const ir::Axis> dims);
/// `v` with other sizes of the same count, unless its strides do not allow it.
std::optional<View> reshaped(const View& v, const ir::Shape& sizes);
/// `v`, which may not be seen as `sizes` [n, r, c], as [outer, n / outer, r, c]: the first such
/// that its strides allow, if any.
std::optional<View> split_batch(const View& v, const ir::Shape& sizes);
/// A contiguous view of all of `root`.
View whole(RootId root, const ir::Shape& sizes);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_NODES_VIEW_H
