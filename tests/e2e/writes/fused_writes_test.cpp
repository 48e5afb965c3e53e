// Writes to inputs that kernels make themselves: which are, which must not be, and that no store
// happens before something that can still fail.
#include <tandem/graph.h>

#include <algorithm>

#include "codegen/lower.h"
#include "runtime/backends/backends.h"
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

using codegen::BufferRef;
using codegen::Plan;

/// The JIT; remembers for each write of what it compiled last whether a kernel makes it.
class Watched final : public ir::Backend {
 public:
  std::string name() const override { return "watched jit"; }
  std::unique_ptr<ir::Executable> compile(const ir::Graph& graph) const override {
    auto executable = runtime::jit_backend()->compile(graph);
    if (graph.level != ir::Level::Backward) {
      fused.clear();
      for (const ir::InputWrite& write : graph.epilogue.writes)
        fused.push_back(executable->output_into_input(write.output) == write.input);
    }
    return executable;
  }
  mutable std::vector<bool> fused;
};

/// Compiles `function` for the inputs and runs it; whether kernels make each of its writes.
std::vector<bool> fused_writes(const Program& function, const MakeInputs& make_inputs,
                               Setting setting = Setting::Plain, bool grad_mode = true) {
  const auto backend = std::make_shared<Watched>();
  CompileOptions options;
  options.backend = backend;
  const auto compiled = compile([&](const Tensors& in) { return function(in); }, options);
  const Outcome o = run(compiled, make_inputs, {.setting = setting, .grad_mode = grad_mode});
  EXPECT_FALSE(o.forward_error) << o.forward_error->what();
  return backend->fused;
}

// --- an optimizer's step

struct Step {
  std::vector<Tensor> parameters, gradients;
  TANDEM_FIELDS(Step, parameters, gradients)
};

Step step_of(const std::vector<Shape>& sizes) {
  Step step;
  for (size_t i = 0; i < sizes.size(); ++i) {
    step.parameters.push_back(noise(sizes[i], i).requires_grad_());
    step.gradients.push_back(noise(sizes[i], 100 + i));
  }
  return step;
}

void sgd(const Step& step) {
  const NoGrad no_grad;
  for (size_t i = 0; i < step.parameters.size(); ++i)
    step.parameters[i].sub_(step.gradients[i] * 0.01);
}

TEST(FusedWrites, SgdWritesTheParametersDirectly) {
  const Step step = step_of({{17, 9}, {9}, {9, 33}, {33}, {}, {5, 4, 3}});
  const auto compiled = compile([](const Step& s) { sgd(s); });
  const CompiledGraphs& graphs = compiled.graphs(step);
  std::vector<int> writes;
  for (const ir::InputWrite& write : graphs.forward.epilogue.writes) writes.push_back(write.output);
  ASSERT_EQ(writes.size(), step.parameters.size());
  const Plan plan = codegen::lower(graphs.forward, {.write_into_input = writes});
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(plan.outputs.size(), step.parameters.size());
  for (size_t k = 0; k < plan.outputs.size(); ++k)
    EXPECT_EQ(plan.outputs[k].into_input, graphs.forward.outputs()[k].target);
  EXPECT_LE(plan.steps.size(), step.parameters.size());  // no step that only copies
  for (const codegen::Step& s : plan.steps) {
    const auto* launch = std::get_if<codegen::Launch>(&s);
    ASSERT_NE(launch, nullptr);
    for (const BufferRef& ref : launch->params) EXPECT_EQ(ref.kind, BufferRef::Kind::Input);
  }
}

TEST(FusedWrites, SgdGivesWhatEagerGives) {
  const Step eager = step_of({{17, 9}, {9}}), compiled = step_of({{17, 9}, {9}});
  const auto function = compile([](const Step& s) { sgd(s); });
  for (int i = 0; i < 3; ++i) sgd(eager), function(compiled);
  for (size_t i = 0; i < eager.parameters.size(); ++i) {
    expect_close(eager.parameters[i].detach(), compiled.parameters[i].detach(), 1e-6, "parameter");
    EXPECT_EQ(eager.parameters[i].version(), compiled.parameters[i].version());
    EXPECT_TRUE(compiled.parameters[i].is_leaf());
  }
}

