// Tensors as the values of a graph's inputs and outputs: allocating, checking layouts, running an
// executable on them.
#ifndef TANDEM_RUNTIME_COMPILE_GRAPH_VALUES_H
#define TANDEM_RUNTIME_COMPILE_GRAPH_VALUES_H

#include <span>
#include <vector>

#include "ir/base/inline_vector.h"
#include "ir/interfaces/backend.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// Whether `t` has these strides in every dim larger than 1.
bool has_layout(const TensorImpl& t, const Strides& strides);

/// A run of `executable`, compiled from `graph`, on its inputs' tensors as they lie now.
class ExecutableRun {
 public:
  /// Allocates the outputs with the graph's layouts (an output that is an untouched input is that
  /// tensor; one that is written into an input's memory is that input).
  ExecutableRun(const ir::Executable& executable, const ir::Graph& graph,
                std::span<const Tensor* const> inputs);
  const std::vector<Tensor>& outputs() const { return outputs_; }
  std::vector<Tensor> take_outputs() { return std::move(outputs_); }
  /// Computes them. The inputs' memory must still be there.
  void run() const;

 private:
  const ir::Executable& executable_;
  ir::InlineVector<void*, 96> from_, to_;
  std::vector<Tensor> outputs_;
};

/// The outputs of such a run.
std::vector<Tensor> run_executable(const ir::Executable& executable, const ir::Graph& graph,
                                   std::span<const Tensor* const> inputs);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_GRAPH_VALUES_H
