// Constants and ranges are formulas, without memory; random numbers are nodes.
#include "codegen/nodes/maker.h"

namespace tandem::codegen {

template <>
void nodes_of<Op::full>(Maker& m, EquationId e) {
  const ir::Type& t = m.result_type(e);
  m.set(e, m.filled(m.graph().attr<Number>(e, Attr::value), t.dtype, t.sizes));
}

template <>
void nodes_of<Op::iota>(Maker& m, EquationId e) {
  const ir::Type& t = m.result_type(e);
  m.set(e, whole(m.add({.kind = Root::Kind::Iota,
                        .dtype = t.dtype,
                        .numel = ir::numel(t.sizes),
                        .first = m.graph().attr<Number>(e, Attr::first),
                        .increment = m.graph().attr<Number>(e, Attr::increment)}),
                 t.sizes));
}

template <>
void nodes_of<Op::random_bits>(Maker& m, EquationId e) {
  const ir::Type& t = m.result_type(e);
  const View& rng = m.operand(e, 0);
  const ir::Strides scalar = ir::Strides::filled(t.rank(), 0);
  const View key{rng.root, rng.offset, t.sizes, scalar};
  const View base{rng.root, rng.offset + rng.strides[0], t.sizes, scalar};
  const View dest = m.computed(t.dtype, t.sizes);
  m.push({.kind = Node::Kind::Random,
          .op = Op::random_bits,
          .dtype = t.dtype,
          .domain = t.sizes,
          .operands = {key, base},
          .dest = dest,
          .random_offset = m.size_attr(e, Attr::offset)});
  m.set(e, dest);
}

}  // namespace tandem::codegen
