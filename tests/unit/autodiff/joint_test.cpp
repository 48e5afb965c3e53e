// The joint pass on small graphs.
#include "autodiff/joint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/interfaces/custom_operator.h"
#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/gradcheck.h"

namespace tandem::autodiff {
namespace {

using ir::DType;
using ir::Graph;
using ir::Level;
using ir::Role;
using ir::Type;
using ir::ValueId;
using test::Program;

const Type kVector{DType::F64, {3}};

int count(const Graph& graph, ir::Op op) {
  return static_cast<int>(
      std::ranges::count_if(graph.equations(), [&](const auto& e) { return e.op == op; }));
}

std::vector<ir::Buffer> random_inputs(const Graph& graph) {
  std::vector<ir::Buffer> inputs;
  test::Numbers numbers(3);
  for (const ir::Input& input : graph.inputs()) {
    if (input.role == Role::Tangent) continue;
    inputs.emplace_back(graph.type(input.value));
    for (int64_t i = 0; i < inputs.back().numel(); ++i)
      inputs.back().set(i, numbers.uniform(0.2, 1));
  }
  return inputs;
}

/// joint(graph), verified and compared with differences.
Graph checked_joint(const Graph& functional) {
  const Graph graph = joint(functional);
  ir::verify(graph);
  EXPECT_EQ(test::compare_gradients(functional, graph, random_inputs(functional)), "")
      << ir::print(graph);
  return graph;
}

TEST(Joint, HasTangentsAndGradientsWithTheirTargets) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true), c = p.input("c", kVector);
  const ValueId w = p.input("w", kVector, true);
  p.output(p.b.mul(c, c));
  p.output(p.b.mul(p.b.sin(x), w), true);
  const Graph graph = checked_joint(p.graph);
  ASSERT_EQ(graph.inputs().size(), 4u);
  EXPECT_EQ(graph.inputs()[3].role, Role::Tangent);
  EXPECT_EQ(graph.inputs()[3].target, 1);
  ASSERT_EQ(graph.outputs().size(), 4u);
  EXPECT_EQ(graph.outputs()[2].role, Role::Gradient);
  EXPECT_EQ(graph.outputs()[2].target, 0);
  EXPECT_EQ(graph.outputs()[3].target, 2);
  for (const ir::Equation& e : graph.equations())
    EXPECT_EQ(e.is_backward,
              e.op == ir::Op::cos || graph.results(e)[0] >= graph.results(graph.equation_id(3))[0])
        << ir::print(graph);
}

TEST(Joint, SharedValuesAccumulate) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true);
  const ValueId y = p.b.mul(x, x);
  p.output(p.b.add(p.b.mul(y, p.b.exp(x)), y), true);
  p.output(y, true);
  checked_joint(p.graph);
}

TEST(Joint, TheSameOutputTwice) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true);
  const ValueId y = p.b.tanh(x);
  p.output(y, true);
  p.output(y, true);
  p.output(x, true);
  checked_joint(p.graph);
}

TEST(Joint, UnreachedInputsHaveNoGradient) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true), z = p.input("z", kVector, true);
  p.output(p.b.mul(x, p.b.stop_gradient(z)), true);
  const Graph graph = joint(p.graph);
  ir::verify(graph);
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.outputs()[1].target, 0);
}

TEST(Joint, PiecewiseConstantsGiveZeros) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true), y = p.input("y", kVector, true);
  p.output(p.b.floor(x), true);
  p.output(p.b.sin(y), true);
  const Graph graph = joint(p.graph);
  ir::verify(graph);
  ASSERT_EQ(graph.outputs().size(), 4u);
  EXPECT_EQ(graph.op(graph.producer(graph.outputs()[2].value)), ir::Op::full);
  EXPECT_EQ(reached_inputs(p.graph, {true, false}), (std::vector<bool>{true, false}));
  EXPECT_EQ(reached_inputs(p.graph, {false, true}), (std::vector<bool>{false, true}));
}

TEST(Joint, WhatHasNoGradientFailsWhenItIsComputed) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true), y = p.input("y", kVector, true);
  p.output(p.b.floor_divide(x, 2), true);
  p.output(p.b.sin(y), true);
  const Graph graph = joint(p.graph);
  ir::verify(graph);
  const ir::EquationId refusal = graph.producer(graph.outputs()[2].value);
  EXPECT_EQ(graph.op(refusal), ir::Op::custom_operator);
  EXPECT_EQ(graph.attr<std::string>(refusal, ir::Attr::operator_name), ir::kRefuse);
}

TEST(Joint, NothingIsComputedThatIsNotNeeded) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true), c = p.input("c", kVector);
  p.b.exp(x);  // dead
  p.output(p.b.mul(p.b.mul(x, c), c), true);
  const Graph graph = joint(p.graph);
  EXPECT_EQ(count(graph, ir::Op::exp), 0);
  EXPECT_EQ(count(graph, ir::Op::mul), 4);
}

TEST(Joint, AGraphWithoutDifferentiablePartsIsUnchanged) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector);
  p.output(p.b.exp(x), true);
  Graph expected = p.graph;
  expected.level = Level::Joint;
  EXPECT_EQ(joint(p.graph), expected);
}

