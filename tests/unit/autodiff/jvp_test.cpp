// Every rule of tangents against differences, against the rule of its gradient, and differentiated.
#include "autodiff/forward/jvp.h"

#include <gtest/gtest.h>

#include "autodiff/forward/forward_graph.h"
#include "autodiff/joint.h"
#include "ir/base/error.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/expect_error.h"
#include "tests/unit/autodiff/sample_graphs.h"

namespace tandem::autodiff {
namespace {

using ir::Buffer;
using ir::Graph;
using ir::Level;
using ir::ValueId;
using test::graph_of;
using test::Program;
using test::Sample;

using Buffers = std::vector<Buffer>;

Buffer random_like(const ir::Type& type, uint64_t seed) {
  test::Numbers numbers(seed);
  Buffer buffer(type);
  for (int64_t i = 0; i < buffer.numel(); ++i) buffer.set(i, numbers.uniform(-1, 1));
  return buffer;
}

double dot(const Buffer& a, const Buffer& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += a.at(i).to_double() * b.at(i).to_double();
  return sum;
}

Buffers joined(Buffers a, const Buffers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool takes_tangent(const Graph& graph, const ir::Input& input) {
  return input.requires_grad && ir::is_differentiable(graph.type(input.value));
}

/// A direction for each input that moves, in order.
Buffers directions(const Graph& graph, uint64_t seed = 5) {
  Buffers all;
  for (const ir::Input& input : graph.inputs())
    if (takes_tangent(graph, input)) all.push_back(random_like(graph.type(input.value), seed++));
  return all;
}

/// What `moved`, the jvp of `graph`, gives behind graph's own outputs.
Buffers tangents(const Graph& graph, const Graph& moved, const Buffers& inputs,
                 const Buffers& along) {
  Buffers outputs = test::run_in_f64(moved, joined(inputs, along));
  outputs.erase(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(graph.outputs().size()));
  return outputs;
}

bool is_floating_output(const Graph& graph, const ir::Output& output) {
  return ir::is_differentiable(graph.type(output.value));
}

/// "" if the tangents of `graph` at `inputs` are those of differences, else what differs.
std::string compare_with_differences(const Graph& graph, const Buffers& inputs) {
  constexpr double kStep = 1e-6;
  const Buffers along = directions(graph);
  const auto moved_by = [&](double step) {
    Buffers all = inputs;
    size_t next = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!takes_tangent(graph, graph.inputs()[i])) continue;
      for (int64_t k = 0; k < all[i].numel(); ++k)
        all[i].set(k, all[i].at(k).to_double() + step * along[next].at(k).to_double());
      ++next;
    }
    return test::run_in_f64(graph, all);
  };
  const Buffers above = moved_by(kStep), below = moved_by(-kStep),
                got = tangents(graph, jvp(graph), inputs, along);
  std::string problems;
  size_t next = 0;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (!is_floating_output(graph, graph.outputs()[i])) continue;
    const Buffer& tangent = got[next++];
    for (int64_t k = 0; k < tangent.numel(); ++k) {
      const double expected =
          (above[i].at(k).to_double() - below[i].at(k).to_double()) / (2 * kStep);
      const double t = tangent.at(k).to_double();
      if (std::isfinite(expected) && !(std::abs(t - expected) <= 1e-6 * (1 + std::abs(expected))))
        problems +=
            fmt::format("output {} element {}: tangent {}, difference {}\n", i, k, t, expected);
    }
  }
  return problems;
}

/// "" if <J v, w> is <v, J^T w>.
std::string compare_with_gradients(const Graph& graph, const Buffers& inputs) {
  const Graph differentiated = joint(graph);
  const Buffers along = directions(graph), weights = test::random_tangents(differentiated);
  const Buffers of_outputs = tangents(graph, jvp(graph), inputs, along);
  const Buffers of_joint = test::run_in_f64(differentiated, joined(inputs, weights));
  double forward = 0, backward = 0;
  for (size_t k = 0; k < weights.size(); ++k) forward += dot(of_outputs[k], weights[k]);
  std::vector<int> direction_of(graph.inputs().size(), -1);
  int next = 0;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (takes_tangent(graph, graph.inputs()[i])) direction_of[i] = next++;
  for (size_t k = 0; k < differentiated.outputs().size(); ++k) {
    const ir::Output& output = differentiated.outputs()[k];
    if (output.role != ir::Role::Gradient) continue;
    const int d = direction_of[static_cast<size_t>(output.target)];
    backward += dot(of_joint[k], along[static_cast<size_t>(d)]);
  }
  if (std::isnan(forward) && std::isnan(backward)) return "";
  const bool close = std::abs(forward - backward) <= 1e-10 * (1 + std::abs(forward));
  return close ? "" : fmt::format("<J v, w> = {}, <v, J^T w> = {}\n", forward, backward);
}

