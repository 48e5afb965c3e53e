// Batched tensors: what vmap's function sees. One has the geometry of a single example over the
// memory of all; operations on it happen to its physical tensor, whose dimension 0 counts examples,
// by the op's batching rule.
#ifndef TANDEM_RUNTIME_LEVELS_BATCHED_H
#define TANDEM_RUNTIME_LEVELS_BATCHED_H

#include <span>
#include <string_view>

#include "ir/base/function_ref.h"
#include "runtime/levels/levels.h"

namespace tandem::runtime {

inline bool is_batched(const Tensor& t) { return t.impl()->batched != nullptr; }
/// The depth of the level that `t` is batched at; 0 if it is not. Error{Argument} if that level has
/// ended.
size_t batch_depth(const Tensor& t);
/// The innermost level at which one of these is, undefined ones left out; 0: none.
size_t batch_depth(std::span<const Tensor> tensors);
/// One example of `physical` at level `depth`.
Tensor one_example(const Tensor& physical, size_t depth);
/// All examples of `t` at level `depth`, [size, ...]; of a tensor that is the same for all a view.
Tensor all_examples(const Tensor& t, size_t depth);
/// `t`, of a floating dtype, or a tensor of its elements and history that is batched at each level
/// that `like` is batched at.
Tensor batched_as(const Tensor& t, const Tensor& like);

/// Error{Argument} if the elements of `t` are asked for: it stands for many.
void refuse_batched(const Tensor& t, std::string_view what);

/// The innermost level of vmap at which `op` on these is one on many examples; 0: none.
/// Error{Argument} for random numbers where none are allowed.
size_t batch_level_of(ir::Op op, std::span<const Tensor> operands);
/// `op` at that level.
TensorList dispatch_batched(size_t depth, ir::Op op, std::span<const Tensor> operands,
                            ir::AttrsRef attrs, bool in_place, std::span<const ir::Type> types);

/// How many numbers a random operation of `count` draws at the levels that it sees.
Dim draws_at_levels(Dim count);

/// Whether a gradient of `t`, or of all examples of it, leads anywhere.
bool is_differentiated(const Tensor& t);

/// The results of `run` for each example of `tensors` at level `depth`, in operations of the levels
/// around it. Says once for each function that it runs example by example.
std::vector<Tensor> each_example(
    std::string_view function, std::span<const Tensor> tensors, size_t depth,
    ir::FunctionRef<std::vector<Tensor>(const std::vector<Tensor>&)> run);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_LEVELS_BATCHED_H
