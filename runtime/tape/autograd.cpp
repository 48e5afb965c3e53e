// What tensors know of their history: leaves and accumulators, and what an op puts on the tape.
#include "runtime/tape/autograd.h"

#include "autodiff/vjp.h"
#include "ir/base/error.h"
#include "machine/threads/fork_lock.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/nodes.h"
#include "runtime/tape/view_history.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

/// Several threads may ask for the accumulator of a leaf that they share.
std::mutex& accumulator_mutex() { return machine::fork_safe_mutex<AutogradMeta>(); }

/// What stands in an accumulator for a traced tensor computed outside the trace. Not the tensor
/// itself: a write gives it a history that leads to the accumulator.
Tensor outside_stub(const Tensor& stand_in) {
  const Tensor stub = without_history(stand_in);
  autograd_meta(*stub.impl()).outside_history = true;
  return stub;
}

Edge accumulator_edge(const Tensor& leaf) {
  AutogradMeta& meta = *leaf.impl()->autograd;
  const std::lock_guard lock(accumulator_mutex());
  std::shared_ptr<Node> node = meta.accumulator.lock();
  if (!node) {
    node = make_node<AccumulateGrad>(meta.outside_history ? outside_stub(leaf) : leaf);
    for (const auto& hook : meta.hooks) node->hooks.push_back({0, hook});
    meta.accumulator = node;
  }
  return {node, 0};
}

void move_retained_grad(TensorImpl& impl) {
  AutogradMeta& meta = *impl.autograd;
  if (meta.retains_grad && meta.node)
    meta.node->retained.push_back({meta.result, impl.weak_from_this()});
}

}  // namespace

const AutogradMeta* meta_of(const Tensor& t) {
  return t.defined() ? t.impl()->autograd.get() : nullptr;
}

AutogradMeta& autograd_meta(TensorImpl& impl) {
  if (impl.autograd == nullptr) impl.autograd = std::make_unique<AutogradMeta>();
  return *impl.autograd;
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
  if (meta.view && meta.view->origin == ViewOrigin::OfCustomFunction) require_clear_history(t);
  return meta.node ? Edge{meta.node, meta.result} : accumulator_edge(t);
}

const TensorImpl* autograd_base(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta != nullptr && meta->view ? meta->view->base.get() : t.impl().get();
}

void set_history(const Tensor& t, const std::shared_ptr<Node>& node, int result) {
  AutogradMeta& meta = autograd_meta(*t.impl());
  meta.node = node;
  meta.result = result;
  meta.requires_grad = false;
  move_retained_grad(*t.impl());
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
bool tape_wants(ir::Op op, std::span<const Tensor> operands, std::span<const ir::Type> results) {
  const auto carries = [](const ir::Type& type) { return ir::is_differentiable(type); };
  if (!grad_enabled() || std::ranges::none_of(results, carries)) return false;
  if (op == ir::Op::copy && operands[1].impl() == operands[0].impl())
    return false;  // changes nothing
  if (ir::is_view(op) && autodiff::vjp_rule(op).kind == autodiff::VjpRule::Kind::ZeroGradient)
    return false;
  bool wanted = false;
  for (const Tensor& t : operands) {
    require_clear_history(t);
    wanted = wanted || requires_grad(t);
  }
  return wanted;
}

std::shared_ptr<Node> prepare_node(ir::Op op, std::span<const Tensor> operands,
                                   std::span<const ir::AttrValue> attrs, bool in_place,
                                   std::span<const ir::Type> results) {
  Edges edges;
  ir::InlineVector<ir::Type, 4> types;
  for (const Tensor& t : operands) {
    edges.push_back(ir::is_differentiable(t.dtype()) ? gradient_edge(t) : Edge());
    types.push_back(t.impl()->type());
  }
  const std::span<const ir::Type> operand_types(types.data(), types.size());
  // What is overwritten through a view gets its zeros where the base's new history cuts them out.
  const bool is_part = in_place && ir::info(op).overwrites && view_of(operands[0]) != nullptr;
  if (is_part) edges[0] = {};
  auto node = make_node<OpNode>(op, std::move(edges), operand_types, attrs, results);
  node->save_operands(operands, in_place);
  node->overwrites_part = is_part;
  return node;
}

void finish_node(const std::shared_ptr<Node>& node, std::span<const Tensor> results,
                 bool in_place) {
  auto& op_node = static_cast<OpNode&>(*node);
  op_node.save_results(results);
  if (in_place) {
    set_written_history(results[0], node, 0);
    if (op_node.overwrites_part) follow_base(*results[0].impl());
    return;
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (ir::is_differentiable(results[i].dtype()))
      set_history(results[i], node, static_cast<int>(i));
}

void renew_results(Node& node) { static_cast<OpNode&>(node).renew_results(); }

void renew_tangents(std::span<const Tensor> results) {
  for (const Tensor& t : results) {
    const AutogradMeta* meta = meta_of(t);
    if (meta == nullptr || meta->node == nullptr) continue;
    return static_cast<OpNode&>(*meta->node).renew_tangents(results);
  }
}

}  // namespace tandem::runtime
