#include "runtime/compile/graph_values.h"

#include "ir/base/error.h"

namespace tandem::runtime {

bool has_layout(const TensorImpl& t, const Strides& strides) {
  for (int d = 0; d < t.sizes.rank(); ++d)
    if (t.sizes[d] > 1 && t.strides[d] != strides[d]) return false;
  return true;
}

ExecutableRun::ExecutableRun(const ir::Executable& executable, const ir::Graph& graph,
                             std::span<const Tensor* const> inputs)
    : executable_(executable) {
  TANDEM_CHECK(inputs.size() == graph.inputs().size(), "one tensor per graph input");
  for (const Tensor* t : inputs) from_.push_back(t->impl()->data());
  outputs_.reserve(graph.outputs().size());
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    const ir::Output& output = graph.outputs()[k];
    const int same = executable.output_from_input(static_cast<int>(k)),
              into = executable.output_into_input(static_cast<int>(k));
    const int input = same >= 0 ? same : into;
    const ir::Type& type = graph.type(output.value);
    if (input >= 0)
      outputs_.push_back(*inputs[static_cast<size_t>(input)]);
    else
      outputs_.push_back(empty_tensor(type.sizes, output.strides, type.dtype));
    to_.push_back(outputs_.back().impl()->data());
  }
}

void ExecutableRun::run() const {
  executable_.run({from_.data(), from_.size()}, {to_.data(), to_.size()});
}

std::vector<Tensor> run_executable(const ir::Executable& executable, const ir::Graph& graph,
                                   std::span<const Tensor* const> inputs) {
  ExecutableRun run(executable, graph, inputs);
  run.run();
  return run.take_outputs();
}

}  // namespace tandem::runtime
