// Nodes that read or write at positions which come from data.
#include "codegen/kernels/scatter.h"
#include "codegen/nodes/maker.h"

namespace tandem::codegen {
namespace {

/// A table in memory: of what is repeated, once.
View stored_table(Maker& m, const View& table) {
  if (!m.root_of(table).formula()) return table;
  const View stored = m.stored(without_repetition(table));
  View shown{stored.root, stored.offset, table.sizes, ir::Strides::filled(table.sizes.rank(), 0)};
  int next = 0;
  for (int d = 0; d < table.sizes.rank(); ++d)
    if (table.strides[d] != 0 && table.sizes[d] != 1) shown.strides[d] = stored.strides[next++];
  return shown;
}

void gather(Maker& m, EquationId e, const View& index) {
  const ir::Type& t = m.result_type(e);
  const int dim = m.dim_attr(e, Attr::dim);
  View table = stored_table(m, m.operand(e, 0));
  Node n{.kind = Node::Kind::Gather, .op = Op::gather, .dtype = t.dtype, .domain = t.sizes};
  n.gather_stride = table.strides[dim];
  n.gather_extent = table.sizes[dim];
  table.sizes = t.sizes;
  table.strides[dim] = 0;
  n.table = table;
  n.operands = {m.converted(index, DType::I64)};
  n.dest = m.computed(t.dtype, t.sizes);
  n.check = m.check_text(e);
  m.set(e, n.dest);
  m.push(std::move(n));
}

/// Checks an index of `e`, in memory as i64, by itself.
void check_index(Maker& m, EquationId e, const View& index) {
  if (index.numel() == 0) return;
  const View positions = without_repetition(index);
  View table = positions;  // the first of them, for any index
  table.strides = ir::Strides::filled(table.sizes.rank(), 0);
  m.push({.kind = Node::Kind::Gather,
          .op = Op::gather,
          .dtype = DType::I64,
          .domain = positions.sizes,
          .operands = {positions},
          .dest = m.computed(DType::I64, positions.sizes),
          .whole = false,
          .only_checks = true,
          .table = table,
          .gather_extent = m.graph().type(m.graph().operand(e, 0)).sizes[m.dim_attr(e, Attr::dim)],
          .check = m.check_text(e)});
}

View stored_index(Maker& m, const View& index) { return m.stored(m.converted(index, DType::I64)); }

/// The index [k] as a view over `sizes`, along `dim`.
View along(const View& index, int dim, const Shape& sizes) {
  View v{index.root, index.offset, sizes, ir::Strides::filled(sizes.rank(), 0)};
  v.strides[dim] = index.strides[0];
  return v;
}

/// Whether a scatter from `sizes` along `dim` reaches all of a destination's other dims.
bool covers(const Shape& sizes, const Shape& destination, int dim) {
  for (int d = 0; d < sizes.rank(); ++d)
    if (d != dim && sizes[d] != destination[d]) return false;
  return true;
}

/// Whether the one reader of `v` may go on in its memory: if that is `v`'s alone, and a
/// matmul or another scatter wrote it last. (Into other nodes a copy is fused.)
bool can_take_over(Maker& m, ValueId v) {
  if (!m.is_used_up(v)) return false;
  const View& view = m.view(v);
  const Root& root = m.root_of(view);
  return !root.writers.empty() && shows_all(view, root) &&
         traits_of(m.node(root.writers.back()).kind).takes_writes;
}

/// Operand 0 of scatter `e` where it may be written on: a copy, or itself. `after`: the node that
/// wrote there last.
View writable(Maker& m, EquationId e, NodeId& after) {
  const View initial = m.operand(e, 0);
  if (can_take_over(m, m.graph().operand(e, 0))) {
    const auto& writers = m.root_of(initial).writers;
    for (NodeId n : writers) m.node(n).whole = false;
    after = writers.back();
    return initial;
  }
  const View dest = begun_as_self(m, e);
  if (dest.numel() != 0) after = m.root_of(dest).writers.back();
  return dest;
}

/// `op`: what becomes of a place and an element of src: their sum (scatter_add), or the element,
/// ...
void scatter_to(Maker& m, EquationId e, Op op, const View& index, View src) {
  const ir::Type& t = m.result_type(e);
  const int dim = m.dim_attr(e, Attr::dim);
  const View initial = m.operand(e, 0);
  for (int d = 0; d < src.sizes.rank(); ++d) src.sizes[d] = index.sizes[d];
  const bool fills = src.numel() != 0 && covers(src.sizes, t.sizes, dim) && m.is_full(initial) &&
                     scatters_rows(index, dim, src.sizes);
  // What is checked by itself cannot fail when it writes, which it then may do where the input is.
  const bool is_checked = src.numel() != 0 && updates_input(m, initial);
  const View positions = is_checked ? stored_index(m, index) : m.converted(index, DType::I64);
  if (is_checked) check_index(m, e, positions);
  NodeId after;
  const View dest = fills ? m.fresh(e) : writable(m, e, after);
  m.set(e, dest);
  if (src.numel() == 0) return;
  std::vector<View> operands = {positions, src};
  if (fills) operands.push_back(initial);
  View over = dest;
  over.sizes = src.sizes;
  over.strides[dim] = 0;
  m.push({.kind = Node::Kind::Scatter,
          .op = op,
          .dtype = t.dtype,
          .domain = src.sizes,
          .operands = std::move(operands),
          .dest = dest,
          .whole = fills,
          .after = after,
          .table = over,
          .gather_stride = dest.strides[dim],
          .gather_extent = t.sizes[dim],
          .scatter_dim = dim,
          .check = m.check_text(e)});
}

}  // namespace

template <>
void nodes_of<Op::gather>(Maker& m, EquationId e) {
  gather(m, e, m.operand(e, 1));
}

template <>
void nodes_of<Op::index_select>(Maker& m, EquationId e) {
  const Shape& sizes = m.result_type(e).sizes;
  if (ir::numel(sizes) == 0) check_index(m, e, stored_index(m, m.operand(e, 1)));
  gather(m, e, along(m.operand(e, 1), m.dim_attr(e, Attr::dim), sizes));
}

#define SCATTER(op)                                             \
  template <>                                                   \
  void nodes_of<Op::op>(Maker & m, EquationId e) {              \
    scatter_to(m, e, Op::op, m.operand(e, 1), m.operand(e, 2)); \
  }
SCATTER(scatter)
SCATTER(scatter_add)
SCATTER(scatter_prod)
SCATTER(scatter_amax)
SCATTER(scatter_amin)
#undef SCATTER

template <>
void nodes_of<Op::index_add>(Maker& m, EquationId e) {
  const View& src = m.operand(e, 2);
  if (src.numel() == 0) check_index(m, e, stored_index(m, m.operand(e, 1)));
  const View index = along(m.operand(e, 1), m.dim_attr(e, Attr::dim), src.sizes);
  scatter_to(m, e, Op::scatter_add, index, src);
}

}  // namespace tandem::codegen