// --- which writes kernels make

TEST(FusedWrites, OfInputsInEverySetting) {
  const Program function = [](const Tensors& in) -> Tensors {
    return in[0].mul_(in[1]), Tensors{};
  };
  const MakeInputs inputs = tensors({{5}, {5}});
  EXPECT_EQ(fused_writes(function, inputs), std::vector<bool>{true});
  EXPECT_EQ(fused_writes(function, inputs, Setting::Leaf, false), std::vector<bool>{true});
}

TEST(FusedWrites, OfANonLeafWhoseHistoryGoesOn) {
  const Program function = [](const Tensors& in) -> Tensors {
    return in[0].add_(in[1]), Tensors{};
  };
  EXPECT_EQ(fused_writes(function, tensors({{5}, {5}}), Setting::NonLeaf), std::vector<bool>{true});
}

TEST(FusedWrites, NotWhereTheBackwardReadsTheOldValue) {
  const Program function = [](const Tensors& in) -> Tensors {
    return in[0].mul_(in[0]), Tensors{};
  };
  EXPECT_EQ(fused_writes(function, tensors({{5}}), Setting::NonLeaf), std::vector<bool>{false});
}

TEST(FusedWrites, OfOverlappingInputsAtMostOne) {
  const Program function = [](const Tensors& in) -> Tensors {
    in[0].add_(1), in[1].mul_(in[0].clone());
    return {in[1] * 2};
  };
  const MakeInputs overlapping =
      views_of({6}, [](const Tensor& b) { return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6)}; });
  const std::vector<bool> fused = fused_writes(function, overlapping);
  EXPECT_EQ(fused.size(), 2u);
  EXPECT_LE(std::count(fused.begin(), fused.end(), true), 1);
  check_compiled(function, overlapping);
}

/// As of a cache of which a call fills one row.
TEST(FusedWrites, OfAPartAreMadeWithoutACopyOfTheRest) {
  const Program function = [](const Tensors& in) -> Tensors {
    in[0].select(0, 2).add_(in[1]);
    return {in[0].sum({0})};
  };
  const MakeInputs inputs = tensors({{4, 5}, {5}});
  EXPECT_EQ(fused_writes(function, inputs), std::vector<bool>{true});
  check_compiled(function, inputs);
  const Tensor cache = noise({4, 5}, 1), row = noise({5}, 2);
  const auto compiled = compile([](const Tensor& c, const Tensor& r) { c.select(0, 2).copy_(r); });
  const CompiledGraphs& graphs = compiled.graphs(cache, row);
  const Plan plan = codegen::lower(graphs.forward, {.write_into_input = {0}});
  EXPECT_EQ(plan.outputs[0].into_input, 0);
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(plan.steps.size(), 1u);
}

/// The whole and a part of it; the graph reads the part through the whole.
const MakeInputs kWholeAndPart =
    views_of({6}, [](const Tensor& b) { return Tensors{b, b.slice(0, 2, 5)}; });

TEST(FusedWrites, OfMemoryThatTwoInputsShow) {
  const Program whole = [](const Tensors& in) -> Tensors {
    return in[0].mul_(2), Tensors{in[1] + 1};
  };
  const Program part = [](const Tensors& in) -> Tensors {
    return in[1].mul_(2), Tensors{in[0] + 1};
  };
  const Program both = [](const Tensors& in) -> Tensors {
    in[1].mul_(2), in[0].add_(1);
    return {};
  };
  for (const Program& function : {whole, part, both}) {
    EXPECT_EQ(fused_writes(function, kWholeAndPart), std::vector<bool>{true});
    EXPECT_EQ(fused_writes(function, kWholeAndPart, Setting::NonLeaf), std::vector<bool>{true});
    check_compiled(function, kWholeAndPart);
  }
}

