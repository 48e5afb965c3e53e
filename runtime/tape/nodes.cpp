// Nodes: how each kind turns gradients of results into gradients of operands.
#include "runtime/tape/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "ir/base/error.h"
#include "ir/strides.h"
#include "runtime/eager/compiled_ops.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/call.h"
#include "runtime/ops/dispatch.h"
#include "runtime/ops/eager_sink.h"
#include "runtime/trace/through_views.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

/// Accumulators count below this, so that they run last.
constexpr uint64_t kFirstOpSequence = uint64_t{1} << 63;
std::atomic<uint64_t> g_next_sequence{1};

std::string place(const std::source_location& at) {
  return at.line() == 0 ? "" : fmt::format(" at {}:{}", at.file_name(), at.line());
}

}  // namespace

Node::Node(Edges next_edges, int result_count)
    : edges(std::move(next_edges)),
      results(result_count),
      sequence(kFirstOpSequence + g_next_sequence.fetch_add(1, std::memory_order_relaxed)),
      made_at(current_location()) {}

Node::~Node() = default;

void fail_released(const Node& node) {
  ir::fail(Errc::Autograd,
           fmt::format("backward: the graph was freed by an earlier backward (at {}{}); expected "
                       "retain_graph in the earlier one",
                       node.name(), place(node.made_at)));
}

// --- saved tensors

Tensor without_history(const Tensor& t) {
  const TensorImpl& from = *t.impl();
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = from.storage;
  impl->dtype = from.dtype;
  impl->sizes = from.sizes;
  impl->strides = from.strides;
  impl->offset = from.offset;
  impl->is_weak = from.is_weak;
  impl->tangents = from.tangents;
  impl->batched = from.batched;
  impl->trace = from.trace;
  impl->value = from.value;
  impl->made_at = from.made_at;
  return Tensor(std::move(impl));
}

// A leaf that requires grad is kept itself: it cannot get a history. Of any other tensor a twin is
// kept with the history that it has now: a later write gives the tensor one that leads back here,
// and that would be a cycle.
SavedTensor::SavedTensor(const Tensor& operand) : version_(operand.impl()->storage->version()) {
  if (receives_gradient(operand) && is_leaf(operand)) {
    tensor_ = operand;
    return;
  }
  tensor_ = without_history(operand);
  if (const Edge edge = gradient_edge(operand); edge.node)
    set_history(tensor_, edge.node, edge.result);
}

SavedTensor SavedTensor::of_result(const Tensor& result, int result_number) {
  SavedTensor saved;
  saved.tensor_ = without_history(result);
  saved.version_ = result.impl()->storage->version();
  saved.result_ = result_number;
  return saved;
}

SavedTensor SavedTensor::of_own(const Tensor& own) {
  SavedTensor saved;
  saved.tensor_ = own;
  saved.version_ = own.version();
  return saved;
}

Tensor SavedTensor::unpack(const Node& owner, const std::shared_ptr<Node>& self) const {
  const uint64_t version = tensor_.impl()->storage->version();
  if (version != version_)
    ir::fail(Errc::Version,
             fmt::format("one of the tensors needed for backward was changed in place: {}; "
                         "expected version {}, got {} (saved by {}{})",
                         ir::to_string(tensor_.impl()->type()), version_, version, owner.name(),
                         place(owner.made_at)));
  if (result_ < 0) return tensor_;
  const Tensor copy = without_history(tensor_);
  if (self) set_history(copy, self, result_);
  return copy;
}

// --- OpNode

OpNode::KeptList OpNode::kept_of(std::span<const ir::Type> types) {
  KeptList values;
  values.reserve(types.size());
  for (const ir::Type& type : types) values.push_back({type, {}});
  return values;
}

