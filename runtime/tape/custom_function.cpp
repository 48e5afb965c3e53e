// Functions with a backward of the user's own.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <algorithm>
#include <optional>

#include "ir/base/error.h"
#include "ir/interfaces/custom_operator.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/call.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/custom_recording.h"
#include "runtime/tape/nodes.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace runtime {

struct CustomNode final : Node {
  CustomNode(const char* name, FunctionCall::Backward backward, std::shared_ptr<void> owner,
             FunctionContext* context, const std::vector<Tensor>& inputs, Edges next,
             int result_count)
      : Node(std::move(next), result_count),
        name_(name),
        backward_(backward),
        owner_(std::move(owner)),
        context_(context) {
    for (const Tensor& t : inputs)
      operand_types_.push_back(t.defined() ? t.impl()->type() : ir::Type());
  }

  std::string name() const override { return name_; }

  static void note_needs(FunctionContext& context, const Edges& edges) {
    for (const Edge& edge : edges) context.needs_.push_back(edge.node != nullptr);
  }

  /// Moves what forward asked to keep into the node; results without their history. (An input that
  /// is a result too is kept as what it is to the caller.)
  void save(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) {
    for (const Tensor& t : context_->to_save_) {
      int result = -1;
      for (size_t i = 0; i < outputs.size() && !is_one_of(t, inputs); ++i)
        if (t.defined() && t.impl() == outputs[i].impl()) result = static_cast<int>(i);
      saved_.push_back(!t.defined() ? SavedTensor()
                       : result < 0 ? SavedTensor(t)
                                    : SavedTensor::of_result(t, result));
      results_.push_back(result);
    }
    context_->to_save_.clear();
  }

  /// Tangents of the results were made since.
  void renew_tangents(std::span<const Tensor> outputs) const {
    for (size_t k = 0; k < saved_.size(); ++k)
      if (results_[k] >= 0) saved_[k].share_tangents(outputs[static_cast<size_t>(results_[k])]);
  }

  std::vector<Tensor> apply(std::vector<Tensor> grads, std::span<const bool>) override {
    if (released_) fail_released(*this);
    for (const SavedTensor& t : saved_)
      context_->saved_.push_back(t.defined() ? t.unpack(*this, shared_from_this()) : Tensor());
    std::vector<Tensor> out = backward_(*context_, grads);
    context_->saved_.clear();
    check(out);
    return out;
  }

  void release() override {
    released_ = released_ || !saved_.empty();
    saved_.clear();
  }

 private:
  void check(const std::vector<Tensor>& out) const {
    refuse(wrong_count(name_, edges.size(), out.size()));
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].defined() && edges[i].node)
        refuse(wrong_type(name_, i, operand_types_[i], out[i].impl()->type()));
  }

  const char* name_;
  FunctionCall::Backward backward_;
  std::shared_ptr<void> owner_;
  FunctionContext* context_;
  std::vector<ir::Type> operand_types_;
  std::vector<SavedTensor> saved_;
  std::vector<int> results_;  // which result each saved one is, or -1
  bool released_ = false;
};

namespace {

/// The edges of a call: what the tensors are in the current trace, if there is one.
Edges edges_of(const std::vector<Tensor>& inputs) {
  Edges edges;
  for (const Tensor& t : inputs) {
    if (!t.defined() || !grad_enabled()) {
      edges.push_back({});
      continue;
    }
    const Tensor operand = Trace::current() != nullptr ? Trace::current()->resolve(t) : t;
    require_clear_history(operand);
    edges.push_back(gradient_edge(operand));
  }
  return edges;
}

/// How many hold `base`, of the results and of what is saved: handles of it, and views.
long holders(const TensorImpl* base, std::span<const Tensor> results,
             std::span<const Tensor> saved) {
  std::vector<const TensorImpl*> views;
  long handles = 0;
  for (const std::span<const Tensor> tensors : {results, saved})
    for (const Tensor& t : tensors) {
      if (!t.defined() || autograd_base(t) != base) continue;
      if (t.impl().get() == base)
        ++handles;
      else if (std::ranges::count(views, t.impl().get()) == 0)
        views.push_back(t.impl().get());
    }
  return handles + static_cast<long>(views.size());
}

/// Which results lie in memory that others show: inputs, other results, and what forward reached
/// from outside.
std::vector<bool> shown_by_others(std::span<const Tensor> results, std::span<const Tensor> saved,
                                  std::span<const Tensor> inputs) {
  std::vector<bool> shown;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& t = results[i];
    if (!t.defined()) {
      shown.push_back(false);
      continue;
    }
    const auto shares = [&](const Tensor& other) {
      return other.defined() && share_storage(t, other);
    };
    const TensorImpl* base = autograd_base(t);
    shown.push_back(std::ranges::any_of(inputs, shares) ||
                    std::ranges::any_of(results.first(i), shares) ||
                    std::ranges::any_of(results.subspan(i + 1), shares) ||
                    base->weak_from_this().use_count() > holders(base, results, saved));
  }
  return shown;
}

/// Two results of forward, `second` behind `first`, in the same memory.
struct SharedResults {
  size_t first, second;
  bool is_same;
};
std::vector<SharedResults> shared_among(std::span<const Tensor> results) {
  std::vector<SharedResults> shared;
  for (size_t j = 0; j < results.size(); ++j)
    for (size_t i = 0; i < j; ++i)
      if (results[i].defined() && results[j].defined() && share_storage(results[i], results[j]))
        shared.push_back({i, j, results[i].impl() == results[j].impl()});
  return shared;
}

