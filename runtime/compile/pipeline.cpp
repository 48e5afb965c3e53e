// The pipeline: the table's stages, the user's passes at their points, the partition. Each is timed
// and, where verification is on, verified.
#include "runtime/compile/pipeline.h"

#include <fmt/format.h>

#include <chrono>

#include "codegen/lower.h"
#include "ir/base/error.h"
#include "ir/interfaces/pass.h"
#include "ir/verify/verify.h"
#include "partition/partition.h"
#include "partition/step.h"
#include "runtime/compile/stages.h"

namespace tandem::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using ir::Graph;
using ir::Level;

bool has_tangents(const Graph& graph) {
  for (const ir::Input& input : graph.inputs())
    if (input.role == ir::Role::Tangent) return true;
  return false;
}

using Signature = std::vector<std::pair<ir::Role, ir::Type>>;

template <class Items>
Signature signature_of(const Graph& graph, const Items& items) {
  Signature signature;
  for (const auto& item : items) signature.emplace_back(item.role, graph.type(item.value));
  return signature;
}

bool same_signature(const Graph& a, const Graph& b) {
  return a.level == b.level && signature_of(a, a.inputs()) == signature_of(b, b.inputs()) &&
         signature_of(a, a.outputs()) == signature_of(b, b.outputs());
}

/// What the user's pass returned is verified, whatever TANDEM_VERIFY says.
void check_pass(const ir::GraphPass& pass, const Graph& before, const Graph& after) {
  ir::verify(after);
  if (!same_signature(before, after))
    ir::fail(Errc::Argument,
             "pass " + pass.name +
                 ": expected a graph with the level, inputs and outputs of the one it got");
}

Graph relabelled(Graph graph, Level level) {
  graph.level = level;
  return graph;
}

class Pipeline {
 public:
  Pipeline(CompiledGraphs& graphs, const PipelineOptions& options, Level from)
      : g_(graphs), options_(options), level_(from), origin_(from) {}

  void run() {
    try {
      if (level_ == Level::Traced) verify("trace", g_.traced);
      make_core();
      split();
    } catch (const ir::InternalError& error) {
      if (since_.empty()) throw;
      throw with_reproducer(error, graph(origin_), fmt::format("{}", fmt::join(since_, ",")));
    }
  }

 private:
  Graph& graph(Level level) {
    Graph* const graphs[] = {&g_.traced, &g_.functional, &g_.joint,
                             &g_.core,   &g_.forward,    &g_.backward};
    return *graphs[static_cast<size_t>(level)];
  }

  template <class Work>
  auto timed(std::string_view name, Work work) {
    const auto start = Clock::now();
    auto result = work();
    g_.stage_seconds.emplace_back(name,
                                  std::chrono::duration<double>(Clock::now() - start).count());
    return result;
  }

  static void verify(std::string_view name, const Graph& made) {
    if (ir::verification_enabled()) ir::verify_after(name, made);
  }

  void make_core() {
    for (const Stage& stage : stages()) {
      if (stage.use == Stage::Use::Tools || stage.last < level_) continue;
      if (stage.use == Stage::Use::ToContract && !options_.contract) continue;
      if (stage.gives) leave();
      run(stage);
    }
    leave();
  }

  void run(const Stage& stage) {
    since_.emplace_back(stage.name);
    Graph made = timed(stage.name, [&] { return run_stage(stage, graph(level_)); });
    verify(stage.name, made);
    level_ = made.level;
    graph(level_) = std::move(made);
  }

  /// The user's passes end a level, whose graph is then kept.
  void leave() {
    run_passes(level_);
    graph(level_).shrink_to_fit();
    origin_ = level_;
    since_.clear();
  }

  void run_passes(Level level) {
    for (const auto& pass : options_.passes) {
      if (level_of(pass->point) != level) continue;
      Graph next = timed(pass->name, [&] { return pass->run(graph(level)); });
      check_pass(*pass, graph(level), next);
      graph(level) = std::move(next);
    }
  }

  /// From here on only rewrites that preserve every bit.
  void split() {
    if (!has_tangents(g_.core)) return take_whole();
    if (!options_.own_partitioner) since_ = {"partition=" + options_.partitioner->name()};
    ir::Partition cut = timed("partition", [&] { return partition(); });
    if (options_.own_partitioner)
      partition::require_contract(g_.core, cut, options_.partitioner->name());
    g_.forward = std::move(cut.forward);
    g_.backward = std::move(cut.backward);
    g_.partition = std::move(cut.report);
    for (const Level half : {Level::Forward, Level::Backward}) {
      verify("partition", graph(half));
      run_passes(half);
      graph(half).shrink_to_fit();
    }
  }

  /// Nothing is differentiated from outside. (A partitioner of the user's is for joint graphs.)
  void take_whole() {
    g_.forward = relabelled(g_.core, Level::Forward);
    if (options_.partitioner != nullptr) g_.partition.partitioner = options_.partitioner->name();
    if (options_.has_backward && !options_.own_partitioner)
      timed("recompute", [&] { return recompute(); });
    run_passes(Level::Forward);
  }

  bool recompute() {
    const auto costs = codegen::make_cost_model();
    auto step =
        partition::recompute_in_step(g_.core, *options_.partitioner, {.costs = costs.get()});
    if (!step) return false;
    verify("recompute", step->graph);
    g_.forward = std::move(step->graph);
    g_.forward.shrink_to_fit();
    g_.partition = std::move(step->report);
    return true;
  }

  ir::Partition partition() {
    const auto costs = codegen::make_cost_model();
    const ir::PartitionContext context = partition_context(&g_.joint, *costs);
    g_.eager_saved_bytes = context.tape_bytes;
    return options_.partitioner->partition_within(g_.core, context);
  }

  CompiledGraphs& g_;
  const PipelineOptions& options_;
  Level level_;
  Level origin_;                    // of the last graph that is kept as it was
  std::vector<std::string> since_;  // what ran since then
};

}  // namespace

CompiledGraphs run_pipeline(Graph traced, const PipelineOptions& options) {
  CompiledGraphs g;
  g.traced = std::move(traced);
  Pipeline(g, options, Level::Traced).run();
  return g;
}

CompiledGraphs run_pipeline_from_functional(Graph functional, const PipelineOptions& options) {
  CompiledGraphs g;
  g.functional = std::move(functional);
  Pipeline(g, options, Level::Functional).run();
  return g;
}

}  // namespace tandem::runtime
