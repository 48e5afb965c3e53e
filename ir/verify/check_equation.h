// What one equation must satisfy by its op's row in ops.def. Internal: the parser, the JSON reader
// and the verifier share it.
#ifndef TANDEM_IR_VERIFY_CHECK_EQUATION_H
#define TANDEM_IR_VERIFY_CHECK_EQUATION_H

#include <span>

#include "ir/attr.h"
#include "ir/op.h"

namespace tandem::ir {

/// Throws Error unless the numbers of operands and results, the attributes and the types are what
/// `op` takes and gives. For ops with subgraphs the result types are left to the verifier.
void check_equation(Op op, bool in_place, std::span<const Type> operands,
                    std::span<const AttrValue> attrs, std::span<const Type> results);

/// Throws Error unless `attrs` are what a view `op` takes; returns the type it gives.
Type check_view_step(Op op, const Type& operand, std::span<const AttrValue> attrs);

/// Throws Error if sizes are negative or the bytes of `type` cannot be counted.
void check_type(const Type& type);

/// Throws Error unless `strides` are one per dimension, not negative, and such that the distances
/// of any two elements, and of elements of two tensors, can be counted in bytes.
void check_layout(const Type& type, const Strides& strides);

/// Throws Error unless an alias whose first element lies `offset` bytes behind another's is within
/// the same bounds.
void check_alias_offset(Dim offset, const Type& type, const Strides& strides);

}  // namespace tandem::ir

#endif  // TANDEM_IR_VERIFY_CHECK_EQUATION_H
