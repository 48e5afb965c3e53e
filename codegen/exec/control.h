// Branches and loops of a plan: which bodies run on which memory, without going back to the
// compiler.
#ifndef TANDEM_CODEGEN_EXEC_CONTROL_H
#define TANDEM_CODEGEN_EXEC_CONTROL_H

#include <memory>
#include <span>
#include <vector>

#include "codegen/plan.h"
#include "ir/base/function_ref.h"

namespace tandem::exec {

class PlanRunner;
using Bodies = std::vector<std::unique_ptr<const PlanRunner>>;  // by SubgraphId

/// Runs a step that is_control(). `operands` and `results` are the addresses of call's. A loop
/// reuses what memory its bodies work in, and writes its carries by turns into two places.
void run_control(const codegen::ExternalCall& call, const Bodies& bodies,
                 std::span<void* const> operands, std::span<void* const> results);

}  // namespace tandem::exec

#endif  // TANDEM_CODEGEN_EXEC_CONTROL_H
