// Compiling one variant: the forward half at once, backward when it is asked for, or beside the
// forward half where an earlier variant's was.
#include "runtime/compile/variant.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "autodiff/forward/linear.h"
#include "autodiff/joint.h"
#include "ir/base/error.h"
#include "machine/threads/thread_pool.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "runtime/compile/pipeline.h"
#include "runtime/compile/stages.h"
#include "runtime/ops/matmul_precision.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {
namespace {

/// Of a graph that lives as long.
std::unique_ptr<ir::Executable> executable_of(const ir::Graph& graph,
                                              const std::shared_ptr<const ir::Backend>& chosen,
                                              const Variant& variant) {
  if (chosen) return chosen->compile(graph);
  const CompiledGraphs& graphs = variant.graphs;
  const bool computed_once =
      graphs.backward.num_equations() == 0 && graphs.partition.recomputed.empty();
  const JitOptions options{variant.options.cache_dir, of_machine(variant.guards.matmul_precision),
                           computed_once};
  try {
    return variant.any_size ? compile_for_any_size(graph, options) : compile_by_jit(graph, options);
  } catch (const ir::InternalError& error) {
    throw with_reproducer(error, graph, "code");
  }
}

/// The budgets of the options spelled as a partitioner's name; "" if there are none.
std::string budget_name(const CompileOptions& options) {
  const bool memory = options.memory_budget != 1, saved = options.saved_budget != 1;
  if (!memory && !saved) return "";
  if ((memory && saved) || options.partitioner || options.partition != "default")
    ir::fail(Errc::Argument,
             "compile: expected one of memory_budget, saved_budget, partition and partitioner");
  return memory ? fmt::format("memory_budget={}", options.memory_budget)
                : fmt::format("saved_budget={}", options.saved_budget);
}

/// The user's own, else the one that the options name.
std::shared_ptr<const ir::Partitioner> partitioner_of(const CompileOptions& options) {
  const std::string budget = budget_name(options);
  if (options.partitioner) return options.partitioner;
  return partition::make_partitioner(budget.empty() ? options.partition : budget);
}

PipelineOptions pipeline_options(const CompileOptions& options,
                                 const ir::Partitioner& partitioner) {
  return {.partitioner = &partitioner,
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

/// Of what a report says of values, about.
int64_t held_bytes(const ir::PartitionReport& report) {
  int64_t bytes = 0;
  for (const ir::SavedValue& v : report.saved) {
    bytes += static_cast<int64_t>(sizeof v + v.name.capacity() + v.reason.capacity());
    for (const std::string& op : v.needed_by)
      bytes += static_cast<int64_t>(sizeof op + op.capacity());
  }
  return bytes + static_cast<int64_t>(report.recomputed.size() * sizeof(ir::RecomputedValue));
}

/// The backward of all gradients, before anybody asks for it. What fails fails again, and is
/// reported, when somebody does. (Where some gradient needs no code, which are left depends on the
/// tape's table, which is made from the forward half.)
void compile_ahead(const Variant& variant) {
  const ir::Graph& backward = variant.graphs.backward;
  const size_t gradients = backward.outputs().size();
  const auto tangents = static_cast<size_t>(
      std::ranges::count(backward.inputs(), ir::Role::Tangent, &ir::Input::role));
  Flags all(std::max(tangents, gradients));
  for (size_t i = 0; i < all.all().size(); ++i) all[i] = true;
  const BackwardRequest request{all.all().first(tangents), all.all().first(gradients)};
  try {
    if (parts_of_tangents(backward, request).empty()) variant.backward(request);
  } catch (...) {
  }
}

void compile_forward(Variant& variant) {
  variant.halves.forward = executable_of(variant.graphs.forward, variant.options.backend, variant);
  variant.graphs.forward_report = variant.halves.forward->report();
}

/// Both halves beside each other. The backward, which is the longer one, is the caller's part: a
/// worker begins late.
void compile_both(Variant& variant) {
  std::exception_ptr failure;
  const auto compile_half = [&](int64_t half) {
    if (half == 0) return compile_ahead(variant);
    try {
      compile_forward(variant);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  machine::parallel_tasks(2, compile_half);
  if (failure) std::rethrow_exception(failure);
}

std::shared_ptr<Variant> finish(CompiledGraphs graphs, Recording recording, Guards guards,
                                const CompileOptions& options, Expected expected) {
  auto variant = std::make_shared<Variant>();
  variant->any_size = expected.any_size;
  variant->recording = std::move(recording);
  variant->guards = std::move(guards);
  variant->options = options;
  variant->graphs = std::move(graphs);
  variant->has_linear_hooks = autodiff::has_linear_hooks(variant->graphs.functional);
  // (A backend of the user's need not expect two calls at once.)
  const bool is_ours = !options.backend && !options.backward_backend;
  if (expected.backward && is_ours)
    compile_both(*variant);
  else
    compile_forward(*variant);
  const CompiledGraphs& all = variant->graphs;
  for (const ir::Graph* g : {&all.traced, &all.functional, &all.joint, &all.core, &all.backward})
    variant->held_bytes += g->held_bytes();
  variant->held_bytes += held_bytes(all.partition);
  variant->count(all.forward, all.forward_report);
  variant->tape = make_tape_table(*variant);
  register_graphs(variant);
  return variant;
}

}  // namespace

bool bounds_memory(const CompileOptions& options) {
  return partitioner_of(options)->bounds_memory();
}

std::shared_ptr<Variant> compile_variant(Recording recording, Guards guards,
                                         const CompileOptions& options, Expected expected) {
  const auto partitioner = partitioner_of(options);
  PipelineOptions pipeline = pipeline_options(options, *partitioner);
  pipeline.has_backward = recording.has_backward;
  CompiledGraphs graphs = run_pipeline(std::move(recording.traced), pipeline);
  const auto is_again = [](const TensorGuard& g) { return g.same_as >= 0; };  // one graph input
  guards.check_aliasing = recording.questions.sharing || depends_on_aliasing(graphs) ||
                          std::ranges::any_of(guards.tensors, is_again);
  return finish(std::move(graphs), std::move(recording), std::move(guards), options, expected);
}

// --- backward, when it is asked for

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

BackwardForm make_form(const Variant& variant, const std::shared_ptr<const ir::Graph>& full,
                       const BackwardRequest& request) {
  if (request.is_full()) return make_form(full, request);
  const Flags reached = reached_gradients(variant, request);
  return make_form(full, BackwardRequest{request.defined, reached.all()});
}

}  // namespace

void Variant::count(const ir::Graph& graph, const ir::ExecutableReport& report) const {
  held_bytes += graph.held_bytes() + report.held_bytes;
  if (report.new_kernels > 0) has_new_code = true;
}

std::shared_ptr<const BackwardForm> Variant::backward(const BackwardRequest& request) const {
  return backward_forms_.get(request, [&](const BackwardRequest& wanted) {
    const auto owned_here = [](const ir::Graph*) {};
    std::vector<BackwardForm::Part> parts = parts_of_tangents(graphs.backward, wanted);
    Flags computed(wanted.wanted.size());
    for (size_t k = 0; k < wanted.wanted.size(); ++k) computed[k] = wanted.wanted[k];
    for (const BackwardForm::Part& part : parts) computed[part.gradient] = false;
    BackwardForm form =
        make_form(*this, std::shared_ptr<const ir::Graph>(&graphs.backward, owned_here),
                  {wanted.defined, computed.all()});
    form.parts = std::move(parts);
    if (form.gradients.empty()) return form;
    const auto& chosen = options.backward_backend ? options.backward_backend : options.backend;
    form.executable = executable_of(*form.graph, chosen, *this);
    count(*form.graph, form.executable->report());
    if (wanted.is_full()) graphs.backward_report = form.executable->report();
    return form;
  });
}

std::shared_ptr<const BackwardForm> Variant::differentiable_backward(
    const BackwardRequest& request) const {
  return differentiable_forms_.get(request, [&](const BackwardRequest& wanted) {
    BackwardForm form =
        make_form(*this, std::make_shared<const ir::Graph>(gradients_of(graphs.joint)), wanted);
    if (form.gradients.empty()) return form;
    ir::Graph function = *form.graph;
    for (size_t i = 0; i < form.sources.size(); ++i)
      if (!form.sources[i].is_tangent)
        function.inputs()[i].strides = kept_strides(*this, static_cast<int>(form.sources[i].index));
    const auto partitioner = partitioner_of(options);
    form.function =
        finish(run_pipeline_from_functional(as_function(std::move(function)),
                                            pipeline_options(options, *partitioner)),
               {}, {.matmul_precision = guards.matmul_precision}, options, {.any_size = any_size});
    held_bytes += form.function->held_bytes;
    if (form.function->has_new_code) has_new_code = true;
    return form;
  });
}

}  // namespace tandem::runtime
