// Compiling one variant, and running it: executable, tape, epilogue.
#include "runtime/variant.h"

#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>
#include <mutex>

#include "codegen/lower.h"
#include "ir/error.h"
#include "ir/rewrite.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "runtime/compiled_node.h"
#include "runtime/dispatch.h"
#include "runtime/eager/copy.h"
#include "runtime/generator.h"
#include "runtime/graph_values.h"
#include "runtime/pipeline.h"

namespace tandem::runtime {
namespace {

const ir::Backend& backend_or_jit(const std::shared_ptr<const ir::Backend>& backend) {
  return backend ? *backend : *jit_backend();
}

/// The budgets of the options spelled as a partitioner's name.
std::string partitioner_name(const CompileOptions& options) {
  const bool memory = options.memory_budget != 1, saved = options.saved_budget != 1;
  if (!memory && !saved) return options.partition;
  if ((memory && saved) || options.partition != "default")
    ir::fail(Errc::Argument, "compile: expected one of memory_budget, saved_budget and partition");
  return memory ? fmt::format("memory_budget={}", options.memory_budget)
                : fmt::format("saved_budget={}", options.saved_budget);
}

PipelineOptions pipeline_options(const CompileOptions& options,
                                 std::unique_ptr<ir::Partitioner>& owner) {
  if (!options.partitioner) owner = partition::make_partitioner(partitioner_name(options));
  return {options.partitioner ? options.partitioner.get() : owner.get(), options.contract,
          options.passes};
}

/// Which inputs share storage matters only to programs that write, or that give back inputs and
/// views of them.
bool depends_on_aliasing(const CompiledGraphs& graphs) {
  const ir::Epilogue& epilogue = graphs.functional.epilogue;
  const auto is_alias = [](const ir::ResultSource& r) {
    return r.kind != ir::ResultSource::Kind::Output;
  };
  const auto is_shared = [](const ir::Input& i) { return i.alias_of.has_value(); };
  return !epilogue.writes.empty() || std::ranges::any_of(epilogue.results, is_alias) ||
         std::ranges::any_of(graphs.functional.inputs(), is_shared);
}

std::shared_ptr<Variant> finish(CompiledGraphs graphs, Recording recording, Guards guards,
                                const CompileOptions& options) {
  auto variant = std::make_shared<Variant>();
  variant->recording = std::move(recording);
  variant->guards = std::move(guards);
  variant->options = options;
  variant->graphs = std::move(graphs);
  variant->halves.forward = backend_or_jit(options.backend).compile(variant->graphs.forward);
  variant->graphs.forward_report = variant->halves.forward->report();
  register_graphs(variant);
  return variant;
}

// --- running

/// The inputs with the rng input's tensor made from this thread's generator, which advances.
struct BoundInputs {
  InlineVector<const Tensor*, 96> tensors;
  Tensor rng;
};

BoundInputs bind(const ir::Graph& forward, std::span<const Tensor* const> inputs) {
  BoundInputs bound;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool needs_rng = forward.inputs()[i].role == ir::Role::Rng && !inputs[i]->defined();
    if (needs_rng) bound.rng = take_rng(forward.epilogue.rng_draws);
    bound.tensors.push_back(needs_rng ? &bound.rng : inputs[i]);
  }
  return bound;
}

bool writes_input(const ir::Epilogue& epilogue, int input) {
  return std::ranges::any_of(epilogue.writes,
                             [&](const ir::InputWrite& w) { return w.input == input; });
}

/// Saved values that the epilogue is about to overwrite are kept by value.
Tensor saved_value(const Variant& variant, int output, const Tensor& value) {
  const int input = variant.halves.forward->output_from_input(output);
  if (input < 0 || !writes_input(variant.graphs.forward.epilogue, input)) return value;
  const Tensor copy = empty_tensor(
      value.sizes(), variant.graphs.forward.outputs()[static_cast<size_t>(output)].strides,
      value.dtype());
  copy_elements(*copy.impl(), *value.impl());
  return copy;
}

std::shared_ptr<CompiledNode> make_tape_node(const std::shared_ptr<const Variant>& variant,
                                             std::span<const Tensor* const> inputs,
                                             const std::vector<Tensor>& values, const Tensor& rng) {
  const ir::Graph& forward = variant->graphs.forward;
  if (variant->graphs.backward.outputs().empty()) return nullptr;
  auto node = make_node<CompiledNode>(variant, inputs);
  for (size_t k = 0; k < values.size(); ++k)
    if (forward.outputs()[k].role == ir::Role::Saved)
      node->save(saved_value(*variant, static_cast<int>(k), values[k]));
  if (variant->options.higher_order) node->save_primals(inputs, rng);
  return node;
}

/// Puts the final contents of written inputs in place, and their history and versions with them.
void replay_writes(const Variant& variant, std::span<const Tensor* const> inputs,
                   const std::vector<Tensor>& values, const std::shared_ptr<CompiledNode>& node) {
  for (const ir::InputWrite& write : variant.graphs.forward.epilogue.writes) {
    const Tensor& target = *inputs[static_cast<size_t>(write.input)];
    const bool done = variant.halves.forward->output_into_input(write.output) >= 0;
    if (!done) copy_elements(*target.impl(), *values[static_cast<size_t>(write.output)].impl());
    target.impl()->storage->bump_version(static_cast<uint64_t>(write.version_bumps));
    const int result = node && !write.no_grad ? node->result_of_output(write.output) : -1;
    if (!write.no_grad)
      set_written_history(target, result >= 0 ? std::shared_ptr<Node>(node) : nullptr,
                          std::max(result, 0));
  }
}

Tensor apply_chain(const Tensor& t, const std::vector<ir::ViewStep>& chain) {
  EagerSink sink;
  ir::Builder builder(sink);
  ir::ValueId value = sink.add(t);
  for (const ir::ViewStep& step : chain) value = builder.emit(step.op, {value}, step.attrs);
  return sink.tensor(value);
}

/// The traced function's outputs: computed values, inputs, views of inputs or of earlier results.
std::vector<Tensor> collect_results(const Variant& variant, std::span<const Tensor* const> inputs,
                                    const std::vector<Tensor>& values) {
  using Kind = ir::ResultSource::Kind;
  std::vector<Tensor> results;
  for (const ir::ResultSource& source : variant.graphs.forward.epilogue.results) {
    const auto i = static_cast<size_t>(source.index);
    const Tensor& base = source.kind == Kind::Output         ? values[i]
                         : source.kind == Kind::ViewOfResult ? results[i]
                                                             : *inputs[i];
    results.push_back(source.chain.empty() ? base : apply_chain(base, source.chain));
  }
  return results;
}

void assign_grads(const Variant& variant, std::span<const Tensor* const> inputs,
                  const std::vector<Tensor>& values) {
  for (const ir::GradWrite& write : variant.graphs.forward.epilogue.grads)
    inputs[static_cast<size_t>(write.input)]->set_grad(
        write.output < 0 ? Tensor() : values[static_cast<size_t>(write.output)]);
}

}  // namespace

