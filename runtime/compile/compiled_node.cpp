#include "runtime/compile/compiled_node.h"

#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/compile/graph_values.h"
#include "runtime/eager/copy.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/anomaly.h"
#include "runtime/tape/nodes.h"

namespace tandem::runtime {
namespace {

Edges edges_of(const Variant& variant, std::span<const Tensor* const> inputs) {
  Edges edges;
  edges.reserve(variant.tape.input_of_gradient.size());
  for (int input : variant.tape.input_of_gradient)
    edges.push_back(gradient_edge(*inputs[static_cast<size_t>(input)]));
  return edges;
}

/// `values` (its own tensor) as what `t` was when it had these values.
Tensor with_history_of(const Tensor& t, const Tensor& values) {
  Tensor twin = without_history(values);
  if (const Edge edge = gradient_edge(t); edge.node) set_history(twin, edge.node, edge.result);
  return twin;
}

/// `t`, or a copy of it with these strides and the same history.
Tensor with_layout(const Tensor& t, const Strides& strides) {
  if (has_layout(*t.impl(), strides)) return t;
  const Tensor copy = empty_tensor(t.sizes(), strides, t.dtype());
  copy_elements(*copy.impl(), *t.impl());
  return with_history_of(t, copy);
}

/// The inputs of a form: tangents in the layout that its graph expects, and what was kept.
template <class Kept>
std::vector<Tensor> bind(const BackwardForm& form, const std::vector<Tensor>& tangents, Kept kept) {
  std::vector<Tensor> values;
  values.reserve(form.sources.size());
  for (size_t i = 0; i < form.sources.size(); ++i) {
    const auto [is_tangent, index] = form.sources[i];
    values.push_back(is_tangent ? with_layout(tangents[index], form.graph->inputs()[i].strides)
                                : kept(index));
  }
  return values;
}

ir::InlineVector<const Tensor*, 96> pointers_to(const std::vector<Tensor>& tensors) {
  ir::InlineVector<const Tensor*, 96> pointers;
  for (const Tensor& t : tensors) pointers.push_back(&t);
  return pointers;
}

/// The form's gradients at their places among all of the backward's.
std::vector<Tensor> spread(const BackwardForm& form, std::vector<Tensor> gradients, size_t count) {
  if (form.gradients.size() == count) return gradients;
  std::vector<Tensor> all(count);
  for (size_t k = 0; k < gradients.size(); ++k) all[form.gradients[k]] = std::move(gradients[k]);
  return all;
}

}  // namespace

CompiledNode::CompiledNode(std::shared_ptr<const Variant> variant,
                           std::span<const Tensor* const> inputs, const std::vector<Tensor>& values)
    : Node(edges_of(*variant, inputs), static_cast<int>(variant->tape.tangents.size())),
      variant_(std::move(variant)) {
  if (!variant_->has_linear_hooks) last_pass_ = std::make_shared<std::atomic<uint64_t>>(0);
  saved_.reserve(variant_->tape.saved.size());
  const TapeTable& tape = variant_->tape;
  for (const TapeTable::Saved& s : tape.saved) {
    const auto output = static_cast<size_t>(s.output);
    const Tensor& value = values[output];
    if (!s.copy) {
      saved_.push_back(s.input >= 0 ? as_before_call(value)
                       : tape.is_result[output]
                           ? SavedTensor::of_result(value, tape.result_of_output[output])
                           : SavedTensor::of_own(value));
      continue;
    }
    // The epilogue is about to overwrite it.
    const Tensor copy = empty_tensor(value.sizes(), s.strides, value.dtype());
    copy_elements(*copy.impl(), *value.impl());
    saved_.push_back(SavedTensor::of_own(copy));
  }
}

void CompiledNode::keep_inputs(std::span<const Tensor* const> inputs,
                               const std::vector<Tensor>& written) {
  const TapeTable& tape = variant_->tape;
  inputs_.resize(inputs.size());
  for (int i : tape.kept_by_handle) {
    const auto at = static_cast<size_t>(i);
    inputs_[at] = as_before_call(*inputs[at]);
  }
  for (const auto& [input, saved] : tape.kept_as_saved)
    inputs_[static_cast<size_t>(input)] = SavedTensor::of_own(
        with_history_of(*inputs[static_cast<size_t>(input)], saved_[saved].unpack(*this, nullptr)));
  for (size_t k = 0; k < written.size(); ++k)
    inputs_[static_cast<size_t>(tape.kept_by_value[k])] = SavedTensor(written[k]);
}

/// An input that the epilogue may rearrange (t_, set_, ...) is kept as it was.
SavedTensor CompiledNode::as_before_call(const Tensor& input) const {
  if (variant_->graphs.forward.epilogue.changes.empty()) return SavedTensor(input);
  return SavedTensor(with_history_of(input, input));
}

void CompiledNode::end_of_call() {
  for (SavedTensor& t : saved_) t.renew();
  for (SavedTensor& t : inputs_) t.renew();
}

std::string CompiledNode::name() const { return "compiled " + variant_->graphs.joint.name; }

void CompiledNode::release() {
  released_ = released_ || !saved_.empty();
  saved_.clear();
  inputs_.clear();
}

/// Inside vmap, where the compiled function ran outside of it: example by example.
std::vector<Tensor> CompiledNode::apply_to_each(const std::vector<Tensor>& grads,
                                                std::span<const bool> wanted, size_t depth) {
  const auto is_defined = [](const Tensor& t) { return t.defined(); };
  std::vector<Tensor> given, out(edges.size());
  std::ranges::copy_if(grads, std::back_inserter(given), is_defined);
  std::vector<bool> found(edges.size());
  const std::vector<Tensor> all =
      each_example(name(), given, depth, [&](const std::vector<Tensor>& example) {
        std::vector<Tensor> one = grads, results;
        for (size_t i = 0, next = 0; i < one.size(); ++i)
          if (one[i].defined()) one[i] = example[next++];
        const std::vector<Tensor> gradients = apply_now(one, wanted);
        for (size_t i = 0; i < found.size(); ++i) found[i] = gradients[i].defined();
        std::ranges::copy_if(gradients, std::back_inserter(results), is_defined);
        return results;
      });
  for (size_t i = 0, next = 0; i < out.size(); ++i)
    if (found[i]) out[i] = all[next++];
  return out;
}

std::vector<Tensor> CompiledNode::apply(std::vector<Tensor> grads, std::span<const bool> wanted) {
  if (last_pass_) require_whole_gradient();
  return apply_now(grads, wanted);
}

void CompiledNode::require_whole_gradient() const {
  const uint64_t pass = current_pass();
  if (last_pass_->exchange(pass) != pass) return;
  ir::fail(
      Errc::Unsupported,
      fmt::format("backward: a second gradient of {} comes through its results and through its "
                  "gradients, and a hook in it that is not linear would see the two one by "
                  "one; expected linear hooks, or a function that is not compiled",
                  name()));
}

std::vector<Tensor> CompiledNode::apply_now(const std::vector<Tensor>& grads,
                                            std::span<const bool> wanted) {
  Flags defined(grads.size());
  for (size_t i = 0; i < grads.size(); ++i) defined[i] = grads[i].defined();
  const BackwardRequest request{defined.all(), wanted};
  if (std::ranges::none_of(request.defined, [](bool b) { return b; }))
    return std::vector<Tensor>(edges.size());
  if (released_) fail_released(*this);
  if (const size_t depth = batch_depth(grads)) return apply_to_each(grads, wanted, depth);
  if (level_depth() != 0) refuse_tangents(grads, name());
  check_tangents(grads);
  return grad_enabled() ? differentiable_backward(grads, request) : run_backward(grads, request);
}

void CompiledNode::check_tangents(const std::vector<Tensor>& tangents) const {
  for (size_t i = 0; i < tangents.size(); ++i) {
    const ir::Type& type = variant_->tape.tangents[i];
    if (!tangents[i].defined()) continue;
    if (tangents[i].sizes() != type.sizes || tangents[i].dtype() != type.dtype)
      ir::fail(Errc::Shape,
               fmt::format("backward: gradient of {}: expected {}, got {}", name(),
                           ir::to_string(type), ir::to_string(tangents[i].impl()->type())));
  }
}

Tensor CompiledNode::unpack(const SavedTensor& kept, int input) const {
  if (kept.is_unchanged() || input < 0) return kept.unpack(*this, nullptr);
  const std::string& partition = variant_->options.partition;
  const bool may_help = partition != "save-all" || variant_->options.partitioner;
  ir::fail(Errc::Version,
           fmt::format("backward: input {} of {} was changed in place since forward, and its "
                       "backward reads it; expected version {}, got {}{}",
                       variant_->graphs.forward.inputs()[static_cast<size_t>(input)].name, name(),
                       kept.version(), kept.current_version(),
                       may_help ? " (partition = \"save-all\" keeps exactly what eager's tape "
                                  "keeps, and accepts what eager accepts)"
                                : ""));
}

std::vector<Tensor> CompiledNode::run_form(const BackwardForm& form,
                                           const std::vector<Tensor>& tangents) {
  const std::vector<Tensor> values = bind(
      form, tangents, [&](size_t i) { return unpack(saved_[i], variant_->tape.saved[i].input); });
  const auto inputs = pointers_to(values);
  std::vector<Tensor> computed =
      run_executable(*form.executable, *form.graph, {inputs.data(), inputs.size()});
  if (checks_gradients())
    check_compiled(name(), *form.graph, {inputs.data(), inputs.size()}, computed);
  return spread(form, std::move(computed), edges.size());
}

std::vector<Tensor> CompiledNode::run_backward(const std::vector<Tensor>& tangents,
                                               const BackwardRequest& request) {
  const auto form = variant_->backward(request);
  std::vector<Tensor> gradients =
      form->gradients.empty() ? std::vector<Tensor>(edges.size()) : run_form(*form, tangents);
  for (const BackwardForm::Part& part : form->parts) {
    const Tensor tangent = with_layout(tangents[part.tangent], part.tangent_strides);
    gradients[part.gradient] =
        view_tensor(tangent, part.sizes, part.strides, tangent.impl()->offset + part.offset);
  }
  return gradients;
}

std::vector<Tensor> CompiledNode::differentiable_backward(const std::vector<Tensor>& tangents,
                                                          const BackwardRequest& request) {
  if (!variant_->options.higher_order)
    ir::fail(Errc::Autograd, fmt::format("backward: {} was compiled with higher_order = false; "
                                         "expected higher_order = true for a gradient "
                                         "that is itself differentiated",
                                         name()));
  const auto form = variant_->differentiable_backward(request);
  if (form->gradients.empty()) return std::vector<Tensor>(edges.size());
  const std::vector<Tensor> values =
      bind(*form, tangents, [&](size_t i) { return unpack(inputs_[i], static_cast<int>(i)); });
  const auto inputs = pointers_to(values);
  std::vector<Tensor> gradients;
  run_variant(form->function, {inputs.data(), inputs.size()},
              [&](const std::vector<Tensor>& outputs) { gradients = outputs; });
  if (last_pass_)
    for (const Tensor& gradient : gradients)
      if (auto* const node = dynamic_cast<CompiledNode*>(gradient_edge(gradient).node.get()))
        node->last_pass_ = last_pass_;
  return spread(*form, std::move(gradients), edges.size());
}

}  // namespace tandem::runtime
