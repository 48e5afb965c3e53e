// Views have no nodes: they become the strides in which operands are read. What strides cannot
// express takes a copy.
#include "codegen/nodes/maker.h"

namespace tandem::codegen {
namespace {

/// A view or permute.
void rearranged(Maker& m, EquationId e) {
  if (m.is_known(e)) return;
  const Graph& g = m.graph();
  const View from = m.operand(e, 0);
  const View* const split = m.split_of(g.operand(e, 0));
  const Shown to = shown(g, e, {from, split ? std::optional(*split) : std::nullopt});
  if (to.split) m.set_split(g.result(e), *to.split);
  m.set(e, to.view ? *to.view : *reshaped(m.copied(from), m.result_type(e).sizes));
}

}  // namespace

template <>
void nodes_of<Op::view>(Maker& m, EquationId e) {
  rearranged(m, e);
}
template <>
void nodes_of<Op::permute>(Maker& m, EquationId e) {
  rearranged(m, e);
}

template <>
void nodes_of<Op::expand>(Maker& m, EquationId e) {
  m.set(e, expanded(m.operand(e, 0), m.result_type(e).sizes));
}

template <>
void nodes_of<Op::slice>(Maker& m, EquationId e) {
  m.set(e, sliced(m.operand(e, 0), m.dim_attr(e, Attr::dim), m.size_attr(e, Attr::start),
                  m.size_attr(e, Attr::end), m.size_attr(e, Attr::step)));
}

template <>
void nodes_of<Op::diagonal>(Maker& m, EquationId e) {
  m.set(e, diagonal(m.operand(e, 0), m.size_attr(e, Attr::offset), m.dim_attr(e, Attr::dim0),
                    m.dim_attr(e, Attr::dim1)));
}

template <>
void nodes_of<Op::flip>(Maker& m, EquationId e) {
  m.set(e, flipped(m.operand(e, 0), m.axes(e)));
}

template <>
void nodes_of<Op::as_strided>(Maker& m, EquationId e) {
  View v = m.operand(e, 0);
  const auto runs = collapsed(v);
  if (runs.size() > 1 || (runs.size() == 1 && runs[0].stride != 1)) v = m.copied(v);
  m.set(e, {v.root, v.offset + m.size_attr(e, Attr::offset), m.result_type(e).sizes,
            ir::Strides(m.dims_attr(e, Attr::strides))});
}

}  // namespace tandem::codegen
