#include "runtime/compile/record.h"

#include <algorithm>

#include "functionalize/view_inverse.h"
#include "runtime/control/checkpoints.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

struct TraceSession::Impl {
  std::shared_ptr<Trace> trace;
  Recording recording;
  std::vector<Tensor> results, rebound_to;
};

namespace {

/// Whether the epilogue can't make a view without its base: autograd asks a part of a split, a view
/// made under NoGrad, and one of a detached tensor (which others may be views of) for it.
bool needs_base(const Trace& trace, const ViewOf& view) {
  if (!view.base->value.valid()) return false;  // a caller's, which no argument is
  const ir::EquationId producer = trace.graph().producer(view.base->value);
  if (!producer.valid()) return false;  // an argument
  return view.origin != ViewOrigin::Alone || ir::is_view(trace.graph().op(producer));
}

/// Makes results outputs of the graph, where needed behind what they are views of; which output
/// each is.
std::vector<int> add_results(Trace& trace, const std::vector<Tensor>& results) {
  std::vector<int> outputs;
  for (const Tensor& t : results) {
    const ViewOf* view = t.defined() ? view_of(trace.resolve(t)) : nullptr;
    if (view != nullptr && needs_base(trace, *view)) trace.add_output(Tensor(view->base));
    outputs.push_back(trace.add_output(t));
  }
  return outputs;
}

/// Views whose origin the replay of the epilogue does not give them: how often their memory was
/// written since they were made, that they are parts of a split, and that nothing required grad
/// yet.
std::vector<ResultView> result_views(Trace& trace, const std::vector<Tensor>& results,
                                     const std::vector<int>& outputs) {
  std::vector<ResultView> views;
  for (size_t i = 0; i < results.size(); ++i) {
    if (outputs[i] < 0) continue;
    const Tensor t = trace.resolve(results[i]);
    const ViewOf* view = view_of(t);
    if (view == nullptr || view->origin == ViewOrigin::Alone || trace.input_index(t) >= 0) continue;
    const uint64_t writes_since = view->base->storage->version() - view->version;
    views.push_back({outputs[i], view->origin, writes_since, is_leaf(t) && !receives_gradient(t)});
  }
  return views;
}

/// The outputs that are leaves which require grad, and no inputs.
std::vector<int> leaf_results(Trace& trace, const std::vector<Tensor>& results) {
  std::vector<int> leaves;
  const auto add_if_leaf = [&](const Tensor& t) {
    if (!receives_gradient(t) || !is_leaf(t) || trace.input_index(t) >= 0) return;
    for (size_t k = 0; k < trace.graph().outputs().size(); ++k)
      if (trace.graph().outputs()[k].value == t.impl()->value)
        leaves.push_back(static_cast<int>(k));
  };
  for (const Tensor& result : results) {
    if (!result.defined()) continue;
    const Tensor t = trace.resolve(result);
    add_if_leaf(t);
    if (const ViewOf* view = view_of(t)) add_if_leaf(Tensor(view->base));
  }
  return leaves;
}

/// Whether autograd sees a use of `v`: in grad mode, as an operand of what can have a gradient.
bool is_used_in_grad_mode(const ir::Graph& graph, ir::ValueId v) {
  const auto uses = [&](const ir::Equation& e) {
    if (!e.grad_enabled || functionalize::cuts_history(e.op)) return false;
    const auto made = e.in_place ? graph.operands(e).first(1) : graph.results(e);
    const auto has_gradient = [&](ir::ValueId r) { return ir::is_differentiable(graph.type(r)); };
    return std::ranges::count(graph.operands(e), v) != 0 && std::ranges::any_of(made, has_gradient);
  };
  return std::ranges::any_of(graph.equations(), uses);
}

std::vector<int> inputs_without_history(const Recording& recording) {
  std::vector<int> inputs;
  for (size_t i = 0; i < recording.inputs.size(); ++i) {
    const Tensor& real = recording.inputs[i];
    if (real.defined() && requires_grad(real) && !receives_gradient(real) &&
        is_used_in_grad_mode(recording.traced, recording.traced.inputs()[i].value))
      inputs.push_back(static_cast<int>(i));
  }
  return inputs;
}

/// What the function put into the .grad of tensors, where that are tensors from outside themselves.
std::vector<int> grad_values(const ir::Graph& traced) {
  std::vector<int> inputs;
  for (const ir::GradWrite& write : traced.epilogue.grads)
    inputs.push_back(write.output < 0 ? -1
                                      : traced.input_index(traced.outputs()[write.output].value));
  return inputs;
}

}  // namespace

Recording record(const std::string& name, Tracer tracer, bool bounds_memory) {
  TraceSession::Impl impl;
  impl.trace = std::make_shared<Trace>(name);
  impl.trace->note_follows();
  TraceSession session(impl);
  {
    const TraceScope scope(impl.trace);
    const control::CheckpointScans scans(bounds_memory);
    tracer(session);
    for (const Tensor& t : impl.rebound_to) impl.results.push_back(t);
    impl.recording.results = add_results(*impl.trace, impl.results);
    impl.recording.views = result_views(*impl.trace, impl.results, impl.recording.results);
    impl.recording.leaves = leaf_results(*impl.trace, impl.results);
  }
  impl.recording.traced = impl.trace->finish();
  impl.recording.inputs = impl.trace->real_inputs();
  impl.recording.has_backward = impl.trace->has_backward();
  impl.recording.bounds_memory = bounds_memory;
  impl.recording.must_be_fresh = inputs_without_history(impl.recording);
  impl.recording.final_requires_grad = impl.trace->inputs_require_grad();
  impl.recording.questions = impl.trace->questions();
  impl.recording.grad_slots = impl.trace->grad_slots();
  impl.recording.grad_values = grad_values(impl.recording.traced);
  impl.recording.memory_slots = impl.trace->memory_slots();
  for (size_t i = 0; i < impl.recording.inputs.size(); ++i)
    if (!impl.recording.inputs[i].defined()) impl.recording.rng_input = static_cast<int>(i);
  return std::move(impl.recording);
}

// --- what the template sees

Tensor TraceSession::input(const Tensor& real, const std::string& name) {
  if (!real.defined()) return real;
  const Tensor stand_in = impl_.trace->add_input(real, name, ir::Role::Primal);
  impl_.recording.argument_inputs.push_back(impl_.trace->input_index(stand_in));
  impl_.recording.argument_count = impl_.trace->real_inputs().size();
  return stand_in;
}

void TraceSession::result(const Tensor& traced) { impl_.results.push_back(traced); }

void TraceSession::rebound(int leaf, const Tensor& traced) {
  impl_.recording.rebound.push_back(leaf);
  impl_.rebound_to.push_back(traced);
}

void TraceSession::set_prototype(std::shared_ptr<const void> prototype) {
  impl_.recording.prototype = std::move(prototype);
}

void TraceSession::name_guards(const std::string& what, size_t count,
                               std::string (*spell)(uint64_t)) {
  impl_.recording.guard_names.push_back({what, count, spell});
}

}  // namespace tandem::runtime
