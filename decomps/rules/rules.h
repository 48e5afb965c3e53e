// The decompositions, one function per composite of ops.def. This header declares them all from
// that table, so a composite without one does not link. A rule writes to its Builder what the
// formula in its comment says; it may use other composites, which are decomposed in turn.
#ifndef TANDEM_DECOMPS_RULES_RULES_H
#define TANDEM_DECOMPS_RULES_RULES_H

#include <optional>
#include <span>
#include <vector>

#include "ir/build/builder.h"

namespace tandem::decomps {

/// What a rule sees of the equation that it replaces. Low-precision operands of pointwise and
/// reduction composites arrive converted to f32.
struct Context {
  ir::Builder& b;
  ir::Op op;
  std::span<const ir::ValueId> operands;
  std::span<const ir::AttrValue> attrs;
  std::span<const ir::Type> results;

  const ir::Type& result(int i = 0) const { return results[static_cast<size_t>(i)]; }
  ir::ValueId operator[](int i) const { return operands[static_cast<size_t>(i)]; }
  /// Operand `i`, if the equation has so many.
  std::optional<ir::ValueId> optional(size_t i) const {
    return i < operands.size() ? std::optional(operands[i]) : std::nullopt;
  }
  template <class T>
  const T& attr(ir::Attr name) const {
    return std::get<T>(attrs[static_cast<size_t>(ir::attr_index(op, name))]);
  }
};

/// Returns the values that stand for the equation's results, of their types.
using Rule = ir::ValueList (*)(Context&);

/// The decomposition of a composite; null for a primitive.
Rule rule_of(ir::Op op);

namespace rules {
using ir::Attr;
using ir::Builder;
using ir::Dim;
using ir::DType;
using ir::Number;
using ir::Op;
using ir::Shape;
using V = ir::ValueId;

/// Halves in f32.
inline V wide(Builder& b, V x) {
  const DType dtype = b.dtype(x);
  return ir::is_half(dtype) ? b.convert(x, DType::F32) : x;
}

#define TANDEM_DECLARE_Primitive(name, operands)
#define TANDEM_DECLARE_Composite(name, operands) \
  ir::ResultsOf<V, ir::count_results(operands)> name(Context& c);
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  TANDEM_DECLARE_##level(name, operands)
#include "ir/ops.def"
#undef TANDEM_DECLARE_Primitive
#undef TANDEM_DECLARE_Composite

}  // namespace rules
}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_RULES_RULES_H