OpNode::OpNode(ir::Op op, Edges next, std::span<const ir::Type> operand_types,
               std::span<const ir::AttrValue> attrs, std::span<const ir::Type> result_types)
    : Node(std::move(next), static_cast<int>(result_types.size())),
      op_(op),
      operands_(kept_of(operand_types)),
      results_(kept_of(result_types)),
      attrs_(attrs.begin(), attrs.end()) {
  Flags needed(edges.size());
  for (size_t i = 0; i < edges.size(); ++i) needed[i] = needs(i);
  const autodiff::VjpRule& rule = autodiff::vjp_rule(op);
  if (rule.kind == autodiff::VjpRule::Kind::Differentiable) reads_ = rule.reads(needed.all());
  if (rule.kind == autodiff::VjpRule::Kind::ZeroGradient) edges = Edges(edges.size());
}

void OpNode::save_operands(std::span<const Tensor> operands, bool in_place) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!autodiff::has_bit(reads_.operands, i)) continue;
    const bool overwritten = in_place && share_storage(operands[i], operands[0]);
    operands_[i].saved =  // a copy with its history
        SavedTensor(overwritten ? clone_tensor(operands[i]) : operands[i]);
  }
}

void OpNode::save_results(std::span<const Tensor> results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (autodiff::has_bit(reads_.results, i))
      results_[i].saved = SavedTensor::of_result(results[i], static_cast<int>(i));
}

void OpNode::renew_results() {
  for (Kept& v : results_) v.saved.renew();
}

void OpNode::renew_tangents(std::span<const Tensor> results) const {
  for (size_t i = 0; i < results.size(); ++i) results_[i].saved.share_tangents(results[i]);
}

std::string OpNode::name() const { return std::string(ir::name(op_)); }

ir::ValueList OpNode::add(const KeptList& values, EagerSink& sink,
                          const std::shared_ptr<Node>& self) const {
  ir::ValueList ids;
  for (const auto& [type, saved] : values)
    ids.push_back(saved.defined() ? sink.add(saved.unpack(*this, self)) : sink.add_type(type));
  return ids;
}

// (Gradients that are themselves differentiated, either way, or recorded, are operations one by
// one.)
std::optional<std::vector<Tensor>> OpNode::apply_compiled(std::span<const Tensor> grads,
                                                          std::span<const bool> wanted) {
  if (grad_enabled() || Trace::current() != nullptr || level_depth() != 0) return {};
  Dim elements = 0;
  for (const KeptList* values : {&operands_, &results_})
    for (const Kept& v : *values) elements = std::max(elements, ir::numel(v.type.sizes));
  const ir::Type& first = results_[0].type;
  if (!eager::runs_compiled(op_, first.dtype, elements, ir::numel(first.sizes))) return {};
  const auto unpacked = [&](const KeptList& values) {
    std::vector<eager::RuleValue> list;
    for (const auto& [type, saved] : values)
      list.push_back({type, saved.defined() ? saved.unpack(*this, nullptr) : Tensor()});
    return list;
  };
  return eager::gradients_compiled(op_, unpacked(operands_), unpacked(results_), attrs_, grads,
                                   wanted);
}

std::vector<Tensor> OpNode::apply(std::vector<Tensor> grads, std::span<const bool> wanted) {
  std::vector<Tensor> out(edges.size());
  if (std::ranges::none_of(grads, &Tensor::defined)) return out;
  if (released_) fail_released(*this);
  if (auto gradients = apply_compiled(grads, wanted)) return std::move(*gradients);
  EagerSink sink;
  ir::Builder builder(sink);
  const ir::ValueList operands = add(operands_, sink, nullptr);
  const ir::ValueList results = add(results_, sink, shared_from_this());
  ir::ValueList arrived;
  for (const Tensor& g : grads) arrived.push_back(g.defined() ? sink.add(g) : ir::ValueId());
  autodiff::VjpContext context{builder, op_, operands, results, attrs_, arrived, wanted};
  const autodiff::Gradients gradients = autodiff::apply_vjp(context);
  for (size_t i = 0; i < out.size(); ++i)
    if (gradients[i]) out[i] = sink.tensor(*gradients[i]);
  return out;
}

