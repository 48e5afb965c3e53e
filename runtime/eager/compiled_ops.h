// Operations on large tensors run as compiled code: the operation, or the rule of its gradient, as
// a graph of its own that goes through the phases behind differentiation. Which way an operation
// goes follows from its types alone, so its bits do too (but a power of a small integer is the
// product that it is in compiled code).
#ifndef TANDEM_RUNTIME_EAGER_COMPILED_OPS_H
#define TANDEM_RUNTIME_EAGER_COMPILED_OPS_H

#include <optional>
#include <span>
#include <vector>

#include "autodiff/vjp.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime::eager {

/// Whether an operation on so many elements goes this way.
bool are_many(Dim elements);

/// Whether `op`, whose first result is of `dtype`, is one of those if its largest operand or result
/// has so many elements, and its first result so many.
bool runs_compiled(ir::Op op, DType dtype, Dim elements, Dim results);

/// The results of `op`, with these strides. None if the data are wrong: what runs in its place says
/// so in the user's terms.
std::optional<TensorList> run_compiled(ir::Op op, std::span<const Tensor> operands,
                                       std::span<const ir::AttrValue> attrs,
                                       std::span<const Strides> strides);

/// Writes the result of `op` over operand 0, whose memory the others share as it lies there or not
/// at all. False if a kernel is to do it; nothing is written then.
bool write_compiled(ir::Op op, std::span<const Tensor> operands,
                    std::span<const ir::AttrValue> attrs);

/// A value that a rule of a gradient sees: a tensor, or only its type.
struct RuleValue {
  ir::Type type;
  Tensor tensor;
};

/// What autodiff's rule of `op` gives, by operand: undefined where there is no gradient. `grads`:
/// by result, undefined where none arrived. None if the data are wrong, or if the gradients are
/// nothing but views.
std::optional<std::vector<Tensor>> gradients_compiled(ir::Op op,
                                                      std::span<const RuleValue> operands,
                                                      std::span<const RuleValue> results,
                                                      std::span<const ir::AttrValue> attrs,
                                                      std::span<const Tensor> grads,
                                                      std::span<const bool> wanted);

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_COMPILED_OPS_H
