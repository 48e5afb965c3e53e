// The stages from a Traced graph to a Core one, in one table: compile(), `tandem opt`, filetests
// and reports run them from here.
#ifndef TANDEM_RUNTIME_COMPILE_STAGES_H
#define TANDEM_RUNTIME_COMPILE_STAGES_H

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/base/error.h"
#include "ir/graph.h"
#include "ir/interfaces/partitioner.h"

namespace tandem::runtime {

struct Stage {
  std::string_view name;
  ir::Level first, last;           // of the graphs that it takes
  std::optional<ir::Level> gives;  // none: a graph of the level it took, whose contents are gone
  ir::Graph (*run)(ir::Graph& graph);
  enum class Use : uint8_t { Always, ToContract, Tools } use = Use::Always;
};

/// In the pipeline's order; last those that only tools run.
std::span<const Stage> stages();

/// Runs `stage` on a graph of a level that it takes.
ir::Graph run_stage(const Stage& stage, ir::Graph& graph);

/// What a partitioner is told beside the graph: the planner's costs, and what an eager tape of
/// `joint` would hold (null: unknown).
ir::PartitionContext partition_context(const ir::Graph* joint, const ir::CostModel& costs);

/// `error` with how to meet it again: `graph` is written as JSON into TANDEM_REPRODUCERS (a folder;
/// without it the one for temporary files), beside the command that runs `passes` on it.
ir::InternalError with_reproducer(const ir::InternalError& error, const ir::Graph& graph,
                                  const std::string& passes);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_STAGES_H
