// The interpreter as a backend: every graph runs in ir's reference interpreter. Slow; for comparing
// and for finding faults.
#include <cstring>

#include "ir/interpret.h"
#include "runtime/backends/backends.h"

namespace tandem::runtime {
namespace {

/// Writes a contiguous buffer into strided memory of the same type.
void copy_into(const ir::Buffer& from, const ir::BufferView& to) {
  const size_t bytes = ir::size_of(to.dtype);
  const int rank = to.sizes.rank();
  ir::Shape index = ir::Shape::filled(rank, 0);
  const auto* source = static_cast<const char*>(from.data());
  for (int64_t i = 0; i < from.numel(); ++i) {
    int64_t at = 0;
    for (int d = 0; d < rank; ++d) at += int64_t{index[d]} * int64_t{to.strides[d]};
    std::memcpy(static_cast<char*>(to.data) + at * static_cast<int64_t>(bytes),
                source + i * static_cast<int64_t>(bytes), bytes);
    for (int d = rank - 1; d >= 0 && (index[d] += 1) == to.sizes[d]; --d) index[d] = 0;
  }
}

class InterpretedGraph final : public ir::Executable {
 public:
  explicit InterpretedGraph(ir::Graph graph) : graph_(std::move(graph)) {}

  void run(std::span<const ir::BufferView> inputs,
           std::span<const ir::BufferView> outputs) const override {
    std::vector<ir::Buffer> buffers;
    for (const ir::BufferView& input : inputs) buffers.push_back(ir::copy_of(input));
    const std::vector<ir::Buffer> results = ir::interpret(graph_, buffers);
    for (size_t i = 0; i < results.size(); ++i) copy_into(results[i], outputs[i]);
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
  static const auto backend = std::make_shared<const InterpreterBackend>();
  return backend;
}

}  // namespace tandem::runtime
