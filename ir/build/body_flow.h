// What of a branch or loop depends on what, found from its bodies.
#ifndef TANDEM_IR_BUILD_BODY_FLOW_H
#define TANDEM_IR_BUILD_BODY_FLOW_H

#include <vector>

#include "ir/graph.h"

namespace tandem::ir {

/// By output of a graph: whether it depends on one of the inputs that are `given`.
using DependentOutputs = std::vector<bool> (*)(const Graph& body, const std::vector<bool>& given);

/// By result of `e`, a cond or scan: whether it depends on one of the operands that are `given`, as
/// `outputs` says of its bodies.
std::vector<bool> dependent_results(const Graph& graph, EquationId e, std::vector<bool> given,
                                    DependentOutputs outputs);

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_BODY_FLOW_H
