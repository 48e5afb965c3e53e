// What pointwise functions take and write.
#ifndef TANDEM_RUNTIME_OPS_POINTWISE_OPERANDS_H
#define TANDEM_RUNTIME_OPS_POINTWISE_OPERANDS_H

#include <optional>

#include "runtime/ops/call.h"

namespace tandem::runtime {

/// Where the user calls.
const SourceLocation& place_of(const Located& a, const Located& b);

struct Pair {
  V a, b;
};
/// Two operands, of which at least one is a tensor.
Pair operands(Call& c, const Located& a, const Located& b);

/// Where ATen multiplies or divides halves by what is no half, a number or a second operand without
/// dimensions, which it does in f32 so that the result alone is rounded: both operands in f32.
std::optional<Pair> unrounded(Call& c, ir::Op op, const Located& a, const Located& b,
                              const Pair& p);

/// Whether ATen takes the square root for this power: the exponent is the number 1/2, and `dtype`
/// is not f16. Of -0 and of -inf the root is not the power.
bool is_root(DType dtype, const Located& exponent);

/// What was given as `operand`, in f32: a number rounded to that alone.
V in_f32(Call& c, const Located& given, V operand);

V at_least_float(Call& c, V x);
void require_floating(Call& c, V x);
/// Beside tensors numbers wrap into their dtype; not where they are bounds or exponents of
/// integers. `v`: the operand, the second one of `op`.
void require_fitting(Call& c, ir::Op op, const Located& operand, V v);
/// ATen has no differences with bool, though it would promote to one of numbers.
void require_no_bool(const Located& a, const Located& b);

/// self, which is to be written, as an operand: a copy where a gradient may need what it was.
Tensor before_write(const Tensor& self, const SourceLocation& at, const Located* other = nullptr);
/// The elements of `value`, which was made of self and `other`, written over self. (What was
/// converted lies elsewhere.)
const Tensor& write(const Tensor& self, const Tensor& value, const SourceLocation& at,
                    const Located* other = nullptr);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_POINTWISE_OPERANDS_H