std::string described(const Sample& sample, const Graph& graph) {
  return std::string(ir::name(sample.op)) + "\n" + ir::print(jvp(graph));
}

TEST(Jvp, RulesFitThoseOfGradients) {
  using Kind = JvpRule::Kind;
  for (int i = 0; i < ir::kOpCount; ++i) {
    const auto op = static_cast<ir::Op>(i);
    const JvpRule& rule = jvp_rule(op);
    switch (vjp_rule(op).kind) {
      case VjpRule::Kind::Differentiable:
        EXPECT_TRUE(rule.kind != Kind::None && rule.kind != Kind::Subgraph) << ir::name(op);
        break;
      case VjpRule::Kind::Subgraph:
        EXPECT_EQ(rule.kind, Kind::Subgraph) << ir::name(op);
        break;
      default:
        EXPECT_TRUE(rule.kind == Kind::None || ir::is_pointwise(op)) << ir::name(op);
    }
  }
}

TEST(Jvp, TangentsAgreeWithDifferences) {
  for (const Sample& sample : test::samples()) {
    const Graph graph = graph_of(sample, true);
    ir::verify(jvp(graph));
    EXPECT_EQ(compare_with_differences(graph, sample.operands), "") << described(sample, graph);
  }
}

TEST(Jvp, TangentsAgreeWithGradients) {
  for (const Sample& sample : test::samples()) {
    const Graph graph = graph_of(sample, true);
    EXPECT_EQ(compare_with_gradients(graph, sample.operands), "") << described(sample, graph);
  }
}

TEST(Jvp, AnyOperandsMayStandStill) {
  for (const Sample& sample : test::samples()) {
    const unsigned all = 1u << std::min<size_t>(sample.operands.size(), 4);
    for (unsigned moving = 1; moving + 1 < all; ++moving) {
      const Graph graph = graph_of(sample, false, moving);
      EXPECT_EQ(compare_with_gradients(graph, sample.operands), "") << described(sample, graph);
    }
  }
}

TEST(Jvp, ReverseOverForwardAgreesWithDifferences) {
  for (const Sample& sample : test::samples()) {
    if (!sample.twice) continue;
    const Graph moved = jvp(graph_of(sample, true)), differentiated = joint(moved);
    const Buffers inputs = joined(sample.operands, directions(graph_of(sample, true)));
    EXPECT_EQ(test::compare_gradients(moved, differentiated, inputs, 1e-5), "") << ir::print(moved);
  }
}

TEST(Jvp, ForwardOverForwardAgreesWithDifferences) {
  for (const Sample& sample : test::samples()) {
    if (!sample.twice) continue;
    const Graph moved = jvp(graph_of(sample, true));
    const Buffers inputs = joined(sample.operands, directions(graph_of(sample, true)));
    EXPECT_EQ(compare_with_differences(moved, inputs), "") << described(sample, moved);
  }
}

TEST(Jvp, ForwardOverReverseAgreesWithDifferences) {
  for (const Sample& sample : test::samples()) {
    if (!sample.twice) continue;
    const Graph differentiated = joint(graph_of(sample, true));
    const Graph gradient = test::as_functional(differentiated);
    const Buffers inputs = joined(sample.operands, test::random_tangents(differentiated));
    EXPECT_EQ(compare_with_differences(gradient, inputs), "") << described(sample, gradient);
  }
}

TEST(Jvp, WhatDoesNotMoveHasZeros) {
  Program p(Level::Functional);
  const ir::Type type{ir::DType::F64, {3}};
  const ValueId x = p.input("x", type, true), y = p.input("y", type);
  p.output(p.b.mul(y, y));
  p.output(p.b.convert(x, ir::DType::I64));
  const Graph moved = jvp(p.graph);
  ASSERT_EQ(moved.outputs().size(), 3u);  // no tangent of integers
  const Buffers got =
      test::run_in_f64(moved, {random_like(type, 1), random_like(type, 2), random_like(type, 3)});
  EXPECT_EQ(test::values(got[2]), (std::vector<double>{0, 0, 0}));
}

TEST(Jvp, WhatHasNoDerivativeIsNamed) {
  Program p(Level::Functional);
  const ir::Type type{ir::DType::F64, {3}};
  const ValueId x = p.input("x", type, true), y = p.input("y", type, true);
  p.output(p.b.floor_divide(x, y));
  testing::expect_error(ir::Errc::Autograd, "floor_divide: not differentiable",
                        [&] { jvp(p.graph); });
}

}  // namespace
}  // namespace tandem::autodiff
