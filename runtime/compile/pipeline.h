// The pipeline: from a Traced graph to a Forward and a Backward graph. Pure functions in a row.
#ifndef TANDEM_RUNTIME_COMPILE_PIPELINE_H
#define TANDEM_RUNTIME_COMPILE_PIPELINE_H

#include <tandem/graph.h>

namespace tandem::runtime {

struct PipelineOptions {
  const ir::Partitioner* partitioner = nullptr;
  bool own_partitioner = false;  // the user's: what it returns is verified
  bool contract = true;
  bool has_backward = false;  // the traced function itself runs one: a whole step
  std::span<const std::shared_ptr<const ir::GraphPass>> passes = {};
};

/// Runs every stage on `traced`. Throws what a stage throws; keeps nothing on failure.
CompiledGraphs run_pipeline(ir::Graph traced, const PipelineOptions& options);

/// The same from a Functional graph on (the backward of a compiled function, as a function of
/// primals and tangents).
CompiledGraphs run_pipeline_from_functional(ir::Graph functional, const PipelineOptions& options);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_PIPELINE_H