TEST(FusedWrites, OfMemoryThatTwoInputsShowHaveNoCopy) {
  const Tensor whole = noise({6}, 1), part = whole.slice(0, 2, 5);
  const auto compiled = compile([](const Tensor&, const Tensor& b) { b.mul_(2); });
  const CompiledGraphs& graphs = compiled.graphs(whole, part);
  ASSERT_EQ(graphs.forward.epilogue.writes.size(), 1u);
  const int output = graphs.forward.epilogue.writes[0].output;
  const Plan plan = codegen::lower(graphs.forward, {.write_into_input = {output}});
  EXPECT_EQ(plan.outputs[static_cast<size_t>(output)].into_input, 0);
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(plan.steps.size(), 1u);
}

/// Two parts that lie apart: neither is read through the other.
TEST(FusedWrites, OfOneOfTwoPartsThatLieApart) {
  const Program function = [](const Tensors& in) -> Tensors {
    return in[0].mul_(in[1]), Tensors{};
  };
  const MakeInputs apart =
      views_of({8}, [](const Tensor& b) { return Tensors{b.slice(0, 0, 3), b.slice(0, 5, 8)}; });
  EXPECT_EQ(fused_writes(function, apart), std::vector<bool>{false});  // read in the same kernel
  const Program later = [](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{}; };
  EXPECT_EQ(fused_writes(later, apart), std::vector<bool>{true});
  check_compiled(function, apart);
  check_compiled(later, apart);
}

TEST(FusedWrites, OneOfTwoThatSwap) {
  const Program swap = [](const Tensors& in) -> Tensors {
    const Tensor old = in[0].clone();
    in[0].copy_(in[1]), in[1].copy_(old);
    return {};
  };
  const std::vector<bool> fused = fused_writes(swap, tensors({{5}, {5}}));
  EXPECT_LE(std::count(fused.begin(), fused.end(), true),
            1);  // both would read what the other wrote
}

// --- nothing is stored before what can fail

TEST(FusedWrites, AnIndexOutOfRangeLeavesInputsUntouched) {
  const auto function = [](const Tensor& x, const Tensor& table, const Tensor& index) {
    x.add_(1);
    return table.index_select(0, index);
  };
  const auto compiled = compile(function);
  const Tensor x = noise({4}, 1), table = noise({3, 2}, 2), before = x.clone();
  EXPECT_EQ(compiled(x, table, tensor({0, 2}, i64)).sizes(), (Shape{2, 2}));
  const Tensor after = x.clone();
  const uint64_t version = x.version();
  EXPECT_THROW(compiled(x, table, tensor({0, 3}, i64)), Error);
  expect_close(after, x, 0, "x");
  EXPECT_EQ(x.version(), version);
}

TEST(FusedWrites, ALeafIsRefusedByWhatWasCompiledForANonLeaf) {
  const auto compiled = compile([](const Tensor& x) { x.mul_(2); });
  const Tensor leaf = noise({4}, 1).requires_grad_(), other = leaf * 1;
  compiled(other);
  const Tensor before = leaf.detach().clone();
  EXPECT_THROW(compiled(leaf), Error);
  expect_close(before, leaf.detach(), 0, "leaf");
  EXPECT_THROW(compiled(leaf.alias()), Error);
  expect_close(before, leaf.detach(), 0, "leaf");
}

TEST(FusedWrites, ReadOnlyMemoryIsRefusedByWhatWasCompiledForOther) {
  const auto compiled = compile([](const Tensor& x) { x.mul_(2); });
  compiled(noise({4}, 1));
  std::vector<float> memory{1, 2, 3, 4};
  const Tensor constant = from_blob(memory.data(), {4}, {1}, f32, {}, true);
  EXPECT_THROW(compiled(constant), Error);
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace tandem::testing
