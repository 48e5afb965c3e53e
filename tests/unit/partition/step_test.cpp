// Whole steps: what is computed again behind the turn changes no bit and holds less.
#include "partition/step.h"

#include "autodiff/joint.h"
#include "partition/partition.h"
#include "tests/support/graph_testing.h"
#include "tests/unit/partition/fixed_costs.h"
#include "tests/unit/partition/halves.h"

namespace tandem::graph_testing {
namespace {

using partition::recompute_in_step;
using partition_testing::FixedCosts;
using partition_testing::to_core;

/// A gelu network of four layers; its gradients, by hand from the joint graph with a tangent of
/// ones, subtracted from the weights.
Graph training_step() {
  const Type square = f32({8, 8});
  Graph joint = autodiff::joint(make_graph(
      {square, square, square, square, square},
      [](Builder& b, const Values& v) {
        ValueId x = v[0];
        for (size_t i = 1; i < v.size(); ++i)
          x = b.emit(ir::Op::gelu, {b.mm(x, v[i])}, {std::string("tanh")});
        return Values{b.sum(b.mul(x, x), ir::Axes{0, 1})};
      },
      ir::Level::Functional));
  Graph core("step", ir::Level::Functional);
  ir::GraphSink sink(core);
  Builder b(sink);
  std::vector<ValueId> primals;
  ir::ValueMap<ValueId> map(joint);
  for (const ir::Input& input : joint.inputs()) {
    if (input.role == ir::Role::Tangent) {
      map[input.value] = b.full(joint.type(input.value).sizes, ir::DType::F32, 1.0);
    } else {
      map[input.value] = core.add_input(input, joint.type(input.value));
      primals.push_back(map[input.value]);
    }
  }
  for (size_t i = 0; i < joint.num_equations(); ++i) {
    core.append_copy(joint, joint.equation_id(i), map);
    core.equation(core.equation_id(core.num_equations() - 1)).is_backward = false;
  }
  for (ir::Output output : joint.outputs()) {
    const bool is_gradient = output.role == ir::Role::Gradient;
    output.value = map[output.value];
    if (is_gradient) {
      const auto target = static_cast<size_t>(output.target);
      output.value = b.sub(primals[target], b.mul(output.value, 1e-3));
      output.role = ir::Role::Result;
      output.target = -1;
    }
    core.add_output(output);
  }
  return to_core(core);
}

TEST(Step, ComputesAgainWithTheSameBits) {
  const Graph core = training_step();
  const FixedCosts costs;
  const Buffers inputs = random_inputs(core, 1);
  int steps = 0;
  for (const char* name : {"recompute-all", "reference", "save-all", "default"}) {
    const auto step =
        recompute_in_step(core, *partition::make_partitioner(name), {.costs = &costs});
    if (!step) continue;
    ++steps;
    ir::verify(step->graph);
    expect_same_bits(run(step->graph, inputs), run(core, inputs), name);
  }
  EXPECT_GT(steps, 0);
}

TEST(Step, IsLeftAloneWhereNothingIsHeld) {
  const Graph core = to_core(make_graph(
      {f32({8})}, [](Builder& b, const Values& v) { return Values{b.exp(v[0])}; },
      ir::Level::Functional));
  const FixedCosts costs;
  EXPECT_FALSE(
      recompute_in_step(core, *partition::make_partitioner("recompute-all"), {.costs = &costs}));
}

}  // namespace
}  // namespace tandem::graph_testing
