// The interpreter as a backend: every graph runs in ir's reference interpreter. Slow; for comparing
// and for finding faults.
#include "ir/interpreter/interpret.h"
#include "runtime/backends/backends.h"
#include "runtime/eager/kernels.h"

namespace tandem::runtime {
namespace {

class InterpretedGraph final : public ir::Executable {
 public:
  explicit InterpretedGraph(ir::Graph graph) : graph_(std::move(graph)) {}

  void run(std::span<void* const> inputs, std::span<void* const> outputs) const override {
    std::vector<ir::Buffer> buffers;
    for (const auto& input : ir::input_views(graph_, inputs)) buffers.push_back(ir::copy_of(input));
    std::vector<ir::Buffer> results = ir::interpret(graph_, buffers);
    const std::vector<ir::BufferView> views = ir::output_views(graph_, outputs);
    for (size_t i = 0; i < results.size(); ++i) eager::copy_elements(results[i].view(), views[i]);
  }
  int output_from_input(int) const override { return -1; }
  ir::ExecutableReport report() const override {
    ir::ExecutableReport report;
    report.interpreted_equations = static_cast<int>(graph_.num_equations());
    return report;
  }

 private:
  ir::Graph graph_;
};

class InterpreterBackend final : public ir::Backend {
 public:
  std::string name() const override { return "interpreter"; }
  std::unique_ptr<ir::Executable> compile(const ir::Graph& graph) const override {
    return std::make_unique<InterpretedGraph>(graph);
  }
};

}  // namespace

std::shared_ptr<const ir::Backend> interpreter_backend() {
  static const auto& backend = *new auto(std::make_shared<const InterpreterBackend>());
  return backend;
}

}  // namespace tandem::runtime
