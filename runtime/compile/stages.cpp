#include "runtime/compile/stages.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "autodiff/forward/forward_graph.h"
#include "autodiff/joint.h"
#include "codegen/lower.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "functionalize/functionalize.h"
#include "ir/base/file_writer.h"
#include "ir/build/inline.h"
#include "ir/build/rewrite.h"
#include "ir/json/json.h"
#include "partition/partition.h"

namespace tandem::runtime {
namespace {

using ir::Graph;
using ir::Level;
using Use = Stage::Use;

/// A stage that reads its graph, and one that takes it over.
template <auto pass>
Graph reading(Graph& graph) {
  return pass(graph);
}
template <auto pass>
Graph taking(Graph& graph) {
  return pass(std::move(graph));
}

Graph plan_contractions(Graph graph) {
  return codegen::make_contraction_planner()->plan(std::move(graph));
}

// Everything that may change a bit of a result, or that cut and recomputation must agree on, stands
// here, before the partition. From decompose on there is no mutation, no aliasing, primitives only.
constexpr Stage kStages[] = {
    {"functionalize", Level::Traced, Level::Traced, Level::Functional,
     reading<functionalize::functionalize>},
    {"joint", Level::Functional, Level::Functional, Level::Joint, reading<autodiff::joint>},
    {"decompose", Level::Functional, Level::Joint, Level::Core, reading<decomps::decompose>},
    {"simplify", Level::Core, Level::Backward, {}, taking<decomps::simplify>},
    {"updates", Level::Core, Level::Core, {}, taking<decomps::put_parts_back>},
    {"writes", Level::Core, Level::Core, {}, taking<decomps::see_through_writes>},
    {"parts", Level::Core, Level::Core, {}, taking<decomps::join_parts>},
    {"nesting", Level::Core, Level::Core, {}, taking<decomps::nest_concatenations>},
    {"sharing", Level::Core, Level::Core, {}, taking<decomps::share_between_bodies>},
    {"loops", Level::Core, Level::Core, {}, taking<decomps::move_out_of_loops>},
    {"cse", Level::Core, Level::Backward, {}, taking<decomps::eliminate_common_subexpressions>},
    {"scatters", Level::Core, Level::Core, {}, taking<decomps::scatter_into_sums>},
    {"windows", Level::Core, Level::Core, {}, taking<decomps::sum_windows_by_slices>},
    {"permutations", Level::Core, Level::Core, {}, taking<decomps::undo_permutations>},
    {"fma", Level::Core, Level::Core, {}, taking<decomps::form_fma>, Use::ToContract},
    {"contractions", Level::Core, Level::Core, {}, taking<plan_contractions>},
    {"rows", Level::Core, Level::Core, {}, taking<decomps::split_reductions>},
    {"orders", Level::Core, Level::Core, {}, taking<decomps::set_reduction_orders>},
    {"jvp", Level::Functional, Level::Functional, {}, reading<autodiff::jvp>, Use::Tools},
    {"inline", Level::Traced, Level::Joint, {}, reading<ir::inline_calls>, Use::Tools},
    {"dce", Level::Functional, Level::Backward, {}, reading<ir::remove_dead_code>, Use::Tools},
};

/// A new path for a graph; other processes and threads make others.
std::string reproducer_path(const Graph& graph) {
  static std::atomic<int> count = 0;
  const char* const folder = std::getenv("TANDEM_REPRODUCERS");
  const std::filesystem::path in =
      folder != nullptr ? std::filesystem::path(folder) : std::filesystem::temp_directory_path();
  return in / fmt::format("tandem-{}-{}-{}.json", ir::name(graph.level), getpid(), count++);
}

}  // namespace

std::span<const Stage> stages() { return kStages; }

Graph run_stage(const Stage& stage, Graph& graph) {
  const Level expected = stage.gives.value_or(graph.level);
  Graph result = stage.run(graph);
  TANDEM_CHECK(result.level == expected, std::string(stage.name));
  return result;
}

ir::PartitionContext partition_context(const Graph* joint, const ir::CostModel& costs) {
  ir::PartitionContext context{.costs = &costs};
  if (joint == nullptr) return context;
  partition::EagerTape tape = partition::eager_tape(*joint);
  context.tape_bytes = tape.bytes;
  context.held_outputs = std::move(tape.outputs);
  return context;
}

ir::InternalError with_reproducer(const ir::InternalError& error, const Graph& graph,
                                  const std::string& passes) {
  try {
    const std::string path = reproducer_path(graph);
    ir::FileWriter file(path);
    file.write(ir::to_json(graph));
    file.commit();
    return ir::InternalError(
        fmt::format("{}; again with: tandem opt --pass {} {}", error.what(), passes, path));
  } catch (const std::exception&) {  // what counts is the fault, not the disk
    return error;
  }
}

}  // namespace tandem::runtime
