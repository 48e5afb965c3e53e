// Tensors as the values of a graph's inputs and outputs: allocating, checking layouts, running an
// executable on them.
#ifndef TANDEM_RUNTIME_GRAPH_VALUES_H
#define TANDEM_RUNTIME_GRAPH_VALUES_H

#include <span>
#include <vector>

#include "ir/backend.h"
#include "runtime/tensor_impl.h"

namespace tandem::runtime {

/// Whether `t` has these strides in every dim larger than 1.
bool has_layout(const TensorImpl& t, const Strides& strides);

/// Runs `executable`, compiled from `graph`, on its inputs' tensors: allocates the outputs with the
/// graph's layouts (an output that is an untouched input is that tensor; one that is written into
/// an input's memory is that input).
std::vector<Tensor> run_executable(const ir::Executable& executable, const ir::Graph& graph,
                                   std::span<const Tensor* const> inputs);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_GRAPH_VALUES_H
