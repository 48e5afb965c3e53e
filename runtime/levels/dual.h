// Dual numbers: tensors that carry a tangent at a level of forward-mode differentiation. Each level
// is a derivative of its own, whose tangents may themselves carry tangents of the levels around it.
// `dispatch` moves them along.
#ifndef TANDEM_RUNTIME_FORWARD_DUAL_H
#define TANDEM_RUNTIME_FORWARD_DUAL_H

#include <span>
#include <string_view>

#include "runtime/levels/levels.h"

namespace tandem::runtime {

/// The tangent of `t` at level `depth` (from 1); undefined: zero. Error{Autograd} of a custom
/// function's result whose memory was written since.
Tensor tangent_at(const Tensor& t, size_t depth);
/// Replaces it. `tangent` has memory of its own, dense and in the layout of `t` but for gaps, or is
/// of the base's what t is of the base.
void set_tangent(const Tensor& t, size_t depth, const Tensor& tangent);
/// Error{Unsupported} if the view `op` of these sizes does not show of `tangent` what it shows of
/// `t`, which has gaps that the tangent has not.
void check_same_view(ir::Op op, const Tensor& t, const Tensor& tangent, const Shape& sizes);
/// Whether one of `tensors` carries a tangent at a level that operations see, inside level `depth`.
bool any_moves(std::span<const Tensor> tensors, size_t depth = 0);
/// Error{Autograd} that names `function` if one does, inside level `depth`: it knows no derivative
/// along a tangent.
void refuse_tangents(std::span<const Tensor> tensors, std::string_view function, size_t depth = 0);

/// `results`, in memory of their own, move along `made` (undefined: not) at level `depth`. Tangents
/// share no memory with each other and with `others`.
void move_values(std::span<const Tensor> results, std::span<const Tensor> made,
                 std::span<const Tensor> others, size_t depth);

/// Error{Autograd} if `t`, which is to be written, is a custom function's result that lies in the
/// memory of others, and it or they move.
void refuse_write_of_shared_result(const Tensor& t);

using Follow = TensorList (*)(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                              bool in_place, std::span<const ir::Type> types);
/// An operation on operands that move: `follow` (the operation itself), then tangents of its
/// results by the op's rule, level by level inside level `depth` of vmap (0: none), which took care
/// of those around it.
TensorList dispatch_moving(Follow follow, size_t depth, ir::Op op, std::span<const Tensor> operands,
                           ir::AttrsRef attrs, bool in_place, std::span<const ir::Type> types);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_FORWARD_DUAL_H
