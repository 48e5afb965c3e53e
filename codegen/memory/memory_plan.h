// Where values lie: offsets in one arena from their lifetimes, outputs in their own buffers, and
// what may be computed in place.
#ifndef TANDEM_CODEGEN_MEMORY_MEMORY_PLAN_H
#define TANDEM_CODEGEN_MEMORY_MEMORY_PLAN_H

#include <vector>

#include "codegen/draft.h"
#include "codegen/lower.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {

/// Gives every value of the drafts a place: fills plan.steps, plan.kernels (equal ones once),
/// plan.arena_bytes and the outputs' into_input, which is honoured for the outputs in
/// `write_into_input` where nothing reads the input's old contents later, by itself or by another
/// input over the same memory. Expects plan.inputs and plan.outputs with the graph's types and
/// strides. `targets`: by output, the input that it is the new contents of, or -1. `memories`: by
/// input, the first one that shares its memory.
void plan_memory(const Program& program, Drafts drafts, const std::vector<int>& targets,
                 const std::vector<int>& memories, const LowerOptions& options, Plan& plan);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_MEMORY_MEMORY_PLAN_H
