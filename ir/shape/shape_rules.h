// Shape rules: from operand types and attributes to the result type. One function per name in
// ops.def's shape column; each throws Error on operands or attributes that the op does not take.
// The builder and the verifier both call them.
#ifndef TANDEM_IR_SHAPE_SHAPE_RULES_H
#define TANDEM_IR_SHAPE_SHAPE_RULES_H

#include <span>
#include <vector>

#include "ir/graph.h"

namespace tandem::ir {

/// What a shape rule sees.
struct ShapeContext {
  Op op;
  std::span<const Type> operands;
  std::span<const AttrValue> attrs;

  template <class T>
  const T& attr(Attr name) const {
    return std::get<T>(attrs[attr_index(op, name)]);
  }
};

/// The types of the results of `op`. Ops with subgraphs (call, custom_function) have their
/// results' types from the subgraph, custom operators from who registered them; both are checked
/// by check_equation and the verifier instead.
Types infer_types(Op op, std::span<const Type> operands, std::span<const AttrValue> attrs);
/// The same of an op with one result.
Type infer_type(Op op, std::span<const Type> operands, std::span<const AttrValue> attrs);

}  // namespace tandem::ir

#endif  // TANDEM_IR_SHAPE_SHAPE_RULES_H
