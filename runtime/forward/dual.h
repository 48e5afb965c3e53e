// Dual numbers: tensors that carry a tangent at a level of forward-mode differentiation. Levels of
// a thread are nested; each is a derivative of its own, whose tangents may themselves carry
// tangents of the levels around it. `dispatch` moves them along.
#ifndef TANDEM_RUNTIME_FORWARD_DUAL_H
#define TANDEM_RUNTIME_FORWARD_DUAL_H

#include <span>
#include <string_view>

#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// How many levels operations of this thread see, the outermost first.
size_t dual_depth();

/// Operations see only the outermost `depth` levels while it lives.
class DualDepth {
 public:
  explicit DualDepth(size_t depth);
  ~DualDepth();
  DualDepth(const DualDepth&) = delete;
  DualDepth& operator=(const DualDepth&) = delete;

 private:
  size_t previous_;
};

/// Begins a level; ends the last one, whose tangents go.
void enter_dual_level();
void leave_dual_level();

/// The tangent of `t` at level `depth` (from 1); undefined: zero.
Tensor tangent_at(const Tensor& t, size_t depth);
/// Replaces it. `tangent` has memory of its own, dense and in the layout of `t` but for gaps, or is
/// of the base's what t is of the base.
void set_tangent(const Tensor& t, size_t depth, const Tensor& tangent);
/// Error{Unsupported} if the view `op` of these sizes does not show of `tangent` what it shows of
/// `t`, which has gaps that the tangent has not.
void check_same_view(ir::Op op, const Tensor& t, const Tensor& tangent, const Shape& sizes);
/// Whether one of `tensors` carries a tangent at a level that operations see.
bool any_moves(std::span<const Tensor> tensors);
/// Error{Autograd} that names `function` if one does: it knows no derivative along a tangent.
void refuse_tangents(std::span<const Tensor> tensors, std::string_view function);

using Follow = TensorList (*)(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                              bool in_place, std::span<const ir::Type> types);
/// An operation on operands that move: `follow` (the operation itself), then tangents of its
/// results by the op's rule, level by level.
TensorList dispatch_moving(Follow follow, ir::Op op, std::span<const Tensor> operands,
                           ir::AttrsRef attrs, bool in_place, std::span<const ir::Type> types);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_FORWARD_DUAL_H
