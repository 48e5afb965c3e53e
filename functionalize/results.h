// The end of a functionalized graph: its outputs, and what the epilogue replays.
#ifndef TANDEM_FUNCTIONALIZE_RESULTS_H
#define TANDEM_FUNCTIONALIZE_RESULTS_H

#include "functionalize/aliases.h"

namespace tandem::functionalize {

/// Adds outputs and epilogue to the rewriter's target, in this order: results, outputs of other
/// roles, contents of written inputs.
void add_results(ir::Rewriter& rewriter, Aliases& aliases, History& history);

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_RESULTS_H
