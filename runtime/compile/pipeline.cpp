// The pipeline as one list of stages. Each is timed and, where verification is on, verified.
#include "runtime/compile/pipeline.h"

#include <fmt/format.h>

#include <chrono>

#include "autodiff/joint.h"
#include "codegen/lower.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "functionalize/functionalize.h"
#include "ir/base/error.h"
#include "ir/build/rewrite.h"
#include "ir/interfaces/pass.h"
#include "ir/verify/verify.h"
#include "partition/partition.h"

namespace tandem::runtime {
namespace {

using Seconds = std::chrono::duration<double>;

/// Runs one stage: time it, verify what it made.
template <class Stage>
ir::Graph run(CompiledGraphs& graphs, const char* name, Stage stage) {
  const auto start = std::chrono::steady_clock::now();
  ir::Graph graph = stage();
  graphs.stage_seconds.emplace_back(name,
                                    Seconds(std::chrono::steady_clock::now() - start).count());
  if (ir::verification_enabled()) ir::verify_after(name, graph);
  return graph;
}

bool has_tangents(const ir::Graph& graph) {
  for (const ir::Input& input : graph.inputs())
    if (input.role == ir::Role::Tangent) return true;
  return false;
}

using Signature = std::vector<std::pair<ir::Role, ir::Type>>;

template <class Items>
Signature signature_of(const ir::Graph& graph, const Items& items) {
  Signature signature;
  for (const auto& item : items) signature.emplace_back(item.role, graph.type(item.value));
  return signature;
}

bool same_signature(const ir::Graph& a, const ir::Graph& b) {
  return a.level == b.level && signature_of(a, a.inputs()) == signature_of(b, b.inputs()) &&
         signature_of(a, a.outputs()) == signature_of(b, b.outputs());
}

/// The user's passes of one point. What they return is verified, whatever TANDEM_VERIFY says.
void run_passes(CompiledGraphs& g, const PipelineOptions& options, ir::PassPoint point,
                ir::Graph& graph) {
  for (const auto& pass : options.passes) {
    if (pass->point != point) continue;
    ir::Graph next = run(g, pass->name.c_str(), [&] { return pass->run(graph); });
    ir::verify(next);
    if (!same_signature(graph, next))
      ir::fail(ir::Errc::Argument,
               "pass " + pass->name +
                   ": expected a graph with the level, inputs and outputs of the one it got");
    graph = std::move(next);
  }
}

ir::Graph relabelled(ir::Graph graph, ir::Level level) {
  graph.level = level;
  return graph;
}

/// Everything that may change a bit of a result, or that cut and recomputation must agree on,
/// happens here, before the partition.
void make_core(CompiledGraphs& g, const PipelineOptions& options) {
  g.core = run(g, "decompose", [&] { return decomps::decompose(g.joint); });
  g.core = run(g, "simplify", [&] { return decomps::simplify(std::move(g.core)); });
  g.core = run(g, "join parts", [&] { return decomps::join_parts(std::move(g.core)); });
  g.core =
      run(g, "cse", [&] { return decomps::eliminate_common_subexpressions(std::move(g.core)); });
  g.core =
      run(g, "scatter into sums", [&] { return decomps::scatter_into_sums(std::move(g.core)); });
  if (options.contract)
    g.core = run(g, "fma", [&] { return decomps::form_fma(std::move(g.core)); });
  g.core =
      run(g, "reduction orders", [&] { return decomps::set_reduction_orders(std::move(g.core)); });
  g.core = run(g, "contractions",
               [&] { return codegen::make_contraction_planner()->plan(std::move(g.core)); });
  run_passes(g, options, ir::PassPoint::Core, g.core);
}

void split(CompiledGraphs& g, const PipelineOptions& options) {
  if (!has_tangents(g.core)) {
    g.forward = relabelled(g.core, ir::Level::Forward);
    return run_passes(g, options, ir::PassPoint::Forward, g.forward);
  }
  const auto start = std::chrono::steady_clock::now();
  partition::EagerTape tape = partition::eager_tape(g.joint);
  g.eager_saved_bytes = tape.bytes;
  const auto costs = codegen::make_cost_model();
  ir::Partition cut = options.partitioner->partition_within(
      g.core, {tape.bytes, std::move(tape.outputs), costs.get()});
  g.stage_seconds.emplace_back("partition",
                               Seconds(std::chrono::steady_clock::now() - start).count());
  if (options.own_partitioner)
    partition::require_contract(g.core, cut, options.partitioner->name());
  g.forward = std::move(cut.forward);
  g.backward = std::move(cut.backward);
  g.partition = std::move(cut.report);
  run_passes(g, options, ir::PassPoint::Forward, g.forward);
  run_passes(g, options, ir::PassPoint::Backward, g.backward);
  if (!ir::verification_enabled()) return;
  ir::verify_after("partition", g.forward);
  ir::verify_after("partition", g.backward);
}

void run_from_functional(CompiledGraphs& g, const PipelineOptions& options) {
  run_passes(g, options, ir::PassPoint::Functional, g.functional);
  g.joint = run(g, "joint", [&] { return autodiff::joint(g.functional); });
  run_passes(g, options, ir::PassPoint::Joint, g.joint);
  // Below this line: no mutation, no aliasing, primitives only.
  make_core(g, options);
  // Below this line: only rewrites that preserve every bit.
  split(g, options);
}

}  // namespace

CompiledGraphs run_pipeline(ir::Graph traced, const PipelineOptions& options) {
  CompiledGraphs g;
  g.traced = std::move(traced);
  if (ir::verification_enabled()) ir::verify_after("trace", g.traced);
  g.functional = run(g, "functionalize", [&] { return functionalize::functionalize(g.traced); });
  run_from_functional(g, options);
  return g;
}

CompiledGraphs run_pipeline_from_functional(ir::Graph functional, const PipelineOptions& options) {
  CompiledGraphs g;
  g.functional = std::move(functional);
  run_from_functional(g, options);
  return g;
}

}  // namespace tandem::runtime
