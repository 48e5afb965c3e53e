// Nodes of contractions: matmuls by the library and generated ones, and where they read and write.
#include <algorithm>
#include <array>

#include "codegen/contractions/contraction.h"
#include "codegen/library/library.h"
#include "codegen/nodes/maker.h"
#include "ir/build/free_view.h"
#include "ir/geometry.h"
#include "ir/strides.h"
#include "machine/library/matmul.h"

namespace tandem::codegen {
namespace {

View batched(const View& v) {
  if (v.sizes.rank() == 3) return v;
  return {v.root, v.offset, {1, v.sizes[0], v.sizes[1]}, {0, v.strides[0], v.strides[1]}};
}

// --- where operands are read

/// `from` as free view `e` shows it; contiguous where that is no strided view.
Shown planned_view(const Maker& m, EquationId e, const Shown& from) {
  const Graph& g = m.graph();
  const Shape& sizes = m.result_type(e).sizes;
  if (g.op(e) != Op::permute && g.op(e) != Op::expand && g.op(e) != Op::view)
    return {whole(from.view->root, sizes), {}};
  Shown to = shown(g, e, from);
  if (!to.view) to.view = whole(from.view->root, sizes);
  return to;
}

/// The strides in which contractions read `v`, whatever the partition saved: what may be saved as
/// itself, or as a copy (of an input that is overwritten), counts as contiguous, though here it may
/// be a part of something that was saved instead.
Shown layout(const Maker& m, ValueId v) {
  const Graph& g = m.graph();
  ir::InlineVector<EquationId, 4> chain;
  for (EquationId e = g.producer(v); e.valid() && ir::is_free_view(g, e); e = g.producer(v)) {
    chain.push_back(e);
    v = g.operand(e, 0);
  }
  const bool is_contiguous = g.producer(v).valid() || ir::is_overwritten(g, g.input_index(v));
  Shown out{is_contiguous ? whole({}, g.type(v).sizes) : m.view(v), {}};
  for (size_t i = chain.size(); i-- > 0;) out = planned_view(m, chain[i], out);
  return out;
}

bool same_strides(const View& a, const View& b) {
  for (int d = 0; d < a.sizes.rank(); ++d)
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

/// A copy of `v` with these strides, which are dense but for dims that repeat.
View copied_to(Maker& m, View v, const ir::Strides& strides) {
  const Shape sizes = v.sizes;
  for (int d = 0; d < sizes.rank(); ++d)
    if (strides[d] == 0) v.sizes[d] = 1;
  View dest = m.computed(m.dtype(v), v.sizes);
  dest.strides = strides;
  m.write_region(v, dest);
  dest.sizes = sizes;
  return dest;
}

/// The strides that the library reads operand `i` in where nothing else was saved.
View planned_matrix(const Maker& m, EquationId e, int i) {
  return batched(*layout(m, m.graph().operand(e, i)).view);
}

bool repeats(const View& v) { return v.sizes[0] > 1 && v.strides[0] == 0; }

/// Whether the bits of the matmul of operands number `first` and `first + 1` depend on no strides.
bool is_stride_free(const Maker& m, EquationId e, int first) {
  const View a = planned_matrix(m, e, first), b = planned_matrix(m, e, first + 1);
  return !repeats(a) && !repeats(b) && machine::is_stride_free(a.sizes[1], b.sizes[2], a.sizes[2]);
}

/// Operand `i` of a contraction as the library reads it. Unless `stride_free`, the bits of a matmul
/// may depend on the strides of its operands, so these must not depend on what was saved.
View matrix(Maker& m, EquationId e, int i, bool stride_free = false) {
  const View v = batched(m.operand(e, i)), planned = planned_matrix(m, e, i);
  if (!is_library_matrix(planned)) return m.copied(v);
  const bool reads = same_strides(v, planned) || (stride_free && fits_layout(v, planned));
  return reads ? m.stored(v) : copied_to(m, v, planned.strides);
}

// --- matmuls of merged batches

/// Contiguous strides of such matrices, rows or columns first as `planned` has them.
ir::Strides dense(const View& planned) {
  const std::array<ir::Axis, 4> transposed = {0, 1, 3, 2};
  if (planned.strides[3] == 1) return ir::contiguous_strides(planned.sizes);
  return permuted(whole({}, permuted(planned, transposed).sizes), transposed).strides;
}

/// Operand `v` of such a matmul.
View split_operand(Maker& m, ValueId v, const View& planned) {
  const View* const split = m.split_of(v);
  const bool is_split = split && split->sizes == planned.sizes;
  const View now = is_split ? *split : *reshaped(m.view(v), planned.sizes);
  const bool reads = !m.root_of(now).formula() && fits_layout(now, planned);
  return reads ? now : copied_to(m, now, dense(planned));
}

/// Where the last value of a path is to lie.
View end_of(Maker& m, const ResultPath& path) {
  const Graph& g = m.graph();
  const ir::Type& t = g.type(path.end);
  if (!path.cat.valid()) return m.computed(t.dtype, t.sizes);
  const ValueId part = path.zero_add.valid() ? g.result(path.zero_add) : path.end;
  View end;
  for_each_part(m, path.cat, [&](ValueId operand, const View& region) {
    if (operand == part) end = region;
  });
  return end;
}

/// The operand of view or permute `e` where its result lies in `to`; perhaps as `split` sizes.
std::optional<View> before_view(const Maker& m, EquationId e, const View& to, const Shape& split) {
  const Graph& g = m.graph();
  if (g.op(e) == Op::permute) {
    const ir::Axes& dims = m.axes(e);
    ir::Axes back(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) back[static_cast<size_t>(int64_t{dims[d]})] = Dim(d);
    return permuted(to, back);
  }
  if (auto from = reshaped(to, g.type(g.operand(e, 0)).sizes)) return from;
  return split.rank() > 0 ? reshaped(to, split) : std::nullopt;
}

/// Where the values of the path lie, from its end, if the last lies in `end`.
std::optional<std::vector<View>> views_before(const Maker& m, const ResultPath& path,
                                              const View& end, const Shape& domain) {
  std::vector<View> views = {end};
  for (size_t i = path.views.size(); i-- > 0;) {
    const auto from = before_view(m, path.views[i], views.back(), i == 0 ? domain : Shape());
    if (!from) return std::nullopt;
    views.push_back(*from);
  }
  return views;
}

/// Lets matmul `n`, of equation `e`, write its result to where views and a concatenation would
/// bring it, if no copy is needed then.
bool place_result(Maker& m, EquationId e, Node& n) {
  const auto path = m.paths().of(m.graph().result(e));
  if (!path) return false;
  const View end = end_of(m, *path);
  const auto views = views_before(m, *path, end, n.domain);
  if (!views) return false;
  const auto dest = reshaped(views->back(), n.domain);
  if (!dest || dest->strides[n.domain.rank() - 1] != 1 || !is_library_matrix(*dest)) return false;
  for (size_t i = 0; i < path->views.size(); ++i)
    m.set(path->views[path->views.size() - 1 - i], (*views)[i]);
  if (path->zero_add.valid()) m.set(path->zero_add, end);
  if (path->views.empty()) m.set(path->end, end);
  n.dest = *dest;
  n.whole = !path->cat.valid();
  n.plus_zero = path->zero_add.valid();
  return true;
}

/// A matmul that reads and writes its matrices where they lie, if the operands are laid out so.
bool split_matmul(Maker& m, EquationId e, const View& dest) {
  const Graph& g = m.graph();
  const ValueId a = g.operand(e, 0), b = g.operand(e, 1);
  const auto planned = split_layout(layout(m, a), layout(m, b));
  if (!planned) return false;
  Node n{.kind = Node::Kind::Matmul, .op = g.op(e), .dtype = DType::F32, .stride_free = true};
  n.operands = {split_operand(m, a, planned->a), split_operand(m, b, planned->b)};
  n.domain = n.operands[0].sizes;
  n.domain[3] = n.operands[1].sizes[3];
  if (!place_result(m, e, n)) n.dest = *reshaped(dest, n.domain);
  m.push(std::move(n));
  return true;
}

// --- contractions

/// Whether `addend`, a matrix, is one contiguous row in memory that all rows share.
bool is_bias(const Maker& m, const View& addend) {
  return addend.strides[0] == 0 && addend.strides[1] == 1 && !m.root_of(addend).formula();
}

/// One whose bits depend on no strides: it reads parts, and writes one, where they lie.
void stride_free_matmul(Maker& m, EquationId e, std::vector<View> operands, const View& dest) {
  Node n{.kind = Node::Kind::Matmul,
         .op = m.graph().op(e),
         .dtype = DType::F32,
         .domain = dest.sizes,
         .operands = std::move(operands),
         .dest = dest,
         .stride_free = true};
  place_result(m, e, n);
  m.push(std::move(n));
}

void library_contraction(Maker& m, EquationId e, std::vector<View> operands, const View& dest,
                         const View* addend) {
  const bool bias = addend && is_bias(m, *addend), accumulate = addend && !bias;
  if (bias) operands.push_back(*addend);
  const NodeId copy = accumulate ? m.write_region(*addend, dest) : NodeId();
  m.push({.kind = Node::Kind::Matmul,
          .op = m.graph().op(e),
          .dtype = DType::F32,
          .domain = dest.sizes,
          .operands = std::move(operands),
          .dest = dest,
          .whole = !accumulate,
          .after = copy,
          .accumulate = accumulate});
}

constexpr std::array<ir::Axis, 3> kTransposed = {0, 2, 1};

/// Operand `i` as products of whole matrices read it: dense, or the dense matrix that it is the
/// transposition of, of which `mark` is then added to `algorithm`.
View dense_matrix(Maker& m, EquationId e, int i, std::string_view mark, std::string& algorithm) {
  const View v = matrix(m, e, i);
  if (is_linear(v)) return v;
  const View back = permuted(v, kTransposed);
  if (!is_linear(back)) return m.copied(v);
  algorithm += mark;
  return back;
}

/// One that a function of library/ computes.
void whole_contraction(Maker& m, EquationId e, int first, const View* addend) {
  const ir::Type& t = m.result_type(e);
  std::string algorithm = m.graph().attr<std::string>(e, Attr::algorithm);
  Node n{.kind = Node::Kind::External, .op = m.graph().op(e), .dtype = t.dtype, .domain = t.sizes};
  if (addend) n.operands.push_back(is_linear(*addend) ? m.stored(*addend) : m.copied(*addend));
  n.operands.push_back(dense_matrix(m, e, first, kTransposedA, algorithm));
  n.operands.push_back(dense_matrix(m, e, first + 1, kTransposedB, algorithm));
  n.attrs = {algorithm};
  n.dest = m.computed(t.dtype, t.sizes);
  n.results = {n.dest};
  m.set(e, n.dest);
  m.push_external(std::move(n));
}

void generated_contraction(Maker& m, EquationId e, int first, const View& dest,
                           const View* addend) {
  const View a = batched(m.operand(e, first)), b = batched(m.operand(e, first + 1));
  Node n{.kind = Node::Kind::TiledMatmul,
         .op = m.graph().op(e),
         .dtype = m.dtype(dest),
         .domain = dest.sizes};
  n.operands = {m.stored(a), m.stored(b.strides[2] == 1 ? b : m.copied(b))};
  if (addend) n.operands.push_back(m.stored(*addend));
  n.dest = dest;
  m.push(std::move(n));
}

/// The contraction of operands number `first` and `first + 1` of `e`.
void contraction(Maker& m, EquationId e, int first, const View* addend) {
  const ir::Type& t = m.result_type(e);
  const bool is_empty = batched(m.operand(e, first)).sizes[2] == 0;
  const auto& algorithm = m.graph().attr<std::string>(e, Attr::algorithm);
  if (!is_empty && (algorithm == kBf16 || algorithm == kBlas))
    return whole_contraction(m, e, first, addend);
  const View dest = m.fresh(e);
  m.set(e, dest);
  if (is_empty) {
    m.write_region(addend ? *addend : m.filled(0, t.dtype, t.sizes), dest);
  } else if (is_library_contraction(t.dtype, algorithm)) {
    if (!addend && split_matmul(m, e, dest)) return;
    const bool free = is_stride_free(m, e, first);
    std::vector<View> operands = {matrix(m, e, first, free), matrix(m, e, first + 1, free)};
    if (free && !addend) return stride_free_matmul(m, e, std::move(operands), dest);
    library_contraction(m, e, std::move(operands), dest, addend);
  } else {
    generated_contraction(m, e, first, dest, addend);
  }
}

}  // namespace

template <>
void nodes_of<Op::mm>(Maker& m, EquationId e) {
  contraction(m, e, 0, nullptr);
}
template <>
void nodes_of<Op::bmm>(Maker& m, EquationId e) {
  contraction(m, e, 0, nullptr);
}
template <>
void nodes_of<Op::addmm>(Maker& m, EquationId e) {
  const View addend = m.operand(e, 0);
  contraction(m, e, 1, &addend);
}

}  // namespace tandem::codegen
