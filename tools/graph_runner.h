// Runs a Traced graph through the pipeline and a backend on plain buffers: forward, backward,
// epilogue. What a compiled function does, without tensors and tape.
#ifndef TANDEM_TOOLS_GRAPH_RUNNER_H
#define TANDEM_TOOLS_GRAPH_RUNNER_H

#include <cstdint>
#include <string>

#include "ir/graph.h"
#include "ir/interfaces/backend.h"
#include "ir/interfaces/partitioner.h"
#include "tools/files.h"

namespace tandem::tools {

struct RunOptions {
  const ir::Backend* backend = nullptr;
  const ir::Partitioner* partitioner = nullptr;
  bool grad = false;
  uint64_t seed = 0;  // the key of an rng input that has no tensor; its counter starts at 0
};

/// Runs `traced` on `tensors`: one per input that is not an alias, by the input's name; with `grad`
/// also `tangent:OUTPUT` per output that requires grad (a missing one is ones if the output has one
/// element). Returns the results by output name (an unnamed one is `output0`, ... by its number),
/// `mutated:INPUT` for every input whose memory the program writes, with `grad` also `grad:INPUT`
/// for every input that requires grad (zeros where no gradient arrives). Error{Argument},
/// Error{Shape} or Error{DType} for tensors that are missing, unknown or do not fit.
Tensors run_graph(ir::Graph traced, const Tensors& tensors, const RunOptions& options);

/// What `partitioner` makes of `traced`, and why.
ir::PartitionReport explain(ir::Graph traced, const ir::Partitioner& partitioner);

}  // namespace tandem::tools

#endif  // TANDEM_TOOLS_GRAPH_RUNNER_H