const ir::Executable& Variant::backward() const {
  std::call_once(halves.backward_once, [&] {
    const auto& chosen = options.backward_backend ? options.backward_backend : options.backend;
    halves.backward = backend_or_jit(chosen).compile(graphs.backward);
    graphs.backward_report = halves.backward->report();
  });
  return *halves.backward;
}

std::shared_ptr<Variant> compile_variant(Recording recording, Guards guards,
                                         const CompileOptions& options) {
  std::unique_ptr<ir::Partitioner> owner;
  CompiledGraphs graphs =
      run_pipeline(std::move(recording.traced), pipeline_options(options, owner));
  guards.check_aliasing = depends_on_aliasing(graphs);
  return finish(std::move(graphs), std::move(recording), std::move(guards), options);
}

std::shared_ptr<const Variant> Variant::backward_function() const {
  const std::lock_guard lock(higher_order_mutex);
  if (!higher_order) {
    std::unique_ptr<ir::Partitioner> owner;
    higher_order = finish(run_pipeline_from_functional(backward_as_function(graphs.joint),
                                                       pipeline_options(options, owner)),
                          {}, {}, options);
  }
  return higher_order;
}

std::vector<Tensor> run_variant(const std::shared_ptr<const Variant>& variant,
                                std::span<const Tensor* const> inputs) {
  const ir::Graph& forward = variant->graphs.forward;
  const BoundInputs bound = bind(forward, inputs);
  const std::span<const Tensor* const> tensors(bound.tensors.data(), bound.tensors.size());
  const std::vector<Tensor> values = run_executable(*variant->halves.forward, forward, tensors);
  const auto node = make_tape_node(variant, tensors, values, bound.rng);
  if (node)
    for (size_t k = 0; k < values.size(); ++k)
      if (forward.outputs()[k].role == ir::Role::Result)
        if (const int result = node->result_of_output(static_cast<int>(k)); result >= 0)
          set_history(values[k], node, result);
  replay_writes(*variant, tensors, values, node);
  assign_grads(*variant, tensors, values);
  return collect_results(*variant, tensors, values);
}

ir::Graph backward_as_function(const ir::Graph& joint) {
  ir::Rewriter rewriter(joint);
  rewriter.copy_inputs();
  for (size_t i = 0; i < joint.num_equations(); ++i) rewriter.copy(joint.equation_id(i));
  for (const ir::Output& output : joint.outputs()) {
    if (output.role != ir::Role::Gradient) continue;
    ir::Output result = output;
    result.value = rewriter[output.value];
    result.role = ir::Role::Result;
    result.requires_grad = true;
    result.target = -1;
    rewriter.target().add_output(result);
  }
  ir::Graph graph = rewriter.take();
  graph.name = joint.name + "_backward";
  graph.level = ir::Level::Functional;
  graph.epilogue = {};
  for (ir::Input& input : graph.inputs()) {
    if (input.role != ir::Role::Tangent) continue;
    input.role = ir::Role::Primal;
    input.target = -1;
    input.requires_grad = true;
  }
  for (size_t i = 0; i < graph.num_equations(); ++i)
    graph.equation(graph.equation_id(i)).is_backward = false;
  for (size_t k = 0; k < graph.outputs().size(); ++k)
    graph.epilogue.results.push_back(
        {ir::ResultSource::Kind::Output, static_cast<int>(k), {}, true});
  return ir::remove_dead_code(graph);
}

}  // namespace tandem::runtime
