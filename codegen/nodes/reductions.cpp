// Reductions become what one sweep computes (rows; partials of blocks) and what combines partials.
#include <algorithm>
#include <array>
#include <limits>

#include "codegen/nodes/maker.h"
#include "ir/reduction_order.h"

namespace tandem::codegen {
namespace {

/// How many partials one expression combines. Others that are the identity change no bit (no sum is
/// -0), and spare code for each number there is.
constexpr std::array<int64_t, 12> kTrees = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
/// So many neighbouring runs are worth two sweeps over rows, where a sweep down each is the other
/// way.
constexpr int64_t kManyColumns = 16;
/// With fewer runs than this, a run of several blocks is shared out among threads by blocks.
constexpr int64_t kManyRuns = 16;

/// Whether the view's memory steps unevenly somewhere inside its innermost `inner * n` elements but
/// not at `inner`.
bool uneven_inside(const View& v, int64_t n, int64_t inner) {
  int64_t suffix = 1;
  const auto runs = collapsed(v);
  for (auto r = runs.rbegin(); r != runs.rend(); ++r) {
    if (suffix > inner && suffix < inner * n) return true;
    suffix *= r->size;
  }
  return false;
}

void split_sizes(Reduction& r, const Shape& sizes, int64_t first, int64_t last) {
  for (int d = 0; d < sizes.rank(); ++d)
    (d < first ? r.outer : d <= last ? r.n : r.inner) *= int64_t{sizes[d]};
}

View reduced_last(const View& x, const ir::Axes& dims) {
  ir::Axes order;
  for (int d = 0; d < x.sizes.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  order.append(dims);
  return permuted(x, order);
}

/// Over no or one element.
View trivial(Maker& m, const Reduction& r, const View& x, const ir::Type& t) {
  if (finds_position(r.combine)) return m.filled(0, t.dtype, t.sizes);
  const Number identity = identity_of(r.combine, t.dtype);
  if (r.n == 0) return m.filled(identity, t.dtype, t.sizes);
  const View only = m.reshape(x, t.sizes);
  if (r.combine != Combine::Sum) return only;  // +0 + x differs from x where x is -0
  return m.pointwise(Op::add, {m.filled(identity, t.dtype, t.sizes), only}, t.dtype, t.sizes);
}

View reduce_node(Maker& m, Node::Kind kind, Reduction r, const View& x, DType type,
                 const Shape& sizes) {
  const View dest = m.computed(type, sizes);
  const View operand = uneven_inside(x, r.n, r.inner) ? m.copied(x) : x;
  m.push({.kind = kind,
          .op = Op::sum,
          .dtype = type,
          .domain = x.sizes,
          .operands = {operand},
          .dest = dest,
          .name = "reduce",
          .reduction = r});
  return dest;
}

/// [outer, blocks] -> [outer], by pairs of neighbours: blocks of one element.
View combine_row(Maker& m, Reduction r, const View& partial, DType type) {
  r.outer = partial.sizes[0], r.n = partial.sizes[1], r.inner = 1;
  r.lanes = 1, r.block = 1;
  return reduce_node(m, Node::Kind::RowReduce, r, partial, type, {r.outer});
}

View row_reduction(Maker& m, Reduction r, const View& x, DType type) {
  if (r.blocks() == 1 || r.outer >= kManyRuns)
    return reduce_node(m, Node::Kind::RowReduce, r, x, type, {r.outer});
  const View partial = reduce_node(m, Node::Kind::RowPartial, r, x, type, {r.outer, r.blocks()});
  return combine_row(m, r, partial, type);
}

/// [outer, groups * blocks, inner] -> [outer, groups, inner].
View combine_columns(Maker& m, const Reduction& r, const View& partial, int64_t blocks,
                     DType type) {
  const int64_t groups = partial.sizes[1] / blocks;
  const View grouped = *reshaped(partial, {r.outer, groups, blocks, r.inner});
  const View first = *reshaped(sliced(grouped, 2, 0, 1, 1), {r.outer, groups, r.inner});
  const View dest = m.computed(type, first.sizes);
  m.push({.kind = Node::Kind::Fold,
          .op = combining_op(r.combine),
          .dtype = type,
          .domain = first.sizes,
          .operands = {first},
          .dest = dest,
          .parts = blocks,
          .part_step = r.inner});
  return dest;
}

/// At least `blocks`, so many that one expression combines them, or groups of them that are as
/// large as can be, and groups of groups.
int64_t padded(int64_t blocks) {
  int64_t group = 1;
  while (blocks > group * kTrees.back()) group *= kTrees.back();
  return group * *std::ranges::lower_bound(kTrees, (blocks + group - 1) / group);
}

View column_reduction(Maker& m, Reduction r, const View& x, DType type) {
  r.empty_blocks = padded(r.blocks()) - r.blocks();
  View out = reduce_node(m, Node::Kind::ColPartial, r, x, type, {r.outer, r.blocks(), r.inner});
  while (out.sizes[1] > 1)
    out = combine_columns(m, r, out, std::min(int64_t{out.sizes[1]}, kTrees.back()), type);
  return out;
}

/// The numbers 0, 1, ... along `dims` of `sizes`.
View numbers_along(Maker& m, const ir::Axes& dims, DType type, const Shape& sizes) {
  Shape run = Shape::filled(sizes.rank(), 1);
  for (const ir::Axis d : dims) run[d] = sizes[d];
  const RootId root = m.add({.kind = Root::Kind::Iota,
                             .dtype = type,
                             .numel = ir::numel(run),
                             .first = Number(0),
                             .increment = Number(1)});
  return expanded(whole(root, run), sizes);
}

/// The positions of extrema in neighbouring runs: one sweep over rows finds the extrema, another
/// where the first elements are that equal them. (Of a NaN, the first NaN.)
View column_positions(Maker& m, Reduction r, const View& x, const ir::Axes& dims) {
  Shape kept = x.sizes;
  for (const ir::Axis d : dims) kept[d] = 1;
  r.combine = r.combine == Combine::ArgMax ? Combine::Max : Combine::Min;
  const View extremum = *reshaped(column_reduction(m, r, x, r.dtype), kept);
  View is_there = m.pointwise(Op::eq, {x, expanded(extremum, x.sizes)}, DType::Bool, x.sizes);
  if (ir::is_floating(r.dtype)) {
    const View is_nan = m.pointwise(Op::ne, {x, x}, DType::Bool, x.sizes);
    is_there = m.pointwise(Op::logical_or, {is_there, is_nan}, DType::Bool, x.sizes);
  }
  r.combine = Combine::Min;
  r.dtype = r.n <= std::numeric_limits<int32_t>::max() ? DType::I32 : DType::I64;
  const View places = m.pointwise(
      Op::where,
      {is_there, numbers_along(m, dims, r.dtype, x.sizes), m.filled(r.n, r.dtype, x.sizes)},
      r.dtype, x.sizes);
  return m.converted(column_reduction(m, r, places, r.dtype), DType::I64);
}

/// What a sum of `n` elements of dtype `from` is made in, to be an i64: in i32 where no such sum
/// leaves that, as vectors hold more of these.
DType integer_sum(DType from, int64_t n) {
  if (ir::size_of(from) > 2) return DType::I64;
  const int64_t most = from == DType::Bool ? 1 : int64_t{1} << (8 * ir::size_of(from));
  return n <= std::numeric_limits<int32_t>::max() / most ? DType::I32 : DType::I64;
}

/// What the elements are reduced in.
DType reduced_in(Combine combine, DType from, DType result, int64_t n) {
  if (finds_position(combine)) return from;
  return combine == Combine::Sum && ir::is_integral(from) ? integer_sum(from, n) : result;
}

int64_t numel_along(const Shape& sizes, const ir::Axes& dims) {
  int64_t n = 1;
  for (const ir::Axis d : dims) n *= int64_t{sizes[d]};
  return n;
}

}  // namespace

void reduction_nodes(Maker& m, EquationId e) {
  const ir::Type& t = m.result_type(e);
  const Combine combine = combine_of(m.graph().op(e));
  const bool position = finds_position(combine);
  View x = m.operand(e, 0);
  const ir::Axes& dims = m.axes(e);
  const DType type = reduced_in(combine, m.dtype(x), t.dtype, numel_along(x.sizes, dims));
  x = m.converted(x, type);
  const bool neighbours = dims.back() - dims[0] + 1 == static_cast<int64_t>(dims.size());
  Reduction r{.combine = combine, .dtype = m.dtype(x)};
  if (!neighbours) x = reduced_last(x, dims);
  split_sizes(r, x.sizes,
              neighbours ? dims[0] : x.sizes.rank() - static_cast<ir::Axis>(dims.size()),
              neighbours ? dims.back() : x.sizes.rank() - 1);
  const ir::ReductionOrder order = ir::reduction_order(m.dims_attr(e, Attr::order), r.n);
  r.lanes = order.lanes;
  r.block = order.block;
  if (r.n <= 1) return m.set(e, trivial(m, r, position ? x : m.converted(x, t.dtype), t));
  if (position && r.inner >= kManyColumns && r.lanes == 1)
    return m.set(e, *reshaped(column_positions(m, r, x, dims), t.sizes));
  if (position) r.block = r.n;
  if (r.inner != 1 && (position || r.lanes != 1)) {
    x = reduced_last(x, dims);
    r.outer *= r.inner;
    r.inner = 1;
  }
  const DType dest = position ? t.dtype : type;
  const View result = r.inner == 1 ? row_reduction(m, r, x, dest) : column_reduction(m, r, x, dest);
  m.set(e, *reshaped(m.converted(result, t.dtype), t.sizes));
}

}  // namespace tandem::codegen
