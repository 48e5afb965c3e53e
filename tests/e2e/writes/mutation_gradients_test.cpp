// Gradients through writes: functionalize, then joint, against what eager autograd gives. Where
// autograd sees every write they are the differences of the program; where it does not, what
// PyTorch documents: data changes, history stays.
#include <gtest/gtest.h>

#include "autodiff/joint.h"
#include "functionalize/functionalize.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/gradcheck.h"

namespace tandem {
namespace {

using ir::DType;
using ir::Graph;
using ir::Op;
using ir::Role;
using ir::Type;
using ir::ValueId;

const Type kVector{DType::F64, {3}};
const Type kMatrix{DType::F64, {2, 3}};
using Values = std::vector<double>;

struct Traced : test::Program {
  Traced() : Program(ir::Level::Traced) {}
  void mul_(ValueId self, double factor) {
    b.pointwise_in_place(Op::mul, {self, b.number(factor, self)});
  }
  void mul_(ValueId self, ValueId other) { b.pointwise_in_place(Op::mul, {self, other}); }
  void add_(ValueId self, ValueId other) { b.pointwise_in_place(Op::add, {self, other}); }
  ValueId detach(ValueId v) { return b.emit(Op::detach, {v}); }
  template <class F>
  void no_grad(F body) {
    sink.grad_enabled = false;
    body();
    sink.grad_enabled = true;
  }
};

Graph joint_of(const Traced& program) {
  const Graph functional = functionalize::functionalize(program.graph);
  ir::verify(functional);
  const Graph joint = autodiff::joint(functional);
  ir::verify(joint);
  return joint;
}

/// The joint graph's outputs where every tangent is 1.
struct Execution {
  Graph joint;
  std::vector<ir::Buffer> outputs;
  Execution(const Traced& program, const std::vector<Values>& primals) : joint(joint_of(program)) {
    std::vector<ir::Buffer> inputs;
    for (const ir::Input& input : joint.inputs()) {
      const Type& type = joint.type(input.value);
      const Values ones(static_cast<size_t>(int64_t{ir::numel(type.sizes)}), 1.0);
      const bool is_tangent = input.role == Role::Tangent;
      inputs.push_back(test::filled(type, is_tangent ? ones : primals[inputs.size()]));
    }
    outputs = ir::interpret(joint, inputs);
  }
  Values gradient(int input) const {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (joint.outputs()[i].role == Role::Gradient && joint.outputs()[i].target == input)
        return test::values(outputs[i]);
    return {};
  }
  Values result() const { return test::values(outputs[0]); }
};

TEST(MutationGradients, ThroughWritesIntoViews) {
  Traced p;
  const ValueId x = p.input("x", kMatrix, true), w = p.input("w", kVector, true);
  const ValueId y = p.b.mul(x, x), row = p.b.select(y, 0, 1);
  p.mul_(row, w);
  p.add_(p.b.select(p.b.transpose(y, 0, 1), 0, 2), p.b.sum(row));
  p.output(p.b.mul(y, p.b.sin(row)), true);
  p.output(row, true);
  const Graph functional = functionalize::functionalize(p.graph);
  const std::vector<ir::Buffer> inputs{test::filled(kMatrix, {.1, .2, .3, .4, .5, .6}),
                                       test::filled(kVector, {1, 2, 3})};
  EXPECT_EQ(test::compare_gradients(functional, autodiff::joint(functional), inputs), "");
}

TEST(MutationGradients, OfAWrittenInput) {
  Traced p;
  const ValueId x = p.input("x", kVector, true);
  p.mul_(x, x);
  p.output(p.b.exp(x), true);
  const Graph functional = functionalize::functionalize(p.graph);
  const std::vector<ir::Buffer> inputs{test::filled(kVector, {.1, .2, .3})};
  const Graph joint = autodiff::joint(functional);
  EXPECT_EQ(joint.inputs().size(), 3u);  // a tangent for the result and one for the new x
  EXPECT_EQ(test::compare_gradients(functional, joint, inputs), "");
}

TEST(MutationGradients, WritesUnderNoGradKeepHistory) {
  Traced p;
  const ValueId w = p.input("w", kVector, true), x = p.input("x", kVector);
  p.no_grad([&] { p.mul_(w, 2); });
  p.output(p.b.mul(w, x), true);
  const Execution run(p, {{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(run.result(), (Values{8, 20, 36}));
  EXPECT_EQ(run.gradient(0), (Values{4, 5, 6}));
}

TEST(MutationGradients, WritesUnderNoGradIntoPartOfATensor) {
  for (bool view_under_no_grad : {false, true}) {
    Traced p;
    const ValueId w = p.input("w", kMatrix, true), x = p.input("x", kVector);
    ValueId row = p.b.select(w, 0, 1);
    p.no_grad([&] {
      if (view_under_no_grad) row = p.b.select(w, 0, 1);
      p.mul_(row, 0);
    });
    p.output(p.b.mul(w, x), true);
    const Execution run(p, {{1, 2, 3, 4, 5, 6}, {4, 5, 6}});
    EXPECT_EQ(run.result(), (Values{4, 10, 18, 0, 0, 0}));
    EXPECT_EQ(run.gradient(0), (Values{4, 5, 6, 4, 5, 6}));
  }
}

TEST(MutationGradients, WritesThroughDetach) {
  Traced p;
  const ValueId x = p.input("x", kVector, true);
  p.mul_(p.detach(x), 2);
  p.output(p.b.mul(x, x), true);
  const Execution run(p, {{1, 2, 3}});
  EXPECT_EQ(run.result(), (Values{4, 16, 36}));
  EXPECT_EQ(run.gradient(0), (Values{4, 8, 12}));  // 2x of the new data
}

TEST(MutationGradients, WhatIsWrittenUnderNoGradHasNoGradient) {
  Traced p;
  const ValueId x = p.input("x", kVector), w = p.input("w", kVector, true);
  const ValueId y = p.b.clone(x);
  p.no_grad([&] { p.add_(y, w); });
  p.output(p.b.mul(y, w), true);
  const Execution run(p, {{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(run.gradient(1), (Values{5, 7, 9}));
}

TEST(MutationGradients, HooksSeeTheGradientOfTheirTensor) {
  test::Program twice(ir::Level::Traced, "twice");
  const ValueId g = twice.input("g", kVector);
  twice.output(twice.b.mul(g, 2.0));
  Traced p;
  const ValueId x = p.input("x", kVector, true);
  const ir::SubgraphId backward = p.graph.add_subgraph(twice.graph);
  const ValueId y = p.b.emit(Op::hook, {p.b.mul(x, 3.0)}, {backward});
  p.mul_(y, 5);
  p.output(y, true);
  const Execution run(p, {{1, 2, 3}});
  EXPECT_EQ(run.result(), (Values{15, 30, 45}));
  EXPECT_EQ(run.gradient(0), (Values{30, 30, 30}));
}

}  // namespace
}  // namespace tandem
