#include "runtime/trace/dispatch_graph.h"

#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <algorithm>

#include "runtime/compile/variant.h"
#include "runtime/control/equation.h"
#include "runtime/eager/copy.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tensor/generator.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

using ir::Attr;
using ir::EquationId;
using ir::Graph;
using ir::Role;

/// What backward of a dispatched custom_function needs beside the saved tensors.
struct SubgraphContext : FunctionContext {
  Graph backward;
  size_t operands = 0;
};

/// A gradient that did not arrive is zero.
Tensor or_zeros(const Tensor& gradient, const ir::Type& type) {
  return gradient.defined() ? gradient : zeros(type.sizes, type.dtype);
}

std::vector<Tensor> dispatch_backward(FunctionContext& context, const std::vector<Tensor>& grads) {
  const auto& c = static_cast<const SubgraphContext&>(context);
  std::vector<Tensor> inputs;
  size_t saved = 0;
  for (const ir::Input& input : c.backward.inputs())
    inputs.push_back(input.role == Role::Saved ? context.saved()[saved++]
                                               : or_zeros(grads[static_cast<size_t>(input.target)],
                                                          c.backward.type(input.value)));
  const std::vector<Tensor> values = dispatch_graph(c.backward, inputs);
  std::vector<Tensor> gradients(c.operands);
  for (size_t k = 0; k < values.size(); ++k)
    gradients[static_cast<size_t>(c.backward.outputs()[k].target)] = values[k];
  return gradients;
}

}  // namespace

std::vector<Tensor> dispatch_function(const Graph& forward, const Graph& backward,
                                      const std::vector<Tensor>& operands) {
  const auto context = std::make_shared<SubgraphContext>();
  context->backward = backward;
  context->operands = operands.size();
  FunctionCall call("custom function", &dispatch_backward, operands, context, context.get());
  std::vector<Tensor> results, saved;
  {
    const NoGrad guard;
    const std::vector<Tensor> values = dispatch_graph(forward, operands);
    for (size_t k = 0; k < values.size(); ++k)
      (forward.outputs()[k].role == Role::Saved ? saved : results).push_back(values[k]);
  }
  context->save_for_backward(saved);
  call.finish(results);
  results.insert(results.end(), saved.begin(), saved.end());
  return results;
}

namespace {

/// An identity whose gradient goes through `backward`.
Graph identity_of(const Graph& backward) {
  const ir::Type type = backward.type(backward.inputs()[0].value);
  Graph graph("identity", ir::Level::Functional);
  ir::Input input;
  input.name = "x";
  input.strides = ir::contiguous_strides(type.sizes);
  const ir::ValueId x = graph.add_input(input, type);
  ir::Output output;
  output.name = "y";
  output.value = x;
  output.strides = input.strides;
  graph.add_output(output);
  return graph;
}

class GraphDispatcher {
 public:
  GraphDispatcher(const Graph& graph, std::span<const Tensor> inputs)
      : graph_(graph), values_(graph) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph.inputs()[i].value] = inputs[i];
  }

  std::vector<Tensor> run() {
    for (size_t i = 0; i < graph_.num_equations(); ++i) step(graph_.equation_id(i));
    std::vector<Tensor> outputs;
    for (const ir::Output& output : graph_.outputs()) outputs.push_back(values_[output.value]);
    return outputs;
  }

 private:
  void step(EquationId e) {
    // (The graph says by these two what autograd may not see, not by grad mode.)
    const ir::Op op = graph_.op(e);
    const bool stops = op == ir::Op::stop_gradient || op == ir::Op::stop_backward;
    const GradMode mode(grad_enabled() && !stops);
    if (graph_.op(e) == ir::Op::first_token) return;  // who records keeps the order
    std::vector<Tensor> operands;
    for (ir::ValueId v : tensors_of(graph_.operands(e))) operands.push_back(values_[v]);
    const std::vector<Tensor> results = run_equation(e, operands);
    const ir::ValueList values = tensors_of(graph_.results(e));
    for (size_t i = 0; i < results.size(); ++i) values_[values[i]] = results[i];
  }

  ir::ValueList tensors_of(std::span<const ir::ValueId> values) const {
    ir::ValueList tensors;
    for (ir::ValueId v : values)
      if (!graph_.type(v).is_token) tensors.push_back(v);
    return tensors;
  }

  std::vector<Tensor> run_equation(EquationId e, const std::vector<Tensor>& operands) {
    if (ir::has_attr(graph_.op(e), Attr::forward))
      return dispatch_function(subgraph(e, Attr::forward), subgraph(e, Attr::backward), operands);
    if (control::is_control_flow(graph_.op(e)))
      return control::dispatch_control(graph_, e, operands);
    if (ir::has_attr(graph_.op(e), Attr::body))
      return dispatch_graph(subgraph(e, Attr::body), operands);
    if (graph_.op(e) == ir::Op::hook)
      return dispatch_function(identity_of(subgraph(e, Attr::backward)),
                               subgraph(e, Attr::backward), operands);
    ir::Types types;
    for (ir::ValueId v : tensors_of(graph_.results(e))) types.push_back(graph_.type(v));
    const TensorList results = dispatch(graph_.op(e), operands, graph_.attrs(e), false, types);
    return {results.begin(), results.end()};
  }

  const Graph& subgraph(EquationId e, Attr attr) const {
    return graph_.subgraph(graph_.attr<ir::SubgraphId>(e, attr));
  }

  const Graph& graph_;
  ir::ValueMap<Tensor> values_;
};

