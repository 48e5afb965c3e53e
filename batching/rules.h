// How batching rules are written: by kind, or as a formula, e.g.
//   const BatchRule batch_cumsum = kAligned;
//   const BatchRule batch_mm = formula([](Examples e) { return matrix_product(e, e[0], e[1]); });
#ifndef TANDEM_BATCHING_RULES_H
#define TANDEM_BATCHING_RULES_H

#include <type_traits>

#include "batching/batch.h"

namespace tandem::batching {

// One rule per op; an op without a definition in this folder does not link.
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  extern const BatchRule batch_##name;
#include "ir/ops.def"

using V = ir::ValueId;
using ir::Attr;
using ir::Axes;
using ir::Axis;
using ir::Builder;
using ir::Dim;
using ir::Dims;
using ir::Op;
using ir::Shape;
using ir::ValueList;

/// An operand: with the examples in front, or the same for all.
struct Value {
  V v;
  bool batched;
};

/// What a formula sees.
struct Examples {
  explicit Examples(BatchContext& context) : c(context), b(context.b) {}

  BatchContext& c;
  Builder& b;

  size_t count() const { return c.operands.size(); }
  Value operator[](size_t i) const { return {c.operands[i], c.batched[i]}; }
  bool batched(size_t i) const { return i < count() && c.batched[i]; }
  template <class T>
  const T& attr(Attr name) const {
    return std::get<T>(c.attrs[static_cast<size_t>(ir::attr_index(c.op, name))]);
  }

  /// The sizes of one example.
  Shape sizes(Value x) const;
  int rank(Value x) const { return b.rank(x.v) - (x.batched ? 1 : 0); }
  /// [size, ...]: of what is the same for all a view.
  V spread(Value x) const;
  V spread(size_t i) const { return spread((*this)[i]); }
  /// spread(x) as [size * n, ...], the examples in the first dimension.
  V folded(Value x) const;
  V folded(size_t i) const { return folded((*this)[i]); }
  /// [size * n, ...] as [size, n, ...].
  V unfolded(V v) const;
  /// The op on these operands, with these attributes.
  V emit(std::span<const V> operands, ir::AttrsRef attrs) const {
    return b.emit(c.op, operands, attrs);
  }
  V emit(std::initializer_list<V> operands, ir::AttrsRef attrs) const {
    return b.emit(c.op, operands, attrs);
  }
};

/// The attributes with `value` in place of `name`.
std::vector<ir::AttrValue> with_attr(const BatchContext& c, Attr name, ir::AttrValue value);
/// The attributes, dimensions one further behind.
std::vector<ir::AttrValue> moved_attrs(const BatchContext& c);

inline ValueList as_values(ValueList all) { return all; }
inline ValueList as_values(V one) { return {one}; }

template <class F>
constexpr BatchRule formula(F) {
  return {BatchRule::Kind::Formula, [](BatchContext& c) { return as_values(F{}(Examples(c))); }};
}

inline constexpr BatchRule kAligned{BatchRule::Kind::Aligned};
inline constexpr BatchRule kFolded{BatchRule::Kind::Folded};
inline constexpr BatchRule kDecomposed{BatchRule::Kind::Decomposed};
inline constexpr BatchRule kAlone{BatchRule::Kind::Alone};
inline constexpr BatchRule kOfSubgraph{BatchRule::Kind::Subgraph};
inline constexpr BatchRule kLoop{BatchRule::Kind::Loop};

}  // namespace tandem::batching

#endif  // TANDEM_BATCHING_RULES_H
