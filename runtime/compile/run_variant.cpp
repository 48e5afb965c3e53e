// One call of a variant, from top to bottom: run_variant says what happens in which order, and what
// does it stands above it in the same order.
#include <tandem/ops.h>

#include <algorithm>
#include <optional>

#include "ir/base/error.h"
#include "runtime/compile/compiled_node.h"
#include "runtime/compile/graph_values.h"
#include "runtime/compile/variant.h"
#include "runtime/eager/copy.h"
#include "runtime/ops/dispatch.h"
#include "runtime/ops/eager_sink.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/generator.h"
#include "runtime/tensor/rearrange.h"
#include "runtime/tensor/undo.h"

namespace tandem::runtime {
namespace {

// --- 1. what eager would refuse

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

// --- 2. inputs, and copies of what the call overwrites

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

// --- 3. memory that stays where it is, and what can be undone from here on

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

// --- 4. the tape

/// Before the tape: what starts to require grad is a leaf of this call already.
void start_requiring_grad(const Variant& variant, std::span<const Tensor* const> inputs) {
  for (const ir::InputChange& change : variant.graphs.forward.epilogue.changes)
    if (change.requires_grad == true)
      inputs[static_cast<size_t>(change.input)]->requires_grad_(true);
}

/// Puts the call on the tape, if anything is differentiated: the results that get a gradient have
/// the node as history.
std::shared_ptr<CompiledNode> make_tape_node(const std::shared_ptr<const Variant>& variant,
                                             std::span<const Tensor* const> inputs,
                                             const std::vector<Tensor>& written,
                                             const std::vector<Tensor>& values) {
  const TapeTable& tape = variant->tape;
  // (The tangents of a backward that is differentiated may require grad or not.)
  const auto gets_gradient = [&](int i) { return requires_grad(*inputs[static_cast<size_t>(i)]); };
  if (std::ranges::none_of(tape.input_of_gradient, gets_gradient)) return nullptr;
  auto node = make_node<CompiledNode>(variant, inputs, values);
  if (variant->options.higher_order) node->keep_inputs(inputs, written);
  for (size_t k = 0; k < values.size(); ++k)
    if (tape.is_result[k] && tape.result_of_output[k] >= 0)
      set_history(values[k], node, tape.result_of_output[k]);
  return node;
}

// --- 5. the epilogue: writes

/// The history of what requires grad only since eager says so (a tensor that was filled with
/// numbers): no gradient flows further.
struct NoGradient final : Node {
  NoGradient() : Node({}) {}
  std::string name() const override { return "no gradient"; }
  std::vector<Tensor> apply(std::vector<Tensor>, std::span<const bool>) override { return {}; }
  void release() override {}
};

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

// --- 6. the epilogue: grad slots, results, inputs that themselves change

/// (All are found before any is assigned: an input may be what another's .grad holds.)
void assign_grads(const ir::Epilogue& epilogue, std::span<const Tensor* const> inputs,
                  const std::vector<Tensor>& values, const std::vector<int>& grad_values) {
  ir::InlineVector<Tensor, 16> grads;
  for (size_t i = 0; i < epilogue.grads.size(); ++i) {
    const int output = epilogue.grads[i].output;
    const int same = grad_values.empty() ? -1 : grad_values[i];
    grads.push_back(same >= 0     ? *inputs[static_cast<size_t>(same)]
                    : output >= 0 ? values[static_cast<size_t>(output)]
                                  : Tensor());
  }
  for (size_t i = 0; i < grads.size(); ++i)
    inputs[static_cast<size_t>(epilogue.grads[i].input)]->set_grad(grads[i]);
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
                              !share_storage(results[static_cast<size_t>(change.result)], input);
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
        if (result.impl() == shown.impl()) result = input;
    }
    if (change.detached) drop_history(input);
    if (change.requires_grad == false) input.requires_grad_(false);
  }
}

}  // namespace

std::vector<Tensor> finish_epilogue(const ir::Epilogue& epilogue,
                                    std::span<const Tensor* const> inputs,
                                    const std::vector<Tensor>& values,
                                    const std::vector<int>& leaves,
                                    const std::vector<int>& grad_values, ContentCopies& copies) {
  assign_grads(epilogue, inputs, values, grad_values);
  std::vector<Tensor> results = collect_results(epilogue, inputs, values, leaves);
  change_inputs(epilogue, inputs, results, copies);
  return results;
}

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
  take(finish_epilogue(forward.epilogue, tensors, run.outputs(), variant->recording.leaves,
                       variant->recording.grad_values, copies));
  run.run();
  copies.run();
  undo.keep();
  if (node) node->end_of_call();
}

}  // namespace tandem::runtime
