// What joins or overwrites parts becomes copies into regions of one value.
#include <algorithm>
#include <ranges>
#include <utility>

#include "codegen/nodes/elements.h"
#include "codegen/nodes/maker.h"
#include "ir/strides.h"

namespace tandem::codegen {
namespace {

/// The concatenation that alone reads the result of `e`, if there is one.
EquationId joined_by(Maker& m, EquationId e) {
  const EquationId reader = m.paths().only_reader(m.graph().result(e));
  return reader.valid() && m.graph().op(reader) == Op::cat ? reader : EquationId();
}

/// Says where the concatenations lie that are parts of `e` alone: in it.
void place_inner(Maker& m, EquationId e) {
  for_each_part(m, e, [&](ValueId operand, const View& part) {
    const EquationId inner = m.graph().producer(operand);
    const bool is_cat = inner.valid() && m.graph().op(inner) == Op::cat;
    if (is_cat && !m.is_known(inner) && joined_by(m, inner) == e) m.set(inner, part);
  });
}

/// Says where concatenation `e` lies: in the one that it is a part of alone, and that may be a part
/// itself; or by itself.
void place(Maker& m, EquationId e) {
  std::vector<EquationId> outer;
  for (EquationId x = e; !m.is_known(x);) {
    const EquationId reader = joined_by(m, x);
    if (!reader.valid())
      m.set(x, m.fresh(x));
    else
      outer.push_back(x = reader);
  }
  for (const EquationId x : std::views::reverse(outer)) place_inner(m, x);
  if (!m.is_known(e)) m.set(e, m.fresh(e));  // a legacy empty tensor has no place in the outer one
}

}  // namespace

void for_each_part(Maker& m, EquationId e, ir::FunctionRef<void(ValueId, const View&)> f) {
  if (!m.is_known(e)) place(m, e);
  const View dest = m.view(m.graph().result(e));
  const int dim = m.dim_attr(e, Attr::dim);
  int64_t at = 0;
  for (ValueId operand : m.graph().operands(e)) {
    const Shape& sizes = m.graph().type(operand).sizes;
    if (sizes.rank() != dest.sizes.rank()) continue;  // ATen's legacy empty tensor
    f(operand, sliced(dest, dim, at, at + sizes[dim], 1));
    at += sizes[dim];
  }
}

bool updates_input(Maker& m, const View& v) {
  const Root* root = &m.root_of(v);
  while (const Node* begun = m.begun_as_copy(*root)) root = &m.root_of(begun->operands[0]);
  if (root->kind != Root::Kind::Input) return false;
  return std::ranges::any_of(m.graph().outputs(), [&](const ir::Output& out) {
    return out.role == ir::Role::MutatedInput && out.target == root->index;
  });
}

namespace {

/// Whether the result of `e` is laid out as operand 0: new contents of an input as that, of which
/// only what is written is then touched. (as_strided counts in memory of its own.)
bool keeps_layout(Maker& m, EquationId e) {
  const View& self = m.operand(e, 0);
  return m.graph().op(e) != Op::as_strided_scatter && self.offset == 0 &&
         self.numel() == m.root_of(self).numel && !ir::self_overlaps(self.sizes, self.strides) &&
         updates_input(m, self);
}

/// Memory of its own for the result of `e`.
View place_like_self(Maker& m, EquationId e) {
  View place = m.fresh(e);
  if (!keeps_layout(m, e)) return place;
  place.strides = m.operand(e, 0).strides;
  m.root_of(place).gaps = ir::extent(place.sizes, place.strides) - place.numel();
  return place;
}

/// The part of `all` that `e` writes, which is operand 0 with operand 1 in a part of it.
View part_of(const Maker& m, EquationId e, const View& all) {
  switch (m.graph().op(e)) {
    case Op::slice_scatter:
      return sliced(all, m.dim_attr(e, Attr::dim), m.size_attr(e, Attr::start),
                    m.size_attr(e, Attr::end), m.size_attr(e, Attr::step));
    case Op::diagonal_scatter:
      return diagonal(all, m.size_attr(e, Attr::offset), m.dim_attr(e, Attr::dim0),
                      m.dim_attr(e, Attr::dim1));
    default:
      return {all.root, m.size_attr(e, Attr::offset), m.operand(e, 1).sizes,
              ir::Strides(m.dims_attr(e, Attr::strides))};
  }
}

/// What puts the result of `e` back into the whole that operand 0 is the same part of, and alone
/// reads it; none if there is no such. (as_strided counts in memory of its own.)
EquationId put_back_by(Maker& m, EquationId e) {
  const Graph& g = m.graph();
  if (g.op(e) == Op::as_strided_scatter) return {};
  ValueId value = g.result(e);
  EquationId reader = m.paths().only_reader(value);
  for (; reader.valid() && g.op(reader) == Op::view; reader = m.paths().only_reader(value))
    value = g.result(reader);
  const bool puts_back =
      reader.valid() && (g.op(reader) == Op::slice_scatter || g.op(reader) == Op::diagonal_scatter);
  if (!puts_back || g.operand(reader, 1) != value ||
      g.equation(reader).is_backward != g.equation(e).is_backward)
    return {};
  const View &self = m.operand(e, 0), &whole = m.operand(reader, 0);
  if (!whole.root.valid() || whole.root != self.root) return {};
  const auto part = reshaped(part_of(m, reader, whole), self.sizes);
  if (!part || !same_elements(*part, self)) return {};
  // The whole must lie as operand 0 does, for the part of it to be seen likewise.
  const bool lies_alike =
      is_linear(whole) || keeps_layout(m, reader) || put_back_by(m, reader).valid();
  return lies_alike ? reader : EquationId();
}

}  // namespace

namespace {

/// Whether the memory of operand 0 can go on as that of the result of `e`, so that what copies the
/// one to the other is no step: an input's that is updated, or a value's of which this is the end.
bool goes_on(Maker& m, EquationId e) {
  const View& self = m.operand(e, 0);
  if (updates_input(m, self)) return true;
  const Root& root = m.root_of(self);
  return root.kind == Root::Kind::Computed && is_linear(self) && shows_all(self, root) &&
         !m.is_read_after(m.graph().operand(e, 0), e);
}

}  // namespace

View begun_as_self(Maker& m, EquationId e) {
  if (m.is_known(e)) return m.view(m.graph().result(e));
  if (const EquationId outer = put_back_by(m, e); outer.valid()) {
    const View part = part_of(m, outer, begun_as_self(m, outer));
    m.set(e, *reshaped(part, m.result_type(e).sizes));
  } else {
    m.set(e, place_like_self(m, e));
    const NodeId copy = m.write_region(m.operand(e, 0), m.view(m.graph().result(e)));
    if (copy.valid()) m.node(copy).alone = goes_on(m, e);
  }
  return m.view(m.graph().result(e));
}

namespace {

/// Whether `src` shows a value that the one around `part` began as, and some of what has been
/// written since, or what `part` is to overwrite: not once all are in one memory.
bool shows_overwritten(const Maker& m, const View& src, const View& part) {
  const Elements shown = elements_of(src);
  bool overwritten = !are_apart(shown, elements_of(part));
  for (RootId root = part.root; root != src.root;) {
    const Node* const begun = m.begun_as_copy(m.root_of(root));
    if (begun == nullptr || begun->operands[0].strides != begun->dest.strides) return false;
    for (NodeId w : std::views::drop(m.root_of(root).writers, 1))
      overwritten = overwritten || !are_apart(shown, elements_of(m.node(w).dest));
    root = begun->operands[0].root;
  }
  return overwritten;
}

/// Operand 0, with operand 1 in a part of it.
void overwritten(Maker& m, EquationId e) {
  const View part = part_of(m, e, begun_as_self(m, e));
  if (part.numel() == 0) return;
  View src = m.operand(e, 1);
  if (same_elements(src, part)) return;
  if (shows_overwritten(m, src, part)) src = m.taken_apart(src);
  m.write_region(src, part, m.root_of(part).writers.back());
}

}  // namespace

template <>
void nodes_of<Op::cat>(Maker& m, EquationId e) {
  for_each_part(m, e, [&](ValueId operand, const View& part) {
    if (m.view(operand) != part) m.write_region(m.view(operand), part);
  });
}

template <>
void nodes_of<Op::pad>(Maker& m, EquationId e) {
  const ir::Type& t = m.result_type(e);
  const auto& padding = m.dims_attr(e, Attr::padding);
  const View& self = m.operand(e, 0);
  const Number& value = m.graph().attr<Number>(e, Attr::value);
  const View dest = m.computed(t.dtype, t.sizes);
  View inner = dest;  // shrinks dim by dim; what is cut off is filled
  for (int d = 0; d < t.rank(); ++d) {
    const int64_t before = padding[2 * static_cast<size_t>(d)], end = before + self.sizes[d];
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, before}, {end, t.sizes[d]}}) {
      if (from >= to) continue;
      const View part = sliced(inner, d, from, to, 1);
      m.write_region(m.filled(value, t.dtype, part.sizes), part);
    }
    inner = sliced(inner, d, before, end, 1);
  }
  m.write_region(self, inner);
  m.set(e, dest);
}

template <>
void nodes_of<Op::slice_scatter>(Maker& m, EquationId e) {
  overwritten(m, e);
}

template <>
void nodes_of<Op::diagonal_scatter>(Maker& m, EquationId e) {
  overwritten(m, e);
}

template <>
void nodes_of<Op::as_strided_scatter>(Maker& m, EquationId e) {
  overwritten(m, e);
}

}  // namespace tandem::codegen
