// Runs a Functional graph as tensor operations: eagerly, or recorded where a trace is on; on the
// tape like any other operation.
#ifndef TANDEM_RUNTIME_TRACE_DISPATCH_GRAPH_H
#define TANDEM_RUNTIME_TRACE_DISPATCH_GRAPH_H

#include <tandem/tensor.h>

#include <span>
#include <vector>

#include "ir/graph.h"

namespace tandem::runtime {

/// The graph's outputs from its inputs.
std::vector<Tensor> dispatch_graph(const ir::Graph& graph, std::span<const Tensor> inputs);

/// The outputs of `forward` on these operands, with `backward` for their gradients: the halves of a
/// custom_function.
std::vector<Tensor> dispatch_function(const ir::Graph& forward, const ir::Graph& backward,
                                      const std::vector<Tensor>& operands);

/// dispatch_graph, then the epilogue; returns the caller's results.
std::vector<Tensor> dispatch_with_epilogue(const ir::Graph& graph, std::span<const Tensor> inputs,
                                           const std::vector<int>& leaves);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRACE_DISPATCH_GRAPH_H
