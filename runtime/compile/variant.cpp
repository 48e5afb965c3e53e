// Compiling one variant, and running it: executable, tape, epilogue.
#include "runtime/compile/variant.h"

#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "autodiff/joint.h"
#include "codegen/lower.h"
#include "ir/base/error.h"
#include "ir/build/rewrite.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "runtime/compile/compiled_node.h"
#include "runtime/compile/graph_values.h"
#include "runtime/compile/pipeline.h"
#include "runtime/compile/stages.h"
#include "runtime/eager/copy.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/generator.h"
#include "runtime/tensor/rearrange.h"
#include "runtime/tensor/undo.h"

namespace tandem::runtime {
namespace {

std::unique_ptr<ir::Executable> executable_of(const ir::Graph& graph,
                                              const std::shared_ptr<const ir::Backend>& chosen,
                                              const CompileOptions& options, bool any_size) {
  if (chosen) return chosen->compile(graph);
  try {
    const auto jit =
        any_size ? jit_backend_for_any_size(options.cache_dir) : jit_backend(options.cache_dir);
    return jit->compile(graph);
  } catch (const ir::InternalError& error) {
    throw with_reproducer(error, graph, "code");
  }
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
  return {.partitioner = options.partitioner ? options.partitioner.get() : owner.get(),
          .own_partitioner = options.partitioner != nullptr,
          .contract = options.contract,
          .passes = options.passes};
}

/// Which inputs share storage matters only to programs that write, or that give back inputs and
/// views of them.
bool depends_on_aliasing(const CompiledGraphs& graphs) {
  const ir::Epilogue& epilogue = graphs.functional.epilogue;
  const auto is_alias = [](const ir::ResultSource& r) {
    return r.kind != ir::ResultSource::Kind::Output;
  };
  const auto is_shared = [](const ir::Input& i) { return i.alias_of.has_value(); };
  return !epilogue.writes.empty() || !epilogue.grads.empty() || !epilogue.changes.empty() ||
         std::ranges::any_of(epilogue.results, is_alias) ||
         std::ranges::any_of(graphs.functional.inputs(), is_shared);
}

/// About what the graph takes.
int64_t bytes_of(const ir::Graph& graph) {
  size_t bytes = graph.num_values() * (sizeof(ir::Type) + sizeof(std::string)) +
                 graph.inputs().size() * sizeof(ir::Input) +
                 graph.outputs().size() * sizeof(ir::Output);
  for (const ir::Equation& e : graph.equations())
    bytes += sizeof e + (e.operand_count + e.result_count) * sizeof(ir::ValueId) +
             graph.attrs(e).size_bytes();
  auto all = static_cast<int64_t>(bytes);
  for (const ir::Graph& inner : graph.subgraphs()) all += bytes_of(inner);
  return all;
}

std::shared_ptr<Variant> finish(CompiledGraphs graphs, Recording recording, Guards guards,
                                const CompileOptions& options, bool any_size) {
  auto variant = std::make_shared<Variant>();
  variant->any_size = any_size;
  variant->recording = std::move(recording);
  variant->guards = std::move(guards);
  variant->options = options;
  variant->graphs = std::move(graphs);
  variant->halves.forward =
      executable_of(variant->graphs.forward, options.backend, options, any_size);
  variant->graphs.forward_report = variant->halves.forward->report();
  const CompiledGraphs& all = variant->graphs;
  for (const ir::Graph* g : {&all.traced, &all.functional, &all.joint, &all.core, &all.backward})
    variant->held_bytes += bytes_of(*g);
  variant->count(all.forward, all.forward_report);
  variant->tape = make_tape_table(*variant);
  register_graphs(variant);
  return variant;
}

// --- running

/// The inputs with the rng input's tensor made from this thread's generator, which advances.
struct BoundInputs {
  ir::InlineVector<const Tensor*, 96> tensors;
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

/// Copies of the inputs that the call is about to write and a differentiable backward reads.
std::vector<Tensor> copy_written_inputs(const Variant& variant,
                                        std::span<const Tensor* const> inputs) {
  std::vector<Tensor> copies;
  for (int i : variant.tape.kept_by_value) {
    const Tensor& input = *inputs[static_cast<size_t>(i)];
    copies.push_back(empty_tensor(input.sizes(), input.dtype()));
    copy_elements(*copies.back().impl(), *input.impl());
    if (const Edge edge = gradient_edge(input); edge.node)
      set_history(copies.back(), edge.node, edge.result);
  }
  return copies;
}

/// Puts the call on the tape, if anything is differentiated: the results that get a gradient have
/// the node as history.
std::shared_ptr<CompiledNode> make_tape_node(const std::shared_ptr<const Variant>& variant,
                                             std::span<const Tensor* const> inputs,
                                             const std::vector<Tensor>& written,
                                             const std::vector<Tensor>& values) {
  const TapeTable& tape = variant->tape;
  if (tape.input_of_gradient.empty()) return nullptr;
  auto node = make_node<CompiledNode>(variant, inputs, values);
  if (variant->options.higher_order) node->keep_inputs(inputs, written);
  for (size_t k = 0; k < values.size(); ++k)
    if (tape.is_result[k] && tape.result_of_output[k] >= 0)
      set_history(values[k], node, tape.result_of_output[k]);
  return node;
}

/// The history of what requires grad only since eager says so (a tensor that was filled with
/// numbers): no gradient flows further.
struct NoGradient final : Node {
  NoGradient() : Node({}) {}
  std::string name() const override { return "no gradient"; }
  std::vector<Tensor> apply(std::vector<Tensor>, std::span<const bool>) override { return {}; }
  void release() override {}
};

/// The op that an error names for a write by compiled code.
constexpr ir::Op kWrite = ir::Op::copy;

/// Whether a written input requires grad after the call.
bool ends_with_history(const Variant& variant, const ir::InputWrite& write) {
  return variant.tape.result_of_output[static_cast<size_t>(write.output)] >= 0 ||
         variant.recording.final_requires_grad[static_cast<size_t>(write.input)];
}

/// Refuses, before anything is written, what eager would refuse of these tensors.
void check_inputs(const Variant& variant, std::span<const Tensor* const> inputs) {
  for (const ir::InputWrite& write : variant.graphs.forward.epilogue.writes) {
    const GradMode mode(grad_enabled() && !write.no_grad);
    check_writable(*inputs[static_cast<size_t>(write.input)], kWrite,
                   [&] { return ends_with_history(variant, write); });
  }
  for (int input : variant.tape.input_of_gradient)
    require_clear_history(*inputs[static_cast<size_t>(input)]);
  for (int input : variant.recording.must_be_fresh)
    require_clear_history(*inputs[static_cast<size_t>(input)]);
}

void write_history(const Variant& variant, const ir::InputWrite& write, const Tensor& target,
                   const std::shared_ptr<CompiledNode>& node) {
  if (write.no_grad) return;
  const int result = node ? variant.tape.result_of_output[static_cast<size_t>(write.output)] : -1;
  if (result >= 0)
    set_written_history(target, node, result);
  else if (ends_with_history(variant, write))
    set_written_history(target, make_node<NoGradient>(), 0);
  else
    set_written_history(target, nullptr, 0);
}

/// Puts history and versions of written inputs in place; their contents are computed there, or left
/// to `copies`.
void replay_writes(const Variant& variant, std::span<const Tensor* const> inputs,
                   const std::vector<Tensor>& values, const std::shared_ptr<CompiledNode>& node,
                   ContentCopies& copies) {
  for (const ir::InputWrite& write : variant.graphs.forward.epilogue.writes) {
    const Tensor& target = *inputs[static_cast<size_t>(write.input)];
    const bool done = variant.halves.forward->output_into_input(write.output) >= 0;
    if (!done) copies.add(*target.impl(), *values[static_cast<size_t>(write.output)].impl());
    target.impl()->storage->bump_version(static_cast<uint64_t>(write.version_bumps));
    write_history(variant, write, target, node);
  }
}

/// The views in the modes in which the program made them, whatever the call's is.
Tensor replay_views(const Tensor& base, const std::vector<ir::ViewStep>& chain) {
  EagerSink sink;
  ir::Builder builder(sink);
  ir::ValueId value = sink.add(base);
  for (const ir::ViewStep& step : chain) {
    const GradMode mode(!step.no_grad);
    value = builder.emit(step.op, {value}, step.attrs);
  }
  return sink.tensor(value);
}

/// Gives a detached view the history of `value`, which is what it shows. (A trace sees histories
/// only in what is written.)
void take_history(const Tensor& view, const Tensor& value) {
  if (Trace::current() != nullptr)
    view.copy_(value);
  else if (const Edge edge = gradient_edge(value); edge.node)
    set_history(view, edge.node, edge.result);
}

/// Makes `t` require grad, as in eager, though no gradient flows. (A view does as its base does.)
void require_grad_in_name(const Tensor& t) {
  const ViewOf* view = view_of(t);
  set_written_history(view != nullptr ? Tensor(view->base) : t, make_node<NoGradient>(), 0);
}

/// The traced function's outputs: computed values, inputs, views of inputs or of earlier results.
std::vector<Tensor> collect_results(const ir::Epilogue& epilogue,
                                    std::span<const Tensor* const> inputs,
                                    const std::vector<Tensor>& values,
                                    const std::vector<int>& leaves) {
  using Kind = ir::ResultSource::Kind;
  std::vector<Tensor> results;
  for (const ir::ResultSource& source : epilogue.results) {
    const auto i = static_cast<size_t>(source.index);
    const Tensor& base = source.kind == Kind::Output         ? values[i]
                         : source.kind == Kind::ViewOfResult ? results[i]
                                                             : *inputs[i];
    results.push_back(source.chain.empty() ? base : replay_views(base, source.chain));
    if (source.history >= 0)
      take_history(results.back(), values[static_cast<size_t>(source.history)]);
    if (!source.requires_grad || results.back().requires_grad()) continue;
    const bool leaf = std::ranges::count(leaves, static_cast<int>(results.size()) - 1) != 0;
    leaf ? void(results.back().requires_grad_()) : require_grad_in_name(results.back());
  }
  return results;
}

/// Inputs that themselves change become what their result shows; results that are them are them.
void change_inputs(const ir::Epilogue& epilogue, std::span<const Tensor* const> inputs,
                   std::vector<Tensor>& results, ContentCopies& copies) {
  for (const ir::InputChange& change : epilogue.changes) {
    const Tensor& input = *inputs[static_cast<size_t>(change.input)];
    const auto bumps = static_cast<uint64_t>(change.version_bumps);
    const bool takes_memory = change.result >= 0 && !change.resized &&
                              !results[static_cast<size_t>(change.result)].shares_storage(input);
    input.impl()->storage->bump_version(takes_memory ? 1 : bumps);
    if (change.result >= 0) {
      const Tensor shown = results[static_cast<size_t>(change.result)];
      if (change.resized) {
        grow(input, shown.sizes());
        copies.add(*input.impl(), *shown.impl());
      } else if (takes_memory) {
        take_memory(input, shown);
        input.impl()->storage->bump_version(bumps);
      } else {
        take_arrangement(input, shown);
      }
      for (Tensor& result : results)
        if (result.is_same(shown)) result = input;
    }
    if (change.detached) drop_history(input);
    if (change.requires_grad == false) input.requires_grad_(false);
  }
}

/// Before the tape: what starts to require grad is a leaf of this call already.
void start_requiring_grad(const Variant& variant, std::span<const Tensor* const> inputs) {
  for (const ir::InputChange& change : variant.graphs.forward.epilogue.changes)
    if (change.requires_grad == true)
      inputs[static_cast<size_t>(change.input)]->requires_grad_(true);
}

void assign_grads(const ir::Epilogue& epilogue, std::span<const Tensor* const> inputs,
                  const std::vector<Tensor>& values) {
  for (const ir::GradWrite& write : epilogue.grads)
    inputs[static_cast<size_t>(write.input)]->set_grad(
        write.output < 0 ? Tensor() : values[static_cast<size_t>(write.output)]);
}

}  // namespace

namespace {

/// The layout of a graph input as a differentiable backward finds it.
Strides kept_strides(const Variant& variant, int input) {
  for (const auto& [kept, saved] : variant.tape.kept_as_saved)
    if (kept == input) return variant.tape.saved[saved].strides;
  const ir::Graph& joint = variant.graphs.joint;
  const ir::Input& from = joint.inputs()[static_cast<size_t>(input)];
  return std::ranges::count(variant.tape.kept_by_value, input) != 0
             ? ir::contiguous_strides(joint.type(from.value).sizes)
             : from.strides;
}

/// Which of the wanted gradients a defined tangent reaches. The others are undefined, as in eager,
/// though a rule may give zeros without a look at the tangent.
Flags reached_gradients(const Variant& variant, const BackwardRequest& request) {
  const TapeTable& tape = variant.tape;
  const ir::Graph& functional = variant.graphs.functional;
  std::vector<bool> arrives;
  for (size_t k = 0; k < functional.outputs().size(); ++k) {
    const int result = tape.result_of_output[k];
    arrives.push_back(result >= 0 && request.defined[static_cast<size_t>(result)]);
  }
  const std::vector<bool> inputs = autodiff::reached_inputs(functional, arrives);
  Flags reached(request.wanted.size());
  for (size_t g = 0; g < request.wanted.size(); ++g)
    reached[g] = request.wanted[g] && inputs[static_cast<size_t>(tape.input_of_gradient[g])];
  return reached;
}

BackwardForm make_form(const Variant& variant, const ir::Graph& full,
                       const BackwardRequest& request) {
  if (request.is_full()) return make_form(full, request);
  const Flags reached = reached_gradients(variant, request);
  return make_form(full, BackwardRequest{request.defined, reached.all()});
}

}  // namespace

void Variant::count(const ir::Graph& graph, const ir::ExecutableReport& report) const {
  held_bytes += bytes_of(graph) + report.held_bytes;
  if (report.new_kernels > 0) has_new_code = true;
}

std::shared_ptr<const BackwardForm> Variant::backward(const BackwardRequest& request) const {
  return backward_forms_.get(request, [&](const BackwardRequest& wanted) {
    BackwardForm form = make_form(*this, graphs.backward, wanted);
    if (form.gradients.empty()) return form;
    const auto& chosen = options.backward_backend ? options.backward_backend : options.backend;
    form.executable = executable_of(form.graph, chosen, options, any_size);
    count(form.graph, form.executable->report());
    if (wanted.is_full()) graphs.backward_report = form.executable->report();
    return form;
  });
}

std::shared_ptr<Variant> compile_variant(Recording recording, Guards guards,
                                         const CompileOptions& options, bool any_size) {
  std::unique_ptr<ir::Partitioner> owner;
  CompiledGraphs graphs =
      run_pipeline(std::move(recording.traced), pipeline_options(options, owner));
  const auto is_again = [](const TensorGuard& g) { return g.same_as >= 0; };  // one graph input
  guards.check_aliasing =
      depends_on_aliasing(graphs) || std::ranges::any_of(guards.tensors, is_again);
  return finish(std::move(graphs), std::move(recording), std::move(guards), options, any_size);
}

std::shared_ptr<const BackwardForm> Variant::differentiable_backward(
    const BackwardRequest& request) const {
  return differentiable_forms_.get(request, [&](const BackwardRequest& wanted) {
    BackwardForm form = make_form(*this, gradients_of(graphs.joint), wanted);
    if (form.gradients.empty()) return form;
    for (size_t i = 0; i < form.sources.size(); ++i)
      if (!form.sources[i].is_tangent)
        form.graph.inputs()[i].strides =
            kept_strides(*this, static_cast<int>(form.sources[i].index));
    std::unique_ptr<ir::Partitioner> owner;
    form.function = finish(
        run_pipeline_from_functional(as_function(form.graph), pipeline_options(options, owner)), {},
        {}, options, any_size);
    held_bytes += form.function->held_bytes;
    if (form.function->has_new_code) has_new_code = true;
    return form;
  });
}

namespace {

/// The inputs that results are, or are views of.
bool is_input(const ir::ResultSource& source) {
  using Kind = ir::ResultSource::Kind;
  return source.kind != Kind::Output && source.kind != Kind::ViewOfResult;
}

/// Notes all of the caller's tensors that the epilogue changes.
void note_changes(const ir::Epilogue& epilogue, std::span<const Tensor* const> inputs, Undo& undo) {
  const auto input = [&](int i) -> const Tensor& { return *inputs[static_cast<size_t>(i)]; };
  for (const ir::InputWrite& w : epilogue.writes)
    w.no_grad ? undo.note_version(input(w.input)) : undo.note(input(w.input));
  for (const ir::InputChange& c : epilogue.changes) undo.note(input(c.input));
  for (const ir::GradWrite& g : epilogue.grads) undo.note(input(g.input));
  for (const ir::ResultSource& r : epilogue.results)
    if (is_input(r) && (r.requires_grad || r.history >= 0)) undo.note(input(r.index));
}

/// Gives inputs that grow their memory, so that it stays where it is from here on.
void reserve_memory(const ir::Epilogue& epilogue, const ir::Graph& forward,
                    std::span<const Tensor* const> inputs) {
  for (const ir::InputChange& change : epilogue.changes) {
    if (!change.resized || change.result < 0) continue;
    const ir::ResultSource& shown = epilogue.results[static_cast<size_t>(change.result)];
    TANDEM_CHECK(shown.kind == ir::ResultSource::Kind::Output, "what resize_ gives is computed");
    const TensorImpl& input = *inputs[static_cast<size_t>(change.input)]->impl();
    const ir::Output& output = forward.outputs()[static_cast<size_t>(shown.index)];
    const Dim end = input.offset + ir::numel(forward.type(output.value).sizes);
    input.storage->grow(
        static_cast<size_t>(int64_t{ir::checked_mul(end, ir::size_of(input.dtype), "resize_")}));
  }
}

}  // namespace

// The caller's tensors get their new histories, versions and geometry before anything is computed:
// the run is the last that can fail, and all else can be undone.
void run_variant(const std::shared_ptr<const Variant>& variant,
                 std::span<const Tensor* const> inputs, TakeOutputs take) {
  const ir::Graph& forward = variant->graphs.forward;
  check_inputs(*variant, inputs);
  std::optional<DrawScope> draws;
  if (forward.epilogue.rng_draws > 0) draws.emplace();
  const BoundInputs bound = bind(forward, inputs);
  const std::span<const Tensor* const> tensors(bound.tensors.data(), bound.tensors.size());
  const std::vector<Tensor> written = copy_written_inputs(*variant, tensors);
  reserve_memory(forward.epilogue, forward, tensors);
  const ExecutableRun run(*variant->halves.forward, forward, tensors);
  ContentCopies copies;
  Undo undo;
  note_changes(forward.epilogue, tensors, undo);
  start_requiring_grad(*variant, tensors);
  const auto node = make_tape_node(variant, tensors, written, run.outputs());
  replay_writes(*variant, tensors, run.outputs(), node, copies);
  take(
      finish_epilogue(forward.epilogue, tensors, run.outputs(), variant->recording.leaves, copies));
  run.run();
  copies.run();
  undo.keep();
  if (node) node->end_of_call();
}

std::vector<Tensor> finish_epilogue(const ir::Epilogue& epilogue,
                                    std::span<const Tensor* const> inputs,
                                    const std::vector<Tensor>& values,
                                    const std::vector<int>& leaves, ContentCopies& copies) {
  assign_grads(epilogue, inputs, values);
  std::vector<Tensor> results = collect_results(epilogue, inputs, values, leaves);
  change_inputs(epilogue, inputs, results, copies);
  return results;
}

}  // namespace tandem::runtime