std::optional<Part> OpNode::shown_part() const {
  const auto attr = [&]<class T>(ir::Attr name, T) {
    return std::get<T>(attrs_[static_cast<size_t>(ir::attr_index(op_, name))]);
  };
  const bool is_slice = op_ == ir::Op::slice && attr(ir::Attr::step, Dim()) == 1;
  if (!is_slice && op_ != ir::Op::select) return {};
  return Part{operands_[0].type.sizes, static_cast<int>(attr(ir::Attr::dim, int64_t{})),
              attr(is_slice ? ir::Attr::start : ir::Attr::index, Dim())};
}

void OpNode::release() {
  for (KeptList* values : {&operands_, &results_})
    for (Kept& v : *values) released_ = released_ || v.saved.defined(), v.saved.reset();
}

// --- RebaseNode

namespace {

/// `v` in `sizes`, zeros behind it: of repeated elements the first gets the gradient of all.
ir::ValueId as_first_copies(ir::Builder& b, ir::ValueId v, const Shape& sizes) {
  ir::Dims padding;
  for (int d = 0; d < sizes.rank(); ++d) {
    padding.push_back(0);
    padding.push_back(sizes[d] - b.sizes(v)[d]);
  }
  return b.pad(v, padding, 0);
}

}  // namespace

std::vector<Tensor> RebaseNode::apply(std::vector<Tensor> grads, std::span<const bool> wanted) {
  if (!grads[0].defined()) return {{}, {}};
  if (base_overlaps)
    ir::fail(Errc::Autograd,
             "the gradient of a write through a view of a tensor whose own elements share memory; "
             "expected a tensor without overlap (clone() it before the write)");
  EagerSink sink;
  ir::Builder builder(sink);
  const ir::ValueId grad = sink.add(grads[0]);
  std::vector<Tensor> out(2);
  if (wanted[0]) out[0] = sink.tensor(zero_viewed_part(builder, grad, part.chain));
  if (wanted[1])
    out[1] =
        sink.tensor(as_first_copies(builder, read_view(builder, grad, part.chain), part.sizes));
  return out;
}

// --- AccumulateGrad

AccumulateGrad::AccumulateGrad(const Tensor& t) : Node(Edges()), leaf(t) {
  sequence -= kFirstOpSequence;
}

namespace {

/// True if nobody else holds this tensor or its memory, which is dense.
bool is_ours_alone(const Tensor& t) {
  return t.impl().use_count() == 1 && t.impl()->storage.use_count() == 1 && t.is_contiguous() &&
         !(t.impl()->autograd && t.impl()->autograd->view);
}

/// A leaf that is the same for all examples of vmap has no gradient of each.
void check_same_examples(const Tensor& leaf, const Tensor& grad) {
  if (is_batched(grad) && (!is_batched(leaf) || batch_depth(leaf) < batch_depth(grad)))
    ir::fail(Errc::Autograd,
             "backward: inside vmap it reaches a leaf that is the same for all examples; expected "
             "grad(), which gives the gradient of each example");
}

}  // namespace

std::vector<Tensor> AccumulateGrad::apply(std::vector<Tensor> grads, std::span<const bool>) {
  Tensor grad = std::move(grads[0]);
  grads.clear();
  if (!grad.defined()) return {};
  if (grad.dtype() != leaf.dtype()) grad = grad.to(leaf.dtype());  // the leaf was converted since
  check_same_examples(leaf, grad);
  const std::lock_guard lock(mutex);
  AutogradMeta& meta = *leaf.impl()->autograd;
  if (meta.outside_history)
    ir::fail(Errc::Trace,
             "backward: inside a trace it reaches a tensor that was computed outside; expected "
             "leaves and what the function computes");
  const Tensor before = load_grad(*leaf.impl());
  if (!before.defined())
    meta.grad = grad_enabled() || is_ours_alone(grad) ? grad : clone_tensor(grad);
  else if (grad_enabled() || is_batched(grad))
    meta.grad = add_tensors(before, grad);
  else
    add_into(before, grad);
  return {};
}

}  // namespace tandem::runtime
