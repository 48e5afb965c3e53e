#include "runtime/tape/custom_recording.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/interfaces/custom_operator.h"
#include "ir/strides.h"
#include "runtime/ops/call.h"
#include "runtime/ops/dispatch.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

std::optional<Refusal> wrong_count(const char* name, size_t expected, size_t got) {
  if (got == expected) return {};
  return Refusal{
      Errc::Autograd,
      fmt::format("{}: backward gives the wrong number of gradients; expected {}, got {}", name,
                  expected, got)};
}

std::optional<Refusal> wrong_type(const char* name, size_t input, const ir::Type& expected,
                                  const ir::Type& got) {
  if (got == expected) return {};
  return Refusal{Errc::Shape,
                 fmt::format("{}: gradient {} does not fit its input; expected {}, got {}", name,
                             input, ir::to_string(expected), ir::to_string(got))};
}

std::optional<Refusal> wrong_tangents(const char* name, std::span<const Tensor> outputs,
                                      const std::vector<Tensor>& got) {
  if (got.size() != outputs.size())
    return Refusal{Errc::Autograd,
                   fmt::format("{}: jvp gives the wrong number of tangents; expected {}, got {}",
                               name, outputs.size(), got.size())};
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i].defined() && !(got[i].impl()->type() == outputs[i].impl()->type()))
      return Refusal{Errc::Shape,
                     fmt::format("{}: tangent {} does not fit its output; expected {}, got {}",
                                 name, i, ir::to_string(outputs[i].impl()->type()),
                                 ir::to_string(got[i].impl()->type()))};
  return {};
}

void refuse(const std::optional<Refusal>& refusal) {
  if (refusal) ir::fail(refusal->code, refusal->message);
}

bool is_one_of(const Tensor& t, std::span<const Tensor> tensors) {
  const auto is_it = [&](const Tensor& other) {
    return other.defined() && t.impl() == other.impl();
  };
  return t.defined() && std::ranges::any_of(tensors, is_it);
}

class CustomRecording::InTrace final : public CustomRecording {
 public:
  InTrace(const char* name, const std::vector<Tensor>& inputs)
      : name_(name),
        outer_(Trace::current()),
        inner_(std::make_shared<Trace>(name)),
        scope_(inner_) {
    for (const Tensor& t : inputs)
      if (t.defined()) inner_->resolve(t);
  }

  /// Ends the recording of forward: `outputs`, and what is saved, become results of one equation of
  /// the enclosing trace. `saved` tensors from outside stay as they are.
  void finish(std::vector<Tensor>& outputs, FunctionContext& context,
              FunctionCall::Backward backward, const std::vector<Tensor>& inputs) override {
    for (const Tensor& t : outputs) {
      if (!t.defined())
        ir::fail(Errc::Trace, "custom function: an output is undefined; expected defined ones");
      inner_->add_output(t);
    }
    for (const Tensor& t : context.to_save_) inner_->add_output(t, ir::Role::Saved);
    note_shared(outputs, context.to_save_);
    const std::vector<int> given_back = operands_in(outputs);
    scope_.reset();
    refuse_writes();
    const std::vector<Tensor> operands = outer_operands();
    ir::Graph forward = inner_->finish();
    std::vector<ir::Type> types;
    for (const ir::Output& o : forward.outputs()) types.push_back(forward.type(o.value));
    ir::Graph half = trace_backward(types, outputs.size(), context, backward, inputs);
    const ir::SubgraphId forward_id = outer_->graph().add_subgraph(std::move(forward));
    const ir::SubgraphId backward_id = outer_->graph().add_subgraph(std::move(half));
    const TensorList results =
        outer_->record(ir::Op::custom_function, operands, {forward_id, backward_id}, false, types);
    lay_out_as(outputs, results);
    replace_by_results(outputs, context.to_save_, results);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (given_back[i] >= 0)
        outer_->note_given_back(operands[static_cast<size_t>(given_back[i])], outputs[i]);
  }

 private:
  void refuse_writes() const {
    for (size_t i = 0; i < inner_->real_inputs().size(); ++i)
      if (inner_->stand_in(static_cast<int>(i)).version() != 0)
        ir::fail(Errc::Mutation,
                 "custom function: inside a trace its forward may not write tensors from outside; "
                 "expected new tensors");
  }

  /// In which operand's memory each output lies, or -1.
  std::vector<int> operands_in(const std::vector<Tensor>& outputs) const {
    std::vector<int> found;
    for (const Tensor& t : outputs) found.push_back(inner_->input_over(inner_->resolve(t)));
    return found;
  }

  /// Which saved tensors others see: operands, results, other saved ones.
  void note_shared(const std::vector<Tensor>& outputs, const std::vector<Tensor>& saved) {
    std::vector<Tensor> seen;
    for (size_t i = 0; i < inner_->real_inputs().size(); ++i)
      seen.push_back(inner_->stand_in(static_cast<int>(i)));
    for (const Tensor& t : outputs) seen.push_back(inner_->resolve(t));
    for (const Tensor& t : saved)
      if (t.defined()) seen.push_back(inner_->resolve(t));
    for (const Tensor& t : saved) {
      if (!t.defined()) continue;
      const Tensor own = inner_->resolve(t);
      const auto shares = [&](const Tensor& other) { return share_storage(other, own); };
      saved_is_shared_.push_back(std::ranges::count_if(seen, shares) > 1);
    }
  }

