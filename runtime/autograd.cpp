// What tensors know of their history: leaves and accumulators, views that follow their base, writes
// that move the base's history.
#include "runtime/autograd.h"

#include <fmt/format.h>

#include <utility>

#include "autodiff/vjp.h"
#include "codegen/exec/fork_lock.h"
#include "ir/error.h"
#include "ir/geometry.h"
#include "ir/shape_rules.h"
#include "ir/strides.h"
#include "runtime/dispatch.h"
#include "runtime/nodes.h"
#include "runtime/trace.h"
#include "runtime/view_replay.h"

namespace tandem::runtime {
namespace {

/// Guards what several threads may make lazily on a tensor they share: accumulators and the history
/// of views.
std::mutex& lazy_mutex() { return exec::fork_safe_mutex<AutogradMeta>(); }

const AutogradMeta* meta_of(const Tensor& t) {
  return t.defined() ? t.impl()->autograd.get() : nullptr;
}

/// What stands in an accumulator for a traced tensor computed outside the trace. Not the tensor
/// itself: a write gives it a history that leads to the accumulator.
Tensor outside_stub(const Tensor& stand_in) {
  const Tensor stub = without_history(stand_in);
  autograd_meta(*stub.impl()).outside_history = true;
  return stub;
}

Edge accumulator_edge(const Tensor& leaf) {
  AutogradMeta& meta = *leaf.impl()->autograd;
  const std::lock_guard lock(lazy_mutex());
  std::shared_ptr<Node> node = meta.accumulator.lock();
  if (!node) {
    node = make_node<AccumulateGrad>(meta.outside_history ? outside_stub(leaf) : leaf);
    for (const auto& hook : meta.hooks) node->hooks.push_back({0, hook});
    meta.accumulator = node;
  }
  return {node, 0};
}

/// The history of `chain` applied to what `edge` is the history of; `type` is the base's.
Edge replay_history(Edge edge, ir::Type type, const std::vector<ir::ViewStep>& chain) {
  for (const ir::ViewStep& step : chain) {
    if (is_memory_step(step)) {
      const ir::Type types[] = {memory_type(step, type.dtype), type};
      edge = {make_node<OpNode>(step.op, Edges{{}, edge}, types, scatter_attrs(step), types[0]), 0};
      type = types[0];
      continue;
    }
    const ir::Type result = ir::infer_type(step.op, {&type, 1}, step.attrs);
    edge = {make_node<OpNode>(step.op, Edges{edge}, std::span(&type, 1), step.attrs, result), 0};
    type = result;
  }
  return edge;
}

Dim end_of(const TensorImpl& t) {
  Dim end = t.offset + 1;
  for (int d = 0; d < t.sizes.rank(); ++d) end += (t.sizes[d] - 1) * t.strides[d];
  return end;
}

/// Calls visit(place) with where each element lies in the storage.
template <class Visit>
void for_each_place(const TensorImpl& t, Visit visit) {
  std::vector<int64_t> places{int64_t{t.offset}};
  for (int d = 0; d < t.sizes.rank(); ++d) {
    const size_t count = places.size();
    std::vector<int64_t> next;
    next.reserve(count * static_cast<size_t>(int64_t{t.sizes[d]}));
    for (const int64_t place : places)
      for (int64_t i = 0; i < t.sizes[d]; ++i) next.push_back(place + i * int64_t{t.strides[d]});
    places = std::move(next);
  }
  for (const int64_t place : places) visit(place);
}

/// Whether every element of `part` is one of `whole`, which shows none twice.
bool holds(const TensorImpl& whole, const TensorImpl& part) {
  const Dim end = end_of(whole);
  if (ir::numel(part.sizes) == 0) return true;
  if (part.offset < whole.offset || end_of(part) > end) return false;
  if (ir::is_dense(whole.sizes, whole.strides)) return true;
  std::vector<bool> shown(static_cast<size_t>(int64_t{end}));
  for_each_place(whole, [&](int64_t place) { shown[static_cast<size_t>(place)] = true; });
  bool all = true;
  for_each_place(part, [&](int64_t place) { all = all && shown[static_cast<size_t>(place)]; });
  return all;
}

/// What leads from `base`, as it lies in memory now, to a tensor that lies there too.
std::vector<ir::ViewStep> steps_through_memory(const TensorImpl& base, const TensorImpl& shown,
                                               bool may_show_more) {
  if (base.storage != shown.storage || ir::self_overlaps(base.sizes, base.strides) ||
      !(may_show_more || holds(base, shown)))
    ir::fail(Errc::Unsupported,
             "the history of a view whose base was given other memory, or was made a part of its "
             "memory, after the view was made, and one of the two written since; expected views "
             "made after set_, resize_ or as_strided_");
  const Dim length = std::max<int64_t>(end_of(base), end_of(shown));
  return {memory_step(base.sizes, base.strides, base.offset, length),
          {ir::Op::as_strided, {shown.sizes, shown.strides, shown.offset}}};
}

/// If the base was rearranged (t_, squeeze_, ...) after the view was made: the steps from one to
/// the other start at what it is now.
void follow_arrangement(TensorImpl& impl) {
  ViewOf& view = *impl.autograd->view;
  const uint64_t now = view.base->autograd ? view.base->autograd->arrangement : 0;
  if (now == view.base_arrangement) return;
  // (A row of memory shows more than its base to begin with.)
  view.chain =
      ViewChain(steps_through_memory(*view.base, impl, is_memory_step(view.chain.steps()[0])));
  view.base_arrangement = now;
}

/// Brings a view's history up to date with its base's. (One made under NoGrad never has any.)
void refresh_view(TensorImpl& impl) {
  AutogradMeta* meta = impl.autograd.get();
  if (meta == nullptr || meta->view == nullptr || meta->view->origin == ViewOrigin::WithoutGrad ||
      meta->view->base->autograd == nullptr)
    return;
  const AutogradMeta& base = *meta->view->base->autograd;
  std::shared_ptr<Node> before;  // freed after the lock
  const std::lock_guard lock(lazy_mutex());
  if (meta->view->base_generation == base.generation) return;
  meta->view->base_generation = base.generation;
  if (base.node == nullptr) return;
  follow_arrangement(impl);
  const Edge edge =
      replay_history({base.node, base.result}, meta->view->base->type(), meta->view->chain.steps());
  before = std::exchange(meta->node, edge.node);
  meta->result = edge.result;
}

void move_retained_grad(TensorImpl& impl) {
  AutogradMeta& meta = *impl.autograd;
  if (meta.retains_grad && meta.node)
    meta.node->retained.push_back({meta.result, impl.weak_from_this()});
}

void set_node(TensorImpl& impl, const std::shared_ptr<Node>& node, int result) {
  AutogradMeta& meta = autograd_meta(impl);
  meta.node = node;
  meta.result = result;
  meta.requires_grad = false;
  move_retained_grad(impl);
}

[[noreturn]] void refuse_write(ir::Op op, Errc code, std::string_view why) {
  ir::fail(code, fmt::format("{}_: {}", ir::name(op), why));
}

/// What autograd refuses of a write in grad mode through a view.
void check_view_writable(TensorImpl& self, ir::Op op, ir::FunctionRef<bool()> gets_history) {
  const ViewOf& view = *self.autograd->view;
  const bool followed = gets_history();
  if (followed && view.origin == ViewOrigin::WithoutGrad)
    refuse_write(op, Errc::Autograd,
                 "a view made under NoGrad is written in grad mode; expected a view made in grad "
                 "mode");
  if (followed && view.origin == ViewOrigin::OneOfMany)
    refuse_write(op, Errc::Autograd,
                 "a part that split, chunk or unbind gave is written in grad mode; expected a view "
                 "made by slice, select or tensor_split, or NoGrad");
  const Tensor base(view.base);
  if (requires_grad(base) && is_leaf(base))
    refuse_write(op, Errc::Autograd,
                 "a view of a leaf that requires grad is written in place; expected a view of a "
                 "tensor that is not a leaf, or NoGrad");
  if (followed) follow_arrangement(self);
}

}  // namespace

AutogradMeta& autograd_meta(TensorImpl& impl) {
  if (impl.autograd == nullptr) impl.autograd = std::make_unique<AutogradMeta>();
  return *impl.autograd;
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
  ir::fail(Errc::Autograd,
           "a view made under NoGrad is used in grad mode after its base, or another view of "
           "that, was written; expected a view made in grad mode, or detach() before the write");
}

bool requires_grad(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  if (meta == nullptr) return false;
  if (receives_gradient(t)) return true;
  return meta->view != nullptr && requires_grad(Tensor(meta->view->base));
}

bool receives_gradient(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  if (meta == nullptr) return false;
  if (meta->view) refresh_view(*t.impl());
  return meta->requires_grad || meta->node != nullptr;
}

bool is_leaf(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  if (meta == nullptr) return true;
  if (meta->view) refresh_view(*t.impl());
  return meta->node == nullptr && !meta->outside_history;
}

Edge gradient_edge(const Tensor& t) {
  if (!receives_gradient(t)) return {};
  const AutogradMeta& meta = *t.impl()->autograd;
  return meta.node ? Edge{meta.node, meta.result} : accumulator_edge(t);
}

const TensorImpl* autograd_base(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta != nullptr && meta->view ? meta->view->base.get() : t.impl().get();
}

void set_history(const Tensor& t, const std::shared_ptr<Node>& node, int result) {
  set_node(*t.impl(), node, result);
}

Tensor in_current_trace(const Tensor& t) {
  Trace* trace = Trace::current();
  return trace != nullptr && !BelowTape::active() ? trace->resolve(t) : t;
}

Tensor load_grad(TensorImpl& impl) {
  if (const auto trace = impl.trace.lock()) trace->use_grad_slot(impl);
  return impl.autograd ? impl.autograd->grad : Tensor();
}

void store_grad(TensorImpl& impl, const Tensor& grad) {
  if (const auto trace = impl.trace.lock()) trace->use_grad_slot(impl);
  if (grad.defined() || impl.autograd)
    autograd_meta(impl).grad = grad.defined() ? in_current_trace(grad) : grad;
}

std::string history_name(const Tensor& t) {
  if (!requires_grad(t)) return "";
  const AutogradMeta& meta = *t.impl()->autograd;
  return meta.node ? meta.node->name() : "";
}

void retain_grad(const Tensor& t) {
  if (!requires_grad(t))
    ir::fail(Errc::Autograd,
             "retain_grad: the tensor does not require grad; expected one that does");
  AutogradMeta& meta = *t.impl()->autograd;
  if (meta.node == nullptr || meta.retains_grad) return;
  meta.retains_grad = true;
  move_retained_grad(*t.impl());
}

void register_hook(const Tensor& t, Node::Hook hook) {
  if (!requires_grad(t))
    ir::fail(Errc::Autograd,
             "register_hook: the tensor does not require grad; expected one that does");
  if (Trace* trace = Trace::current()) trace->record_hook(trace->resolve(t), hook);
  AutogradMeta& meta = *t.impl()->autograd;
  if (meta.node) {
    meta.node->hooks.push_back({meta.result, std::move(hook)});
    return;
  }
  if (const auto accumulator = meta.accumulator.lock()) accumulator->hooks.push_back({0, hook});
  meta.hooks.push_back(std::move(hook));
}

// --- around an op

// A ZeroGradient view (detach) leaves the history behind; another op keeps its place on the tape,
// so that a write by it cuts what flowed before.
bool tape_wants(ir::Op op, std::span<const Tensor> operands, DType result) {
  if (!grad_enabled() || !ir::is_floating(result)) return false;
  if (op == ir::Op::copy && operands[1].is_same(operands[0])) return false;  // changes nothing
  if (ir::is_view(op) && autodiff::vjp_rule(op).kind == autodiff::VjpRule::Kind::ZeroGradient)
    return false;
  bool wanted = false;
  for (const Tensor& t : operands) {
    require_clear_history(t);
    wanted = wanted || requires_grad(t);
  }
  return wanted;
}

namespace {

/// Whether what `op` writes to places that are one is the same: a number, or what stands there.
bool writes_equals(ir::Op op, std::span<const Tensor> operands) {
  return op == ir::Op::fill || (op == ir::Op::copy && operands[1].is_same(operands[0]));
}

void check_no_overlap(const TensorImpl& impl, ir::Op op) {
  if (!is_contiguous(impl.sizes, impl.strides) && ir::self_overlaps(impl.sizes, impl.strides))
    refuse_write(op, Errc::Mutation,
                 fmt::format("elements share memory, so that a write is not well defined; expected "
                             "a tensor without overlap, got strides {} of {} (clone it first)",
                             to_string(impl.strides), to_string(impl.sizes)));
}

}  // namespace

void check_writable(std::span<const Tensor> operands, ir::Op op) {
  if (!writes_equals(op, operands)) check_no_overlap(*operands[0].impl(), op);
  check_writable(operands[0], op, [&] { return tape_wants(op, operands, operands[0].dtype()); });
}

void check_writable(const Tensor& self, ir::Op op, ir::FunctionRef<bool()> gets_history) {
  const TensorImpl& impl = *self.impl();
  if (impl.storage->read_only())
    refuse_write(op, Errc::Mutation, "the tensor's memory is read-only; expected writable memory");
  if (!grad_enabled()) return;
  if (const Trace* trace = Trace::current();
      trace != nullptr && trace->is_detached(self) && gets_history())
    refuse_write(op, Errc::Unsupported,
                 "inside a trace what was detached in place, or given other memory by set_, is "
                 "written with a gradient; expected detach() and a new tensor");
  const AutogradMeta* meta = meta_of(self);
  if (meta == nullptr) return;
  if (meta->view) check_view_writable(*self.impl(), op, gets_history);
  if (requires_grad(self) && is_leaf(self))
    refuse_write(op, Errc::Autograd,
                 "a leaf that requires grad is written in place; expected a tensor that is not a "
                 "leaf, or NoGrad");
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
  view->chain = ViewChain({memory_step(from.sizes, from.strides, from.offset, row.numel())});
  if (like != nullptr) view->origin = like->origin;
  if (!grad_enabled()) view->origin = ViewOrigin::WithoutGrad;
  view->base_generation = from.autograd ? from.autograd->generation : 0;
  view->base_arrangement = from.autograd ? from.autograd->arrangement : 0;
  view->version = from.storage->version();
  if (const Edge before = grad_enabled() ? gradient_edge(base) : Edge(); before.node) {
    const Edge edge = replay_history(before, from.type(), view->chain.steps());
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
      set_node(*base.impl(),
               make_node<RebaseNode>(Edges{before, {node, result}},
                                     written_part(base.impl()->type(), meta.view->chain.steps())),
               0);
    autograd_meta(*base.impl());
    meta.view->base_generation = ++base.impl()->autograd->generation;
  }
  if (node || meta.node) set_node(*self.impl(), node, result);
}

std::shared_ptr<Node> prepare_node(ir::Op op, std::span<const Tensor> operands,
                                   std::span<const ir::AttrValue> attrs, bool in_place,
                                   const ir::Type& result) {
  Edges edges;
  ir::InlineVector<ir::Type, 4> types;
  for (const Tensor& t : operands) {
    edges.push_back(ir::is_floating(t.dtype()) ? gradient_edge(t) : Edge());
    types.push_back(t.impl()->type());
  }
  const std::span<const ir::Type> operand_types(types.data(), types.size());
  // What is overwritten through a view gets its zeros where the base's new history cuts them out.
  const bool is_part = in_place && ir::info(op).overwrites && view_of(operands[0]) != nullptr;
  if (is_part) edges[0] = {};
  auto node = make_node<OpNode>(op, std::move(edges), operand_types, attrs, result);
  node->save_operands(operands, in_place);
  node->overwrites_part = is_part;
  return node;
}

namespace {

/// Makes the history of a view that of its base, whatever it was.
void follow_base(TensorImpl& view) {
  ViewOf& from = *view.autograd->view;
  from.base_generation = from.base->autograd->generation - 1;
  refresh_view(view);
}

}  // namespace

void finish_node(const std::shared_ptr<Node>& node, const Tensor& result, bool in_place) {
  auto& op_node = static_cast<OpNode&>(*node);
  op_node.save_result(result);
  if (!in_place) return set_history(result, node);
  set_written_history(result, node, 0);
  if (op_node.overwrites_part) follow_base(*result.impl());
}

}  // namespace tandem::runtime
