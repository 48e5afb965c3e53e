// Functions with a backward of the user's own.
#include <fmt/format.h>
#include <tandem/autograd.h>

#include "ir/error.h"
#include "runtime/dispatch.h"
#include "runtime/nodes.h"

namespace tandem {
namespace runtime {

struct CustomNode final : Node {
  CustomNode(const char* name, FunctionCall::Backward backward, std::shared_ptr<void> owner,
             FunctionContext* context, const std::vector<Tensor>& inputs, std::vector<Edge> next,
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

  static void note_needs(FunctionContext& context, const std::vector<Edge>& edges) {
    for (const Edge& edge : edges) context.needs_.push_back(edge.node != nullptr);
  }

  /// Moves what forward asked to keep into the node; results without their history.
  void save(const std::vector<Tensor>& outputs) {
    for (const Tensor& t : context_->to_save_) {
      int result = -1;
      for (size_t i = 0; i < outputs.size(); ++i)
        if (t.defined() && t.is_same(outputs[i])) result = static_cast<int>(i);
      saved_.push_back(!t.defined() ? SavedTensor()
                       : result < 0 ? SavedTensor(t)
                                    : SavedTensor::of_result(t, result));
    }
    context_->to_save_.clear();
  }

  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
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
    if (out.size() != edges.size())
      ir::fail(Errc::Autograd, fmt::format("{}: backward gives the wrong number of gradients; "
                                           "expected {}, got {}",
                                           name_, edges.size(), out.size()));
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].defined() && edges[i].node && out[i].impl()->type() != operand_types_[i])
        ir::fail(
            Errc::Shape,
            fmt::format("{}: gradient {} does not fit its input; expected {}, got {}", name_, i,
                        ir::to_string(operand_types_[i]), ir::to_string(out[i].impl()->type())));
  }

  const char* name_;
  FunctionCall::Backward backward_;
  std::shared_ptr<void> owner_;
  FunctionContext* context_;
  std::vector<ir::Type> operand_types_;
  std::vector<SavedTensor> saved_;
  bool released_ = false;
};

}  // namespace runtime

FunctionCall::FunctionCall(const char* name, Backward backward, std::vector<Tensor> inputs,
                           std::shared_ptr<void> owner, FunctionContext* context)
    : name_(name),
      backward_(backward),
      inputs_(std::move(inputs)),
      owner_(std::move(owner)),
      context_(context) {
  std::vector<runtime::Edge> edges;
  for (const Tensor& t : inputs_)
    edges.push_back(t.defined() && runtime::grad_enabled() ? runtime::gradient_edge(t)
                                                           : runtime::Edge());
  runtime::CustomNode::note_needs(*context_, edges);
}

void FunctionCall::finish(std::vector<Tensor>& outputs) {
  std::vector<runtime::Edge> edges;
  bool wanted = false;
  for (const Tensor& t : inputs_) {
    edges.push_back(t.defined() && runtime::grad_enabled() ? runtime::gradient_edge(t)
                                                           : runtime::Edge());
    wanted = wanted || edges.back().node != nullptr;
  }
  if (!wanted) return;
  auto node =
      runtime::make_node<runtime::CustomNode>(name_, backward_, owner_, context_, inputs_,
                                              std::move(edges), static_cast<int>(outputs.size()));
  node->save(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !ir::is_floating(outputs[i].dtype())) continue;
    outputs[i] = outputs[i].detach();  // a fresh tensor: an input may have been returned
    runtime::set_history(outputs[i], node, static_cast<int>(i));
  }
}

}  // namespace tandem