bool is_written(const ir::Epilogue& epilogue, size_t input) {
  const auto writes = [&](const ir::InputWrite& w) { return w.input == static_cast<int>(input); };
  return std::ranges::any_of(epilogue.writes, writes);
}

/// The inputs, but eagerly a copy of those that the epilogue overwrites: views among the values,
/// and what the tape keeps, stay as they were. (A trace is functionalized in turn.)
std::vector<Tensor> safe_inputs(const Graph& graph, std::span<const Tensor> inputs) {
  std::vector<Tensor> safe(inputs.begin(), inputs.end());
  for (size_t i = 0; i < safe.size(); ++i) {
    if (graph.inputs()[i].role == Role::Rng && !safe[i].defined())
      safe[i] = take_rng(graph.epilogue.rng_draws);
    else if (Trace::current() == nullptr && is_written(graph.epilogue, i))
      safe[i] = clone(safe[i]);
  }
  return safe;
}

/// Outputs that would change with an input that is written are copied before.
void detach_from_inputs(const Graph& graph, std::span<const Tensor> inputs,
                        std::vector<Tensor>& values) {
  for (size_t k = 0; k < values.size(); ++k)
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (graph.outputs()[k].role != Role::Result || !is_written(graph.epilogue, i)) continue;
      Trace* trace = Trace::current();
      const Tensor input = trace != nullptr ? trace->resolve(inputs[i]) : inputs[i];
      if (share_storage(values[k], input)) values[k] = clone(values[k]);
    }
}

void write_inputs(const Graph& graph, std::span<const Tensor> inputs,
                  const std::vector<Tensor>& values) {
  for (const ir::InputWrite& write : graph.epilogue.writes) {
    const GradMode mode(grad_enabled() && !write.no_grad);
    const Tensor& target = inputs[static_cast<size_t>(write.input)];
    target.copy_(values[static_cast<size_t>(write.output)]);
    target.impl()->storage->bump_version(static_cast<uint64_t>(write.version_bumps) - 1);
  }
}

}  // namespace

std::vector<Tensor> dispatch_graph(const Graph& graph, std::span<const Tensor> inputs) {
  return GraphDispatcher(graph, inputs).run();
}

std::vector<Tensor> dispatch_with_epilogue(const Graph& graph, std::span<const Tensor> inputs,
                                           const std::vector<int>& leaves) {
  const DrawScope draws;
  std::vector<Tensor> values = dispatch_graph(graph, safe_inputs(graph, inputs));
  detach_from_inputs(graph, inputs, values);
  write_inputs(graph, inputs, values);
  std::vector<const Tensor*> targets;
  for (const Tensor& t : inputs) targets.push_back(&t);
  ContentCopies copies;
  std::vector<Tensor> results =
      finish_epilogue(graph.epilogue, targets, values, leaves, {}, copies);
  copies.run();
  return results;
}

}  // namespace tandem::runtime