TEST(Joint, EpilogueAndMutatedInputs) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true);
  p.output(p.b.mul(x, 3.0), true, Role::MutatedInput, 0);
  p.graph.epilogue.writes.push_back({0, 0, 1, false});
  const Graph graph = checked_joint(p.graph);
  EXPECT_EQ(graph.epilogue, p.graph.epilogue);
  EXPECT_EQ(graph.inputs()[1].role, Role::Tangent);
}

Graph cube() {
  Program p(Level::Functional, "cube");
  const ValueId x = p.input("x", kVector);
  p.output(p.b.mul(x, p.b.mul(x, x)));
  return p.graph;
}

TEST(Joint, CallsAreInlined) {
  Program inner(Level::Functional, "inner");
  const ValueId v = inner.input("v", kVector);
  const ir::SubgraphId nested = inner.graph.add_subgraph(cube());
  const ValueId cubed = inner.b.emit_call(ir::Op::call, {&v, 1}, {nested}, {&kVector, 1})[0];
  inner.output(inner.b.sin(cubed));

  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true);
  const ir::SubgraphId body = p.graph.add_subgraph(inner.graph);
  p.output(p.b.emit_call(ir::Op::call, {&x, 1}, {body}, {&kVector, 1})[0], true);
  const Graph graph = joint(p.graph);
  ir::verify(graph);
  EXPECT_EQ(count(graph, ir::Op::call), 0);
  EXPECT_EQ(test::compare_gradients(p.graph, graph, random_inputs(p.graph)), "");
}

// forward: (x, y) -> (x * y, x saved, y saved); backward gives 10 times the true gradient.
struct Custom {
  Graph forward, backward;
  Custom() {
    Program f(Level::Functional, "forward"), b(Level::Functional, "backward");
    const ValueId x = f.input("x", kVector), y = f.input("y", kVector);
    f.output(f.b.mul(x, y));
    f.output(x, false, Role::Saved);
    f.output(y, false, Role::Saved);
    const ValueId sx = b.input("x", kVector, false, Role::Saved);
    const ValueId sy = b.input("y", kVector, false, Role::Saved);
    const ValueId g = b.input("g", kVector, false, Role::Tangent);
    b.graph.inputs()[2].target = 0;
    b.output(b.b.mul(b.b.mul(g, sy), 10.0), false, Role::Gradient, 0);
    b.output(b.b.mul(b.b.mul(g, sx), 10.0), false, Role::Gradient, 1);
    forward = f.graph;
    backward = b.graph;
  }
};

TEST(Joint, CustomFunctionsUseTheirOwnBackward) {
  const Custom custom;
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true), y = p.input("y", kVector);
  const ir::SubgraphId forward = p.graph.add_subgraph(custom.forward);
  const ir::SubgraphId backward = p.graph.add_subgraph(custom.backward);
  const Type types[] = {kVector, kVector, kVector};
  const ValueId operands[] = {x, y};
  const auto results = p.b.emit_call(ir::Op::custom_function, operands, {forward, backward}, types);
  p.output(results[0], true);
  const Graph graph = joint(p.graph);
  ir::verify(graph);
  std::vector<ir::Buffer> inputs{test::filled(kVector, {1, 2, 3}), test::filled(kVector, {4, 5, 6}),
                                 test::filled(kVector, {1, 1, 2})};
  const auto outputs = ir::interpret(graph, inputs);
  ASSERT_EQ(outputs.size(), 2u) << ir::print(graph);
  EXPECT_EQ(test::values(outputs[0]), (std::vector<double>{4, 10, 18}));
  EXPECT_EQ(test::values(outputs[1]), (std::vector<double>{40, 50, 120}));
}

TEST(Joint, HooksMapTheGradient) {
  Program hook(Level::Functional, "hook");
  const ValueId g = hook.input("g", kVector);
  hook.output(hook.b.mul(g, 2.0));
  Program p(Level::Functional);
  const ValueId x = p.input("x", kVector, true);
  const ir::SubgraphId backward = p.graph.add_subgraph(hook.graph);
  p.output(p.b.mul(p.b.emit(ir::Op::hook, {x}, {backward}), 3.0), true);
  const Graph graph = joint(p.graph);
  ir::verify(graph);
  std::vector<ir::Buffer> inputs{test::filled(kVector, {1, 2, 3}),
                                 test::filled(kVector, {1, 1, 2})};
  EXPECT_EQ(test::values(ir::interpret(graph, inputs)[1]), (std::vector<double>{6, 6, 12}));
}

TEST(Joint, GradientsHaveEagersLayout) {
  Program p(Level::Functional);
  const Type matrix{DType::F64, {2, 3}};
  const ValueId x = p.input("x", matrix, true), e = p.input("e", matrix, true);
  p.graph.inputs()[0].strides = {1, 2};
  p.graph.inputs()[1].strides = {0, 1};
  p.output(p.b.mul(x, e), true);
  const Graph graph = joint(p.graph);
  EXPECT_EQ(graph.outputs()[1].strides, (ir::Strides{1, 2}));
  EXPECT_EQ(graph.outputs()[2].strides, (ir::Strides{3, 1}));
}

TEST(Joint, LongChains) {
  Program p(Level::Functional);
  ValueId x = p.input("x", {DType::F32, {2}}, true);
  for (int i = 0; i < 50000; ++i) x = p.b.sin(x);
  p.output(x, true);
  EXPECT_EQ(count(joint(p.graph), ir::Op::cos), 50000);
}

}  // namespace
}  // namespace tandem::autodiff
