#include "codegen/contractions/split_batches.h"

#include <algorithm>
#include <cmath>

#include "codegen/contractions/contraction.h"
#include "codegen/plan.h"
#include "machine/library/matmul.h"

namespace tandem::codegen {

using ir::Attr;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

namespace {

constexpr std::array<ir::Axis, 3> kTransposed = {0, 2, 1};
constexpr std::array<ir::Axis, 4> kTransposedSplit = {0, 1, 3, 2};

/// The strides of [n, r, c] or [outer, inner, r, c] matrices that the library takes; contiguous
/// ones where it does not take what is shown.
View planned_matrices(const Shown& x) {
  if (x.split && is_library_matrix(*x.split)) return *x.split;
  return is_library_matrix(*x.view) ? *x.view : whole(x.view->root, x.view->sizes);
}

/// Whether the rows (or columns) of the matrices are not next to each other.
bool is_part_of_wider_rows(const View& v) {
  const int r = v.sizes.rank() - 2, c = r + 1;
  return v.strides[c] == 1 ? v.strides[r] > v.sizes[c] : v.strides[c] > v.sizes[r];
}

std::optional<View> with_batch(const View& v, int64_t outer, int64_t inner) {
  const int rank = v.sizes.rank();
  return reshaped(v, {outer, inner, v.sizes[rank - 2], v.sizes[rank - 1]});
}

}  // namespace

Shown shown(const Graph& g, EquationId e, const Shown& from) {
  const ir::Shape& sizes = g.type(g.result(e)).sizes;
  if (g.op(e) == Op::expand) return {expanded(*from.view, sizes), {}};
  if (g.op(e) == Op::permute) {
    const auto& dims = g.attr<ir::Axes>(e, Attr::dims);
    Shown out{permuted(*from.view, dims), {}};
    if (from.split && std::ranges::equal(dims, kTransposed))
      out.split = permuted(*from.split, kTransposedSplit);
    return out;
  }
  if (from.split)
    if (auto view = reshaped(*from.split, sizes)) return {view, {}};
  if (auto view = reshaped(*from.view, sizes)) return {view, {}};
  return {{}, split_batch(*from.view, sizes)};
}

std::optional<SplitLayout> split_layout(const Shown& a, const Shown& b) {
  const ir::Shape &left = a.view->sizes, &right = b.view->sizes;
  if (left.rank() != 3 || left[0] <= 1) return std::nullopt;
  if (!machine::can_be_stride_free(left[1], right[2], left[2])) return std::nullopt;
  const View x = planned_matrices(a), y = planned_matrices(b);
  const bool split_a = x.sizes.rank() == 4, split_b = y.sizes.rank() == 4;
  if (!split_a && !split_b && !is_part_of_wider_rows(x) && !is_part_of_wider_rows(y))
    return std::nullopt;
  const ir::Shape& batch = split_a ? x.sizes : y.sizes;
  const int64_t outer = split_a || split_b ? int64_t{batch[0]} : 1, inner = left[0] / outer;
  const auto laid_out = [&](const View& planned, const View& view) {
    return with_batch(planned, outer, inner)
        .value_or(*with_batch(whole(view.root, view.sizes), outer, inner));
  };
  return SplitLayout{laid_out(x, *a.view), laid_out(y, *b.view)};
}

bool fits_layout(const View& v, const View& planned) {
  const int rows = v.sizes.rank() - 2;
  return is_library_matrix(v) && (v.strides[rows] == 1) == (planned.strides[rows] == 1);
}

ResultPaths::ResultPaths(const Graph& graph)
    : graph_(graph), counts_(ir::use_counts(graph)), readers_(graph.num_values()) {
  for (size_t i = 0; i < graph.num_equations(); ++i)
    for (ValueId v : graph.operands(graph.equation_id(i))) readers_[v.index] = graph.equation_id(i);
}

EquationId ResultPaths::only_reader(ValueId v) const {
  return counts_[v.index] == 1 ? readers_[v.index] : EquationId();
}

bool ResultPaths::adds_zero(EquationId e, ValueId to) const {
  if (graph_.op(e) != Op::add || graph_.type(graph_.result(e)) != graph_.type(to)) return false;
  const auto operands = graph_.operands(e);
  const ValueId other = operands[operands[0] == to ? 1 : 0];
  const EquationId full = graph_.producer(other);
  if (!full.valid() || graph_.op(full) != Op::full) return false;
  const double value = graph_.attr<ir::Number>(full, Attr::value).to_double();
  return value == 0 && !std::signbit(value);
}

std::optional<ResultPath> ResultPaths::of(ValueId result) const {
  ResultPath path;
  path.end = result;
  Shown now{whole({}, graph_.type(result).sizes), {}};
  for (EquationId e = only_reader(result); now.view && e.valid(); e = only_reader(path.end)) {
    if (graph_.op(e) != Op::view && graph_.op(e) != Op::permute) break;
    now = shown(graph_, e, now);
    path.views.push_back(e);
    path.end = graph_.result(e);
  }
  EquationId reader = only_reader(path.end);
  if (reader.valid() && adds_zero(reader, path.end)) {
    path.zero_add = reader;
    reader = only_reader(graph_.result(reader));
  }
  if (reader.valid() && graph_.op(reader) == Op::cat)
    path.cat = reader;
  else
    path.zero_add = {};
  if (now.view && !path.cat.valid()) return std::nullopt;
  return path;
}

}  // namespace tandem::codegen