  void refuse_writes_of_shared(const std::vector<Tensor>& saved) const {
    for (size_t i = 0; i < saved.size(); ++i)
      if (saved_is_shared_[i] && saved[i].version() != 0)
        ir::fail(Errc::Mutation,
                 "custom function: inside a trace its backward may not write a saved tensor that "
                 "others see (an operand, a result, or one saved twice); expected a tensor of "
                 "forward's own");
  }

  std::vector<Tensor> outer_operands() const {
    std::vector<Tensor> operands;
    for (const Tensor& t : inner_->real_inputs()) operands.push_back(outer_->resolve(t));
    return operands;
  }

  /// (saved, tangents) -> gradients, each with the operand it belongs to.
  ir::Graph trace_backward(const std::vector<ir::Type>& types, size_t result_count,
                           FunctionContext& context, FunctionCall::Backward backward,
                           const std::vector<Tensor>& inputs) const {
    const auto half = std::make_shared<Trace>(inner_->graph().name + "_backward");
    const TraceScope recording(half);
    const GradMode no_grad(false);
    for (size_t i = result_count; i < types.size(); ++i)
      context.saved_.push_back(half->add_port(types[i], "saved", ir::Role::Saved, -1));
    std::vector<Tensor> tangents;
    for (size_t i = 0; i < result_count; ++i)
      tangents.push_back(
          half->add_port(types[i], "tangent", ir::Role::Tangent, static_cast<int>(i)));
    const size_t ports = half->real_inputs().size();
    const std::vector<Tensor> saved = context.saved_;
    const std::vector<Tensor> gradients = backward(context, tangents);
    context.saved_.clear();
    refuse_writes_of_shared(saved);
    const std::optional<Refusal> refusal = find_refusal(gradients, inputs, context);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !context.needs_input_grad(i)) continue;
      const Tensor gradient =
          refusal ? refused_gradient(*refusal, tangents, inputs[i].impl()->type()) : gradients[i];
      if (gradient.defined()) half->add_output(gradient, ir::Role::Gradient, operand_of(inputs[i]));
    }
    if (half->real_inputs().size() != ports)
      ir::fail(Errc::Trace,
               "custom function: inside a trace its backward may only use what forward saved and "
               "the gradients; expected save_for_backward for every other tensor");
    return half->finish();
  }

  /// What eager would say of these gradients, if anything.
  std::optional<Refusal> find_refusal(const std::vector<Tensor>& gradients,
                                      const std::vector<Tensor>& inputs,
                                      const FunctionContext& context) const {
    std::optional<Refusal> found = wrong_count(name_, inputs.size(), gradients.size());
    for (size_t i = 0; !found && i < inputs.size(); ++i)
      if (gradients[i].defined() && inputs[i].defined() && context.needs_input_grad(i))
        found = wrong_type(name_, i, inputs[i].impl()->type(), gradients[i].impl()->type());
    return found;
  }

  /// As eager, which looks at gradients only in backward: one that is an Error when it is computed.
  static Tensor refused_gradient(const Refusal& refusal, std::vector<Tensor> tangents,
                                 const ir::Type& type) {
    tangents.push_back(full_tensor(type.sizes, type.dtype, 0.0));
    const ir::Type types[] = {type};
    return Trace::current()->record(
        ir::Op::custom_operator, tangents,
        {std::string(ir::kRefuse), ir::refusal_text(refusal.code, refusal.message)}, false,
        types)[0];
  }

  int operand_of(const Tensor& input) const {
    const auto& operands = inner_->real_inputs();
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].impl() == input.impl()) return static_cast<int>(i);
    return -1;
  }

  /// The results lie as what forward gave does, if that is dense.
  static void lay_out_as(std::span<const Tensor> outputs, std::span<const Tensor> results) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (ir::is_dense(outputs[i].sizes(), outputs[i].strides()))
        results[i].impl()->strides = outputs[i].strides();
  }

  /// Tensors of the inner trace give way to the equation's results.
  void replace_by_results(std::vector<Tensor>& outputs, std::vector<Tensor>& saved,
                          std::span<const Tensor> results) const {
    const std::vector<Tensor> before = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = results[i];
    for (size_t k = 0; k < saved.size(); ++k) {
      const Tensor old = saved[k];
      if (old.impl()->trace.lock() != inner_) continue;
      saved[k] = results[before.size() + k];
      for (size_t i = 0; i < before.size(); ++i)
        if (old.impl() == before[i].impl()) saved[k] = outputs[i];
    }
  }

  const char* name_;
  Trace* outer_;
  std::shared_ptr<Trace> inner_;
  std::optional<TraceScope> scope_;
  std::vector<bool> saved_is_shared_;
};

std::unique_ptr<CustomRecording> CustomRecording::in_trace(const char* name,
                                                           const std::vector<Tensor>& inputs) {
  return std::make_unique<InTrace>(name, inputs);
}

}  // namespace tandem::runtime
