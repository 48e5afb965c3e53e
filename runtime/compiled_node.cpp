#include "runtime/compiled_node.h"

#include <fmt/format.h>
#include <tandem/ops.h>

#include "ir/error.h"
#include "runtime/dispatch.h"
#include "runtime/graph_values.h"

namespace tandem::runtime {
namespace {

std::vector<const ir::Input*> inputs_with(const ir::Graph& graph, ir::Role role) {
  std::vector<const ir::Input*> found;
  for (const ir::Input& input : graph.inputs())
    if (input.role == role) found.push_back(&input);
  return found;
}

std::vector<Edge> edges_of(const ir::Graph& backward, std::span<const Tensor* const> inputs) {
  std::vector<Edge> edges;
  for (const ir::Output& gradient : backward.outputs())
    edges.push_back(gradient_edge(*inputs[static_cast<size_t>(gradient.target)]));
  return edges;
}

}  // namespace

CompiledNode::CompiledNode(std::shared_ptr<const Variant> variant,
                           std::span<const Tensor* const> inputs)
    : Node(edges_of(variant->graphs.backward, inputs),
           static_cast<int>(inputs_with(variant->graphs.backward, ir::Role::Tangent).size())),
      variant_(std::move(variant)) {}

void CompiledNode::save_primals(std::span<const Tensor* const> inputs, const Tensor& rng) {
  for (const Tensor* t : inputs) primals_.push_back(t->defined() ? SavedTensor(*t) : SavedTensor());
  rng_ = rng;
}

int CompiledNode::result_of_output(int output) const {
  const auto tangents = inputs_with(variant_->graphs.backward, ir::Role::Tangent);
  for (size_t i = 0; i < tangents.size(); ++i)
    if (tangents[i]->target == output) return static_cast<int>(i);
  return -1;
}

std::string CompiledNode::name() const { return "compiled " + variant_->graphs.joint.name; }

void CompiledNode::release() {
  saved_.clear();
  primals_.clear();
  rng_ = Tensor();
  released_ = true;
}

std::vector<Tensor> CompiledNode::apply(std::vector<Tensor> grads) {
  if (released_)
    ir::fail(Errc::Autograd, fmt::format("backward: the saved values of {} are freed already; "
                                         "expected retain_graph for a second backward",
                                         name()));
  std::vector<Tensor> tangents = tangents_of(std::move(grads));
  return grad_enabled() ? differentiable_backward(std::move(tangents)) : run_backward(tangents);
}

std::vector<Tensor> CompiledNode::tangents_of(std::vector<Tensor> grads) const {
  const auto expected = inputs_with(variant_->graphs.backward, ir::Role::Tangent);
  for (size_t i = 0; i < grads.size(); ++i) {
    const ir::Type& type = variant_->graphs.backward.type(expected[i]->value);
    if (!grads[i].defined()) grads[i] = zeros(type.sizes, type.dtype);
    if (grads[i].sizes() != type.sizes || grads[i].dtype() != type.dtype)
      ir::fail(Errc::Shape,
               fmt::format("backward: gradient of {}: expected {}, got {}", name(),
                           ir::to_string(type), ir::to_string(grads[i].impl()->type())));
  }
  return grads;
}

std::vector<Tensor> CompiledNode::run_backward(const std::vector<Tensor>& tangents) {
  const ir::Graph& graph = variant_->graphs.backward;
  std::vector<Tensor> values;
  size_t next_saved = 0, next_tangent = 0;
  for (const ir::Input& input : graph.inputs()) {
    if (input.role != ir::Role::Tangent) {
      values.push_back(saved_[next_saved++].unpack(*this, nullptr));
      continue;
    }
    const Tensor& tangent = tangents[next_tangent++];
    values.push_back(has_layout(*tangent.impl(), input.strides) ? tangent : tangent.contiguous());
  }
  std::vector<const Tensor*> inputs;
  for (const Tensor& t : values) inputs.push_back(&t);
  return run_executable(variant_->backward(), graph, inputs);
}

std::vector<Tensor> CompiledNode::differentiable_backward(std::vector<Tensor> tangents) {
  if (!variant_->options.higher_order)
    ir::fail(Errc::Autograd, fmt::format("backward: {} was compiled with higher_order = false; "
                                         "expected higher_order = true for a gradient "
                                         "that is itself differentiated",
                                         name()));
  const auto backward = variant_->backward_function();
  std::vector<Tensor> arguments;
  for (const SavedTensor& primal : primals_)
    arguments.push_back(primal.defined() ? primal.unpack(*this, nullptr) : rng_);
  std::ranges::move(tangents, std::back_inserter(arguments));
  std::vector<const Tensor*> inputs;
  for (const Tensor& t : arguments) inputs.push_back(&t);
  return run_variant(backward, inputs);
}

}  // namespace tandem::runtime
