// Internal to the shape rules: one function per name in ops.def's shape column, and how they
// report what they refuse.
#ifndef TANDEM_IR_SHAPE_SHAPE_RULE_FUNCTIONS_H
#define TANDEM_IR_SHAPE_SHAPE_RULE_FUNCTIONS_H

#include <string>
#include <string_view>

#include "ir/base/error.h"
#include "shape_rules.h"

namespace tandem::ir::shape_rule {

// Several ops name the same rule, so that a function may be declared more than once here. One that
// is never defined does not link.
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  ResultsOf<Type, count_results(operands)> shape(const ShapeContext& context);
#include "ir/ops.def"

/// Throws Error "op: problem; expected `expected`, got `got`".
[[noreturn]] void reject(const ShapeContext& c, Errc code, std::string_view problem,
                         std::string_view expected, std::string_view got);

/// The operands' sizes: "[2, 3] and [4]"; their types: "f32[2, 3] and i64[4]".
std::string all_sizes(const ShapeContext& c);
std::string all_types(const ShapeContext& c);

/// Requires a floating first operand.
void require_floating(const ShapeContext& c);
/// Requires all operands to have the first one's dtype.
void require_same_dtype(const ShapeContext& c);
/// Requires all operands to have the first one's type.
void require_same_type(const ShapeContext& c);
/// `dim` in [0, rank).
void require_dim(const ShapeContext& c, int64_t dim, int rank);
/// Ascending dims in [0, rank).
void require_dims(const ShapeContext& c, const Axes& dims, int rank);

}  // namespace tandem::ir::shape_rule

#endif  // TANDEM_IR_SHAPE_SHAPE_RULE_FUNCTIONS_H
