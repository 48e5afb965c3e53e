// Partitions: what is saved, that both halves together compute the joint graph's bits, errors.
#include "partition/partition.h"

#include <cstdio>
#include <random>

#include "autodiff/joint.h"
#include "ir/base/error.h"
#include "tests/support/graph_testing.h"
#include "tests/unit/partition/halves.h"

namespace tandem::graph_testing {
namespace {

using ir::Partition;
using ir::Role;
using partition_testing::expect_joint_bits;
using partition_testing::to_core;

Graph core_joint(const std::vector<Type>& types, const Body& body, int rng = -1) {
  return to_core(autodiff::joint(make_graph(types, body, ir::Level::Functional, rng)));
}

Graph cosines() {
  return core_joint({f32({8})}, [](Builder& b, const Values& v) {
    ValueId x = v[0];
    for (int i = 0; i < 10; ++i) x = b.cos(x);
    return Values{x};
  });
}

ValueId gelu(Builder& b, ValueId x) { return b.emit(Op::gelu, {x}, {std::string("none")}); }

Graph mlp() {
  const Type w = f32({6, 6}), row = f32({6});
  return core_joint({f32({5, 6}), w, w, row, row, {DType::I64, {5}}},
                    [](Builder& b, const Values& v) {
                      const ValueId h = b.layer_norm(v[0], v[3], v[4], 1, 1e-5);
                      const ValueId y = b.add(v[0], b.mm(gelu(b, b.mm(h, v[1])), v[2]));
                      return Values{b.cross_entropy(y, v[5], -100, 0.1, "mean"), b.relu(y)};
                    });
}

Graph attention() {
  const Type q = f32({2, 4, 6});
  return core_joint({q, q, q}, [](Builder& b, const Values& v) {
    return Values{b.scaled_dot_product_attention(v[0], v[1], v[2], {}, {}, true)};
  });
}

Graph dropout() {
  return core_joint(
      {f32({4, 9}), {DType::I64, {2}}},
      [](Builder& b, const Values& v) {
        const ValueId y = b.emit(Op::dropout, {b.exp(v[0]), v[1]}, {0.3, Dim(0)});
        return Values{b.mul(y, b.sin(v[0])),
                      b.emit(Op::randn, {v[1]}, {std::vector<Dim>{3}, DType::F32, Dim(9)})};
      },
      1);
}

Graph views() {
  return core_joint({f32({4, 6}), f32({6})}, [](Builder& b, const Values& v) {
    const ValueId x = b.exp(b.mul(v[0], v[1]));
    const ValueId top = b.slice(x, 0, 0, 1), t = b.t(x);
    return Values{b.sum(b.mul(b.mm(x, t), b.mm(x, t))), b.mul(top, top), b.tanh(t)};
  });
}

std::vector<Graph> all_graphs() { return {cosines(), mlp(), attention(), dropout(), views()}; }

Partition by(std::string_view name, const Graph& core) {
  return partition::make_partitioner(name)->partition(core);
}

ir::Errc code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ir::Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an Error";
  return {};
}

TEST(Partition, TenCosinesSaveOneTensor) {
  const Graph core = cosines();
  for (std::string_view name : {"default", "reference"}) {
    const Partition p = by(name, core);
    ASSERT_EQ(p.report.saved.size(), 1u) << ir::print(p.forward);
    EXPECT_EQ(p.report.saved[0].name, "x0");
    EXPECT_EQ(p.report.saved_bytes, 0);
  }
  EXPECT_EQ(by("save-all", core).report.saved_bytes, 9 * 8 * 4);
}

TEST(Partition, EveryPartitionerGivesTheJointGraphsBits) {
  for (const Graph& core : all_graphs())
    for (std::string_view name : partition::partitioner_names())
      ASSERT_NO_FATAL_FAILURE(expect_joint_bits(core, by(name, core), std::string(name)));
}

TEST(Partition, EveryCutGivesTheJointGraphsBits) {
  std::mt19937 gen(7);
  for (const Graph& core : all_graphs())
    for (int round = 0; round < 20; ++round)
      ASSERT_NO_FATAL_FAILURE(expect_joint_bits(
          core, partition::split(core, partition_testing::random_saved_set(core, gen)),
          "random cut"));
}

TEST(Partition, AResultThatATapeHoldsPassesAsItself) {
  const Graph core = core_joint({f32({4, 9})}, [](Builder& b, const Values& v) {
    return Values{b.exp(v[0]), b.t(b.exp(b.neg(v[0])))};
  });
  const ValueId y = core.outputs()[0].value;
  const auto saved_outputs = [](const Partition& p) {
    return std::ranges::count(p.forward.outputs(), ir::Role::Saved, &ir::Output::role);
  };
  const auto split = [&](const std::vector<bool>& held) {
    return partition::split(core, std::vector{core.inputs()[0].value, y}, held);
  };
  EXPECT_EQ(saved_outputs(split({})), 2);
  EXPECT_EQ(saved_outputs(split({false, true, true})), 2);
  const Partition shared = split({true, true, true});
  EXPECT_EQ(saved_outputs(shared), 1);  // the input, whose memory is the caller's
  EXPECT_EQ(shared.backward.inputs()[1].target, 0);
  expect_joint_bits(core, shared, "shared");
}

TEST(Partition, EveryCutWithSharedResultsGivesTheJointGraphsBits) {
  std::mt19937 gen(8);
  for (const Graph& core : all_graphs())
    for (int round = 0; round < 20; ++round)
      ASSERT_NO_FATAL_FAILURE(
          expect_joint_bits(core,
                            partition::split(core, partition_testing::random_saved_set(core, gen),
                                             std::vector<bool>(core.outputs().size(), true)),
                            "random cut"));
}

TEST(Partition, NeverSavesMoreThanTheTape) {
  for (const Graph& core : all_graphs()) {
    const auto report = by("default", core).report;
    EXPECT_LE(report.minimal_bytes, report.saved_bytes) << ir::print(core);
    EXPECT_LE(report.saved_bytes, by("save-all", core).report.saved_bytes) << ir::print(core);
    EXPECT_EQ(by("recompute-all", core).report.saved_bytes, 0);
  }
}

TEST(Partition, TheTapeHoldsStoragesOfWhatRulesRead) {
  const auto bytes = [](const Body& body) {
    return partition::eager_tape(
               autodiff::joint(make_graph({f32({8, 4})}, body, ir::Level::Functional)))
        .bytes;
  };
  EXPECT_EQ(bytes([](Builder& b, const Values& v) { return Values{b.sin(b.cos(v[0]))}; }), 128);
  // gelu reads its operand alone; a slice holds the storage of its base; views count once.
  EXPECT_EQ(bytes([](Builder& b, const Values& v) { return Values{gelu(b, b.neg(v[0]))}; }), 128);
  EXPECT_EQ(bytes([](Builder& b, const Values& v) {
              const ValueId x = b.neg(v[0]);
              return Values{b.sin(b.slice(x, 0, 0, 2)), b.sin(b.t(x))};
            }),
            128);
}

TEST(Partition, TheTapeHoldsResultsThatRulesRead) {
  const Graph joint = autodiff::joint(make_graph(
      {f32({8, 4})},
      [](Builder& b, const Values& v) {
        const ValueId y = b.exp(v[0]);
        return Values{y, b.neg(y), b.t(b.tanh(v[0]))};
      },
      ir::Level::Functional));
  const std::vector<bool> held = partition::eager_tape(joint).outputs;
  EXPECT_EQ(std::vector(held.begin(), held.begin() + 3), (std::vector{true, false, true}));
}

TEST(Partition, ALimitLiftsBansOneKindAtATime) {
  const Graph core = mlp();
  const auto all = by("default", core).report;
  const auto within = [&](int64_t bytes) {
    return partition::make_partitioner("default")->partition_within(core, {.tape_bytes = bytes});
  };
  EXPECT_EQ(within(all.saved_bytes).report.saved_bytes, all.saved_bytes);
  int64_t recomputed = all.recomputed_equations;
  for (int64_t limit : {all.saved_bytes - 1, all.minimal_bytes, int64_t{0}}) {
    const Partition p = within(limit);
    EXPECT_LE(p.report.saved_bytes, limit);
    EXPECT_GE(p.report.recomputed_equations, recomputed);
    recomputed = p.report.recomputed_equations;
    expect_joint_bits(core, p, "limit " + std::to_string(limit));
  }
}

TEST(Partition, EverySavedValueHasAReason) {
  const auto report = by("default", mlp()).report;
  ASSERT_FALSE(report.saved.empty());
  for (const ir::SavedValue& saved : report.saved) EXPECT_FALSE(saved.reason.empty());
}

TEST(Partition, DropoutSavesNoMask) { EXPECT_EQ(by("default", dropout()).report.saved_bytes, 0); }

TEST(Partition, ContractionsAreNotRecomputed) {
  const Partition p = by("default", mlp());
  const int64_t in_joint = count(mlp(), Op::mm);
  EXPECT_EQ(count(p.forward, Op::mm) + count(p.backward, Op::mm), in_joint);
}

TEST(Partition, RecomputesJustInTime) {
  const Graph core = cosines();
  const Graph backward = by("recompute-all", core).backward;
  // cos(x), ..., cos^9(x) must exist before the first product with the tangent, which is the last
  // layer's; the sines come one by one.
  const auto ops = backward.equations();
  const auto first_mul = std::ranges::find(ops, Op::mul, &ir::Equation::op);
  const auto sines_before =
      std::count_if(ops.begin(), first_mul, [](const ir::Equation& e) { return e.op == Op::sin; });
  EXPECT_EQ(sines_before, 1) << ir::print(backward);
}

TEST(Partition, GradientsMayBeTangentsOrForwardValues) {
  const Graph sum = core_joint(
      {f32({3}), f32({3})}, [](Builder& b, const Values& v) { return Values{b.add(v[0], v[1])}; });
  for (std::string_view name : partition::partitioner_names())
    ASSERT_NO_FATAL_FAILURE(expect_joint_bits(sum, by(name, sum), "sum"));

  Graph forward_value = sum;  // gradients: a forward value, and an input
  forward_value.outputs()[1].value = forward_value.outputs()[0].value;
  forward_value.outputs()[2].value = forward_value.inputs()[0].value;
  for (std::string_view name : partition::partitioner_names())
    ASSERT_NO_FATAL_FAILURE(
        expect_joint_bits(forward_value, by(name, forward_value), "forward value"));
}

TEST(Partition, AnInputThatForwardOverwritesIsSavedByValue) {
  Graph f = make_graph(
      {f32({3})}, [](Builder& b, const Values& v) { return Values{b.sin(v[0]), b.neg(v[0])}; });
  f.outputs()[1].role = Role::MutatedInput;
  f.outputs()[1].target = 0;
  f.epilogue.results.pop_back();
  f.epilogue.writes.push_back({1, 0, 1, false});
  const Graph core = to_core(autodiff::joint(f));
  const Partition p = by("recompute-all", core);
  EXPECT_EQ(p.report.saved_bytes, 3 * 4);
  EXPECT_EQ(count(p.forward, Op::clone), 1) << ir::print(p.forward);
  expect_joint_bits(core, p, "overwritten");
}

TEST(Partition, WithoutTangentsForwardIsTheWholeGraph) {
  Graph graph = make_graph(
      {f32({3})}, [](Builder& b, const Values& v) { return Values{b.exp(v[0])}; }, ir::Level::Core);
  for (std::string_view name : partition::partitioner_names()) {
    const Partition p = by(name, graph);
    EXPECT_EQ(p.forward.num_equations(), 1u);
    EXPECT_EQ(p.backward.num_equations() + p.backward.inputs().size(), 0u);
  }
}

TEST(Partition, RefusesImpossibleRequests) {
  const Graph core = cosines();
  EXPECT_EQ(code_of([] { partition::make_partitioner("best"); }), ir::Errc::Argument);
  EXPECT_EQ(code_of([&] { partition::split(core, {}); }), ir::Errc::Partition);
  const Values tangent = {core.inputs()[1].value};
  EXPECT_EQ(code_of([&] { partition::split(core, tangent); }), ir::Errc::Partition);
}

TEST(Partition, TakesMillisecondsAtTenThousandEquations) {
  const Graph core = core_joint({f32({4, 4}), f32({4, 4})}, [](Builder& b, const Values& v) {
    ValueId x = v[0];
    for (int i = 0; i < 600; ++i) x = b.add(x, gelu(b, b.mm(x, v[1])));
    return Values{x};
  });
  EXPECT_GT(core.num_equations(), 8'000u);
  for (std::string_view name : partition::partitioner_names()) {
    const auto report = by(name, core).report;
    std::printf("%s: %zu equations, %zu saved, %.1f ms\n", report.partitioner.c_str(),
                core.num_equations(), report.saved.size(), report.seconds * 1e3);
    EXPECT_LT(report.seconds, 2);
  }
}

}  // namespace
}  // namespace tandem::graph_testing
