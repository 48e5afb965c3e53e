// How views follow their bases: a chain of steps that starts at what the base is, and a history
// that is the base's seen through it.
#include "runtime/tape/view_history.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "autodiff/vjp.h"
#include "ir/base/error.h"
#include "ir/shape/shape_rules.h"
#include "ir/strides.h"
#include "machine/threads/fork_lock.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/nodes.h"
#include "runtime/trace/through_views.h"

namespace tandem::runtime {
namespace {

/// Several threads may bring a view that they share up to date.
std::mutex& history_mutex() { return machine::fork_safe_mutex<ViewOf>(); }

/// The history of `chain` applied to what `edge` is the history of; `type` is the base's.
Edge history_through(Edge edge, ir::Type type, const std::vector<ir::ViewStep>& chain) {
  for (const ir::ViewStep& step : chain) {
    if (is_memory_step(step)) {
      const ir::Type types[] = {memory_type(step, type.dtype), type};
      edge = {make_node<OpNode>(step.op, Edges{{}, edge}, types, scatter_attrs(step),
                                std::span(types).first(1)),
              0};
      type = types[0];
      continue;
    }
    const ir::Type result = ir::infer_type(step.op, {&type, 1}, step.attrs);
    edge = {make_node<OpNode>(step.op, Edges{edge}, std::span(&type, 1), step.attrs,
                              std::span(&result, 1)),
            0};
    type = result;
  }
  return edge;
}

ir::Placed place_of(const TensorImpl& t) { return {t.sizes, t.strides, t.offset}; }

/// What leads from `base`, as it lies in memory now, to a tensor that lies there too.
std::vector<ir::ViewStep> steps_through_memory(const TensorImpl& base, const TensorImpl& shown,
                                               bool may_show_more) {
  if (base.storage != shown.storage || ir::self_overlaps(base.sizes, base.strides) ||
      !(may_show_more || ir::holds(place_of(base), place_of(shown))))
    ir::fail(Errc::Unsupported,
             "the history of a view whose base was given other memory, or was made a part of its "
             "memory, after the view was made, and one of the two written since; expected views "
             "made after set_, resize_ or as_strided_");
  const Dim length = std::max<int64_t>(end_of(place_of(base)), end_of(place_of(shown)));
  return {memory_step(base.sizes, base.strides, base.offset, length),
          {ir::Op::as_strided, {shown.sizes, shown.strides, shown.offset}}};
}

}  // namespace

void follow_arrangement(TensorImpl& impl) {
  ViewOf& view = *impl.autograd->view;
  const uint64_t now = view.base->autograd ? view.base->autograd->arrangement : 0;
  if (now == view.base_arrangement) return;
  // (A row of memory shows more than its base to begin with.)
  view.chain =
      ViewChain(steps_through_memory(*view.base, impl, is_memory_step(view.chain.steps()[0])));
  view.base_arrangement = now;
}

void refresh_view(TensorImpl& impl) {
  AutogradMeta* meta = impl.autograd.get();
  if (meta == nullptr || meta->view == nullptr || meta->view->base->autograd == nullptr ||
      meta->view->origin == ViewOrigin::WithoutGrad ||
      meta->view->origin == ViewOrigin::OfCustomFunction)
    return;
  const AutogradMeta& base = *meta->view->base->autograd;
  std::shared_ptr<Node> before;  // freed after the lock
  const std::lock_guard lock(history_mutex());
  if (meta->view->base_generation == base.generation) return;
  meta->view->base_generation = base.generation;
  if (base.node == nullptr) return;
  follow_arrangement(impl);
  const Edge edge = history_through({base.node, base.result}, meta->view->base->type(),
                                    meta->view->chain.steps());
  before = std::exchange(meta->node, edge.node);
  meta->result = edge.result;
}

void follow_base(TensorImpl& view) {
  ViewOf& from = *view.autograd->view;
  from.base_generation = from.base->autograd->generation - 1;
  refresh_view(view);
}

// As PyTorch: such a view has no history to speak of once the memory was written.
void require_clear_history(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  if (meta == nullptr || meta->view == nullptr || meta->view->origin == ViewOrigin::Alone) return;
  const ViewOf& view = *meta->view;
  const bool differentiable = requires_grad(Tensor(view.base)) || meta->node != nullptr;
  if (!differentiable || view.version == view.base->storage->version()) return;
  if (view.origin == ViewOrigin::OneOfMany)
    ir::fail(Errc::Autograd,
             "a part that split, chunk or unbind gave is used in grad mode after its base, or "
             "another view of that, was written; expected a view made by slice, select or "
             "tensor_split, or detach() before the write");
  if (view.origin == ViewOrigin::OfCustomFunction)
    ir::fail(Errc::Autograd,
             "a custom function's result that lies in the memory of another tensor (it gave an "
             "input, or a view of one) is used in grad mode after that memory was written; "
             "expected a clone() in its forward, or detach() before the write");
  ir::fail(Errc::Autograd,
           "a view made under NoGrad is used in grad mode after its base, or another view of "
           "that, was written; expected a view made in grad mode, or detach() before the write");
}

void remember_view(const Tensor& operand, const Tensor& result, ir::Op op,
                   std::span<const ir::AttrValue> attrs) {
  if (autodiff::vjp_rule(op).kind == autodiff::VjpRule::Kind::ZeroGradient) return;
  auto view = std::make_unique<ViewOf>();
  view->base = operand.impl();
  if (const ViewOf* from = view_of(operand)) {
    view->base = from->base;
    view->chain = from->chain;
    view->base_arrangement = from->base_arrangement;
    view->origin = from->origin;
  }
  if (!grad_enabled()) view->origin = ViewOrigin::WithoutGrad;
  view->chain.push_back({op, {attrs.begin(), attrs.end()}});
  const AutogradMeta* base = view->base->autograd.get();
  view->base_generation = base != nullptr ? base->generation : 0;
  if (view->chain.size() == 1) view->base_arrangement = base != nullptr ? base->arrangement : 0;
  view->version = view->base->storage->version();
  autograd_meta(*result.impl()).view = std::move(view);
}

void remember_memory(const Tensor& base, const Tensor& row, const ViewOf* like) {
  const TensorImpl& from = *base.impl();
  auto view = std::make_unique<ViewOf>();
  view->base = base.impl();
  view->chain =
      ViewChain({memory_step(from.sizes, from.strides, from.offset, ir::numel(row.impl()->sizes))});
  if (like != nullptr) view->origin = like->origin;
  if (!grad_enabled()) view->origin = ViewOrigin::WithoutGrad;
  view->base_generation = from.autograd ? from.autograd->generation : 0;
  view->base_arrangement = from.autograd ? from.autograd->arrangement : 0;
  view->version = from.storage->version();
  if (const Edge before = grad_enabled() ? gradient_edge(base) : Edge(); before.node) {
    const Edge edge = history_through(before, from.type(), view->chain.steps());
    set_history(row, edge.node, edge.result);
  }
  autograd_meta(*row.impl()).view = std::move(view);
}

const ViewOf* view_of(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta != nullptr ? meta->view.get() : nullptr;
}

void forget_base(const Tensor& t) {
  if (view_of(t) != nullptr) t.impl()->autograd->view = nullptr;
}

void note_origin(const Tensor& t, ViewOrigin origin, uint64_t writes_since) {
  if (view_of(t) == nullptr) return;
  ViewOf& view = *t.impl()->autograd->view;
  view.origin = origin;
  view.version = view.base->storage->version() - writes_since;
}

// A write through a view is a write of the base: what reads the base from now on gets its gradient
// through a node that gives the written part to the op and the rest to the base's old history.
void set_written_history(const Tensor& self, const std::shared_ptr<Node>& node, int result) {
  AutogradMeta& meta = autograd_meta(*self.impl());
  ++meta.generation;
  if (meta.view) {
    const Tensor base(meta.view->base);
    const Edge before = gradient_edge(base);
    if (node || before.node)
      set_history(
          base, make_node<RebaseNode>(Edges{before, {node, result}},
                                      written_part(base.impl()->type(), meta.view->chain.steps()),
                                      ir::self_overlaps(base.impl()->sizes, base.impl()->strides)));
    autograd_meta(*base.impl());
    meta.view->base_generation = ++base.impl()->autograd->generation;
  }
  if (node || meta.node) set_history(self, node, result);
}

}  // namespace tandem::runtime
