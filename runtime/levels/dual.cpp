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

[[noreturn]] void refuse_shared(std::string_view what) {
  ir::fail(Errc::Autograd,
           fmt::format("a custom function's result that lies in the memory of another tensor (it "
                       "gave an input, or a view of one) {} while one of them moves along a "
                       "tangent; expected a clone() in its forward",
                       what));
}

/// Of a custom function's result in the memory of others, which moves by itself.
void require_unwritten(const Tensor& t, const ViewOf& view, uint64_t level) {
  if (view.version == view.base->storage->version()) return;
  for (const Tensor& moving : {t, Tensor(view.base)})
    if (const TangentSlot* slot = own_slot(moving, level); slot && slot->tangent.defined())
      refuse_shared("is used after that memory was written,");
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
  const ViewOf* view = view_of(t);
  const bool is_shared = view != nullptr && view->origin == ViewOrigin::OfCustomFunction;
  if (is_shared) require_unwritten(t, *view, level);
  if (const TangentSlot* slot = own_slot(t, level)) return slot->tangent;
  if (view == nullptr || is_shared) return {};
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

void refuse_write_of_shared_result(const Tensor& t) {
  const ViewOf* view = view_of(t);
  if (view == nullptr || view->origin != ViewOrigin::OfCustomFunction) return;
  const Tensor both[] = {t, Tensor(view->base)};
  if (any_moves(both)) refuse_shared("is written");
}

}  // namespace tandem::runtime
