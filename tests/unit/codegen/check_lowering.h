// Lowers a graph, runs the plan with the kernel interpreter, and compares with the reference
// interpreter.
#ifndef TANDEM_TESTS_UNIT_CODEGEN_CHECK_LOWERING_H
#define TANDEM_TESTS_UNIT_CODEGEN_CHECK_LOWERING_H

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "codegen/lower.h"
#include "ir/build/builder.h"
#include "ir/interpreter/interpret.h"
#include "ir/reduction_order.h"
#include "ir/text/text.h"
#include "tests/support/plan_interpreter.h"

namespace tandem::codegen {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Shape;
using V = ir::ValueId;

/// A graph under construction.
class TestGraph {
 public:
  TestGraph() : graph_("test", ir::Level::Core), sink_(graph_), b(sink_) {}

  V input(const Shape& sizes, DType dtype = DType::F32, std::optional<ir::Strides> strides = {},
          ir::Role role = ir::Role::Primal) {
    ir::Input in;
    in.role = role;
    in.name = "x" + std::to_string(graph_.inputs().size());
    in.strides = strides ? *strides : ir::contiguous_strides(sizes);
    return graph_.add_input(in, {dtype, sizes});
  }
  void output(V v, std::optional<ir::Strides> strides = {}, int target = -1) {
    ir::Output out;
    out.value = v;
    out.role = target >= 0 ? ir::Role::MutatedInput : ir::Role::Result;
    out.name = "y" + std::to_string(graph_.outputs().size());
    out.strides = strides ? *strides : ir::contiguous_strides(b.sizes(v));
    out.target = target;
    graph_.add_output(out);
  }
  /// Gives every reduction an order: rows [lanes, block], columns [1, block].
  ir::Graph& finish(int64_t lanes = 4, int64_t block = 16) {
    for (size_t i = 0; i < graph_.num_equations(); ++i) {
      const auto e = graph_.equation_id(i);
      if (!ir::has_attr(graph_.op(e), ir::Attr::order)) continue;
      const auto run = ir::reduction_run(graph_.type(graph_.operand(e, 0)).sizes,
                                         graph_.attr<ir::Axes>(e, ir::Attr::dims));
      graph_.set_attr(e, ir::Attr::order, std::vector<ir::Dim>{run.inner == 1 ? lanes : 1, block});
    }
    return graph_;
  }

 private:
  ir::Graph graph_;
  ir::GraphSink sink_;

 public:
  Builder b;
};

/// Values that differ, of both signs, near 1; integers small and not negative.
inline ir::Buffer sample(const ir::Type& type, int seed) {
  ir::Buffer out(type);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double x = std::sin(0.7 * static_cast<double>(i) + seed) * 1.5;
    if (ir::is_floating(type.dtype))
      out.set(i, x);
    else
      out.set(i, static_cast<int64_t>(std::fabs(x) * 2));
  }
  return out;
}

/// Every three of the numbers that are special: [343, 3].
inline ir::Buffer special_triples() {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  constexpr std::array kNumbers = {-0.0, 0.0, kNan, kInf, -kInf, 1.0, -1.0};
  ir::Buffer x({DType::F32, {343, 3}});
  for (int64_t triple = 0; triple < 343; ++triple)
    for (int64_t i = 0, left = triple; i < 3; ++i, left /= 7)
      x.set(3 * triple + i, kNumbers[static_cast<size_t>(left % 7)]);
  return x;
}

inline void expect_close(const ir::Buffer& want, const ir::Buffer& got, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(want.type(), got.type()) << what;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double a = want.at(i).to_double(), b = got.at(i).to_double();
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    ASSERT_LE(std::fabs(a - b), tolerance * (1 + std::fabs(a))) << what << ", element " << i;
  }
}

/// Of sums of a few numbers, each of which is rounded.
inline double tolerance_of(DType dtype) {
  return dtype == DType::BF16 ? 0.15 : dtype == DType::F16 ? 0.02 : 1e-5;
}

/// What runs the kernels; the tests of jit put emitted code here.
inline test::KernelRunner kernel_runner = interpret;

struct Checked {
  Plan plan;
  test::PlanRun run;
};

/// Lowers `graph`, runs it on `inputs` (samples if none) and on the reference interpreter.
inline Checked check_lowering(const ir::Graph& graph, std::vector<ir::Buffer> inputs = {},
                              const LowerOptions& options = {}, double tolerance = 2e-6) {
  if (inputs.empty())
    for (size_t i = 0; i < graph.inputs().size(); ++i)
      inputs.push_back(sample(graph.type(graph.inputs()[i].value), static_cast<int>(i)));
  Checked out;
  out.plan = lower(graph, options);
  out.run = test::PlanInterpreter(out.plan, kernel_runner).run(inputs);
  const auto want = ir::interpret(graph, inputs);
  EXPECT_EQ(want.size(), out.run.outputs.size());
  for (size_t o = 0; o < want.size(); ++o)
    expect_close(want[o], out.run.outputs[o], tolerance,
                 "output " + std::to_string(o) + " of\n" + ir::print(graph) + print(out.plan));
  std::vector<bool> written(inputs.size());
  for (const PlanOutput& o : out.plan.outputs)
    if (o.into_input >= 0) written[static_cast<size_t>(o.into_input)] = true;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!written[i]) expect_close(inputs[i], out.run.inputs[i], 0, "input " + std::to_string(i));
  return out;
}

}  // namespace tandem::codegen

#endif  // TANDEM_TESTS_UNIT_CODEGEN_CHECK_LOWERING_H