/// The results of a recorded call are new tensors. What was one becomes one again where no
/// derivative follows; other memory that forward gave twice may not be written in the trace.
void join(std::span<const SharedResults> shared, std::vector<Tensor>& results, bool is_followed) {
  for (const auto& [i, j, is_same] : shared) {
    if (is_same && !is_followed) {
      results[j] = results[i];
    } else if (Trace* trace = Trace::current()) {
      trace->note_given_back(results[i], results[j]);
      trace->note_given_back(results[j], results[i]);
    }
  }
}

/// `t` as a result with a history of its own, though others show its memory: a view that is not
/// written where autograd watches, nor read there after a write of the others.
Tensor in_memory_of_others(const Tensor& t) {
  const NoGrad guard;
  const Tensor seen = alias(t);
  note_origin(seen, ViewOrigin::OfCustomFunction);
  return seen;
}

std::vector<Tensor> in_trace(std::vector<Tensor> tensors) {
  for (Tensor& t : tensors)
    if (t.defined()) t = in_current_trace(t);
  return tensors;
}

}  // namespace

}  // namespace runtime

using runtime::Edge;
using runtime::LevelDepth;

FunctionCall::FunctionCall(const char* name, Backward backward, std::vector<Tensor> inputs,
                           std::shared_ptr<void> owner, FunctionContext* context, Rule jvp)
    : name_(name),
      backward_(backward),
      inputs_(std::move(inputs)),
      owner_(std::move(owner)),
      context_(context),
      jvp_(jvp),
      batch_depth_(runtime::batch_depth(runtime::in_trace(inputs_))) {
  if (jvp == nullptr) runtime::refuse_tangents(inputs_, name_, batch_depth_);
  if (batch_depth_ != 0)
    recording_ = runtime::CustomRecording::of_examples(name_, backward_, runtime::in_trace(inputs_),
                                                       owner_, context_, batch_depth_);
  runtime::CustomNode::note_needs(*context_, runtime::edges_of(inputs_));
  if (recording_) recording_->widen_needs(*context_);
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (context_->needs_input_grad(i) || runtime::any_moves({&inputs_[i], 1}, batch_depth_))
      followed_.push_back({inputs_[i], inputs_[i].impl()->storage->version()});
  if (runtime::any_moves(inputs_, batch_depth_))
    around_ = std::make_unique<LevelDepth>(batch_depth_);
  if (runtime::Trace::current() != nullptr && batch_depth_ == 0)
    recording_ = runtime::CustomRecording::in_trace(name_, inputs_);
}

FunctionCall::~FunctionCall() { context_->saved_.clear(); }

void FunctionCall::refuse_writes() const {
  for (const auto& [input, version] : followed_)
    if (input.impl()->storage->version() != version)
      ir::fail(Errc::Mutation,
               fmt::format("{}: its forward writes an argument that a derivative is taken by; "
                           "expected a new tensor",
                           name_));
}

void FunctionCall::finish(std::vector<Tensor>& outputs) {
  refuse_writes();
  if (recording_) {
    const std::vector<runtime::SharedResults> shared = runtime::shared_among(outputs);
    recording_->finish(outputs, *context_, backward_, inputs_);
    runtime::join(shared, outputs, !followed_.empty());
  }
  const std::vector<bool> shown = runtime::shown_by_others(outputs, context_->to_save_, inputs_);
  std::vector<Tensor> saved = context_->to_save_;
  const std::vector<Tensor> given = outputs;
  put_on_tape(outputs, shown);
  for (Tensor& t : saved)
    for (size_t i = 0; i < given.size() && !runtime::is_one_of(t, inputs_); ++i)
      if (t.defined() && t.impl() == given[i].impl()) t = outputs[i];
  if (around_) {
    around_.reset();
    move(outputs, saved);
  }
  context_->saved_ = std::move(saved);  // for who records this call; until it ends
}

void FunctionCall::put_on_tape(std::vector<Tensor>& outputs, const std::vector<bool>& shown) {
  runtime::Edges edges = runtime::edges_of(inputs_);
  const bool wanted = std::ranges::any_of(edges, [](const Edge& e) { return e.node != nullptr; });
  if (wanted) {
    node_ =
        runtime::make_node<runtime::CustomNode>(name_, backward_, owner_, context_, inputs_,
                                                std::move(edges), static_cast<int>(outputs.size()));
    node_->save(outputs, inputs_);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = outputs[i];
    if (!t.defined()) continue;
    const bool follows = ir::is_differentiable(t.dtype()) && (wanted || around_ != nullptr);
    // (The results of an equation are new tensors.)
    if (!recording_ && follows)
      t = shown[i] ? runtime::in_memory_of_others(t) : t.detach();
    else if (!recording_ && runtime::is_one_of(t, inputs_))
      t = t.requires_grad() ? t.detach() : runtime::in_memory_of_others(t);
    if (wanted && follows) runtime::set_history(t, node_, static_cast<int>(i));
  }
}

void FunctionCall::move(std::span<const Tensor> outputs, const std::vector<Tensor>& saved) {
  for (size_t depth = batch_depth_ + 1; depth <= runtime::level_depth(); ++depth) {
    std::vector<Tensor> tangents;
    for (const Tensor& t : inputs_)
      tangents.push_back(t.defined() ? runtime::tangent_at(runtime::in_current_trace(t), depth)
                                     : Tensor());
    if (std::ranges::none_of(tangents, &Tensor::defined)) continue;
    const LevelDepth around(depth - 1);
    context_->saved_ = saved;
    const std::vector<Tensor> moved = jvp_(*context_, tangents);
    context_->saved_.clear();
    runtime::refuse(runtime::wrong_tangents(name_, outputs, moved));
    runtime::move_values(outputs, moved, tangents, depth);
  }
  if (node_) node_->renew_tangents(outputs);
}

}  // namespace tandem
