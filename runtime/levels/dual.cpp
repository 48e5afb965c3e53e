// The tangents that tensors carry at each level.
#include "runtime/levels/dual.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "autodiff/forward/jvp.h"
#include "ir/base/error.h"
#include "ir/geometry.h"
#include "runtime/ops/dispatch.h"
#include "runtime/ops/eager_sink.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/through_views.h"

namespace tandem::runtime {
namespace {

TangentSlot* own_slot(const Tensor& t, uint64_t level) {
  TangentSlot* slot = t.impl()->tangents.get();
  while (slot != nullptr && slot->level != level) slot = slot->others.get();
  return slot;
}

/// The base's tangent at level `depth`, seen as `view` sees the base.
Tensor seen_through(const ViewOf& view, const Tensor& tangent, size_t depth) {
  const Tensor base(view.base);
  const AutogradMeta* meta = meta_of(base);
  const std::vector<ir::ViewStep> steps = view.chain.steps();
  if ((meta != nullptr ? meta->arrangement : 0) != view.base_arrangement ||
      std::ranges::any_of(steps, is_memory_step))
    ir::fail(Errc::Unsupported,
             "a view that reaches outside its base, or whose base was given another arrangement, "
             "moves with the base's tangent; expected a view that the base holds");
  for (const ir::ViewStep& step : steps)
    if (step.op == ir::Op::as_strided) check_same_view(step.op, base, tangent, {});
  const LevelDepth around(depth - 1);
  EagerSink sink;
  ir::Builder builder(sink);
  const ir::ValueId whole = sink.add(tangent);
  return sink.tensor(read_view(builder, whole, steps));
}

}  // namespace

Tensor tangent_at(const Tensor& t, size_t depth) {
  const uint64_t level = level_at(depth).id;
  if (const TangentSlot* slot = own_slot(t, level)) return slot->tangent;
  const ViewOf* view = view_of(t);
  if (view == nullptr) return {};
  const TangentSlot* of_base = own_slot(Tensor(view->base), level);
  if (of_base == nullptr || !of_base->tangent.defined()) return {};
  const Tensor seen = seen_through(*view, of_base->tangent, depth);
  set_tangent(t, depth, seen);
  return seen;
}

void set_tangent(const Tensor& t, size_t depth, const Tensor& tangent) {
  Level& level = level_at(depth);
  if (TangentSlot* slot = own_slot(t, level.id)) {
    slot->tangent = tangent;
    return;
  }
  std::shared_ptr<TangentSlot>& first = t.impl()->tangents;
  first = std::make_shared<TangentSlot>(TangentSlot{level.id, tangent, first});
  level.slots.push_back(first);
}

void check_same_view(ir::Op op, const Tensor& t, const Tensor& tangent, const Shape& sizes) {
  const ir::Strides &strides = t.impl()->strides, &dense = tangent.impl()->strides;
  if (strides == dense) return;
  const bool is_same = op == ir::Op::view ? ir::strides_as(t.sizes(), dense, sizes).has_value()
                                          : op != ir::Op::as_strided;
  if (!is_same)
    ir::fail(Errc::Unsupported,
             fmt::format("{}: of a tensor with gaps that carries a tangent; expected a "
                         "contiguous() one",
                         ir::name(op)));
}

bool any_moves(std::span<const Tensor> tensors, size_t depth) {
  for (const Tensor& t : tensors)
    for (size_t inside = depth + 1; inside <= level_depth(); ++inside)
      if (t.defined() && tangent_at(t, inside).defined()) return true;
  return false;
}

void refuse_tangents(std::span<const Tensor> tensors, std::string_view function, size_t depth) {
  if (level_depth() != 0 && any_moves(tensors, depth))
    ir::fail(Errc::Autograd, autodiff::no_forward_rule(function));
}

}  // namespace tandem::runtime
