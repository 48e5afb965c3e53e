// One operation on operands that carry tangents.
#include <algorithm>

#include "autodiff/forward/jvp.h"
#include "ir/base/error.h"
#include "ir/strides.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {
namespace {

using Tensors = ir::InlineVector<Tensor, 4>;

std::span<const Tensor> all(const Tensors& tensors) { return {tensors.data(), tensors.size()}; }

/// The operands' tangents at level `depth`, undefined where zero; none at all: empty.
Tensors tangents_of(std::span<const Tensor> operands, size_t depth) {
  Tensors tangents;
  for (const Tensor& t : operands) tangents.push_back(tangent_at(t, depth));
  return std::ranges::any_of(tangents, &Tensor::defined) ? tangents : Tensors();
}

/// The tangent of `t` in memory of its own, which lies as that of t: what writes or views t writes
/// or views its tangent.
Tensor with_own_memory(const Tensor& t, const Tensor& tangent, std::span<const Tensor> others) {
  const Tensor laid_out = laid_out_like(batched_as(tangent, t), t, current_location());
  if (laid_out.impl() != tangent.impl()) return laid_out;
  const auto shares = [&](const Tensor& o) { return o.defined() && share_storage(o, tangent); };
  return std::ranges::any_of(others, shares) ? clone_tensor(tangent) : tangent;
}

/// By the op's rule, in operations that see the levels around this one.
Tensors tangents_by_rule(ir::Op op, std::span<const Tensor> operands,
                         std::span<const Tensor> results, std::span<const Tensor> tangents,
                         std::span<const ir::AttrValue> attrs) {
  EagerSink sink;
  ir::Builder builder(sink);
  ir::ValueList of_operands, of_results, moved;
  for (const Tensor& t : operands) of_operands.push_back(sink.add(t));
  for (const Tensor& t : results) of_results.push_back(sink.add(t));
  for (const Tensor& t : tangents) moved.push_back(t.defined() ? sink.add(t) : ir::ValueId());
  const autodiff::Tangents made =
      autodiff::apply_jvp({builder, op, of_operands, of_results, attrs, moved});
  Tensors out;
  for (const ir::ValueId v : made) out.push_back(v.valid() ? sink.tensor(v) : Tensor());
  return out;
}

}  // namespace

void move_values(std::span<const Tensor> results, std::span<const Tensor> made,
                 std::span<const Tensor> given, size_t depth) {
  Tensors others(given);
  others.append(results);
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].defined()) continue;
    set_tangent(results[i], depth, with_own_memory(results[i], made[i], all(others)));
    others.push_back(tangent_at(results[i], depth));
  }
}

namespace {

void move_results(ir::Op op, std::span<const Tensor> operands, std::span<const Tensor> results,
                  std::span<const ir::AttrValue> attrs, size_t depth) {
  const Tensors tangents = tangents_of(operands, depth);
  if (tangents.size() == 0) return;
  const LevelDepth around(depth - 1);
  if (ir::is_view(op)) check_same_view(op, operands[0], tangents[0], results[0].sizes());
  const Tensors made = tangents_by_rule(op, operands, results, all(tangents), attrs);
  if (ir::is_view(op)) return set_tangent(results[0], depth, made[0]);
  Tensors others = tangents;
  others.append(operands);
  move_values(results, all(made), all(others), depth);
}

void overwrite(const Tensor& tangent, const Tensor& by) {
  Call c(current_location(), "copy_", true);
  const V self = c.in(tangent);
  if (by.defined())
    c.b.pointwise_in_place(ir::Op::copy, {self, c.in(by, "src")});
  else
    c.b.pointwise_in_place(ir::Op::fill, {self}, {Number(0.0)});
}

/// Zeros that lie as `t` does, of each example wherever `t` or `written` is.
Tensor zeros_laid_out_like(const Tensor& t, const Tensor& written) {
  const Tensor zeros = in_layout_of(t, current_location(), [&](const ir::Axes& order) {
    Shape sizes;
    for (const ir::Axis d : order) sizes.push_back(t.sizes()[static_cast<int>(d)]);
    return full_tensor(sizes, t.dtype(), Number(0.0));
  });
  return batched_as(batched_as(zeros, t), written);
}

/// `self` was overwritten by what moves along `tangent` (undefined: zero). Where others show its
/// memory too, so do their tangents. Without grad mode a tangent keeps its history, as self does.
void move_written(const Tensor& self, const Tensor& tangent, size_t depth) {
  Tensor current = tangent_at(self, depth);
  if (!current.defined() && !tangent.defined()) return;
  const LevelDepth around(depth - 1);
  const ViewOf* view = view_of(self);
  if (view != nullptr && !current.defined()) {
    const Tensor base(view->base);
    set_tangent(base, depth, zeros_laid_out_like(base, tangent));
    current = tangent_at(self, depth);
  }
  const bool has_history = current.defined() && !grad_enabled() && current.requires_grad();
  if (has_history || (current.defined() && self.impl()->storage.use_count() > 1))
    overwrite(current, tangent);
  else
    set_tangent(self, depth,
                tangent.defined() ? with_own_memory(self, tangent, {&tangent, 1}) : Tensor());
}

/// The value that `op` is about to write into operand 0, made from copies of what it overwrites:
/// the tape may keep what it reads.
Tensor value_to_write(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                      std::span<const ir::Type> types) {
  Tensors kept;
  for (const Tensor& t : operands)
    kept.push_back(grad_enabled() && share_storage(t, operands[0]) ? clone_tensor(t) : t);
  return dispatch(op, all(kept), attrs, false, types)[0];
}

/// Any write is that of a value: an op that does not overwrite makes the value first.
TensorList write_moving(Follow follow, size_t outer, ir::Op op, std::span<const Tensor> operands,
                        ir::AttrsRef attrs, std::span<const ir::Type> types) {
  if (!ir::info(op).overwrites) {
    check_writable(operands, op);
    const Tensor both[] = {operands[0], value_to_write(op, operands, attrs, types)};
    return dispatch(ir::Op::copy, both, {}, true, types);
  }
  Tensors tangents;
  for (size_t depth = outer + 1; depth <= level_depth(); ++depth)
    tangents.push_back(op == ir::Op::copy ? tangent_at(operands[1], depth) : Tensor());
  TensorList results = follow(op, operands, attrs, true, types);
  if (!ir::is_differentiable(operands[0].dtype())) return results;
  for (size_t depth = outer + 1; depth <= level_depth(); ++depth)
    move_written(operands[0], tangents[depth - outer - 1], depth);
  return results;
}

}  // namespace

TensorList dispatch_moving(Follow follow, size_t outer, ir::Op op, std::span<const Tensor> operands,
                           ir::AttrsRef attrs, bool in_place, std::span<const ir::Type> types) {
  if (in_place) return write_moving(follow, outer, op, operands, attrs, types);
  TensorList results = follow(op, operands, attrs, false, types);
  for (size_t depth = outer + 1; depth <= level_depth(); ++depth)
    move_results(op, operands, results, attrs, depth);
  renew_tangents(results);
  return results;
}

}  // namespace tandem::runtime
