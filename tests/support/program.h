// Graphs written in a test with Builder, and buffers to run them on. Needs ir/ only.
#ifndef TANDEM_TESTS_SUPPORT_PROGRAM_H
#define TANDEM_TESTS_SUPPORT_PROGRAM_H

#include <string>
#include <utility>
#include <vector>

#include "ir/buffer.h"
#include "ir/build/builder.h"
#include "ir/graph.h"

namespace tandem::test {

/// A graph under construction. Strides of inputs and outputs are contiguous.
struct Program {
  explicit Program(ir::Level level, std::string name = "f")
      : graph(std::move(name), level), sink(graph), b(sink) {}

  ir::Graph graph;
  ir::GraphSink sink;
  ir::Builder b;

  ir::ValueId input(std::string name, const ir::Type& type, bool requires_grad = false,
                    ir::Role role = ir::Role::Primal) {
    ir::Input input;
    input.name = std::move(name);
    input.role = role;
    input.requires_grad = requires_grad;
    input.strides = ir::contiguous_strides(type.sizes);
    return graph.add_input(std::move(input), type);
  }

  void output(ir::ValueId v, bool requires_grad = false, ir::Role role = ir::Role::Result,
              int target = -1) {
    ir::Output output;
    output.value = v;
    output.role = role;
    output.requires_grad = requires_grad;
    output.strides = ir::contiguous_strides(graph.type(v).sizes);
    output.target = target;
    graph.add_output(std::move(output));
  }
};

/// Numbers that do not repeat soon, the same in every run.
class Numbers {
 public:
  explicit Numbers(uint64_t seed = 1) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  double uniform(double low, double high) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

/// A buffer of `type` with small integers (exact in every dtype).
inline ir::Buffer integers(const ir::Type& type, uint64_t seed = 1) {
  Numbers numbers(seed);
  ir::Buffer buffer(type);
  for (int64_t i = 0; i < buffer.numel(); ++i)
    buffer.set(i, static_cast<int64_t>(numbers.uniform(-8, 9)));
  return buffer;
}

inline ir::Buffer filled(const ir::Type& type, const std::vector<double>& values) {
  ir::Buffer buffer(type);
  for (int64_t i = 0; i < buffer.numel(); ++i) buffer.set(i, values[static_cast<size_t>(i)]);
  return buffer;
}

inline std::vector<double> values(const ir::Buffer& buffer) {
  std::vector<double> out;
  for (int64_t i = 0; i < buffer.numel(); ++i) out.push_back(buffer.at(i).to_double());
  return out;
}

}  // namespace tandem::test

#endif  // TANDEM_TESTS_SUPPORT_PROGRAM_H
