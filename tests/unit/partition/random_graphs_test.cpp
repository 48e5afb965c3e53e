// Random programs through the passes and every partitioner: the same bits everywhere.
#include <random>

#include "autodiff/joint.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "ir/rewrite.h"
#include "partition/analysis.h"
#include "partition/partition.h"
#include "tests/support/graph_testing.h"
#include "tests/unit/partition/halves.h"

namespace tandem::graph_testing {
namespace {

constexpr int kSide = 4;

/// Writes random equations on [4, 4] matrices.
class RandomProgram {
 public:
  RandomProgram(Builder& b, Values inputs, ValueId rng, uint32_t seed)
      : b_(b), values_(std::move(inputs)), rng_(rng), gen_(seed) {}

  Values run() {
    for (int i = 0; i < 15; ++i) values_.push_back(step());
    return {values_.back(), values_[values_.size() - 2], b_.sum(pick())};
  }

 private:
  ValueId pick() { return values_[gen_() % values_.size()]; }

  ValueId step() {
    switch (gen_() % 8) {
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
        return binary();
      case 4:
        return b_.mm(pick(), pick());
      case 5:
        return view();
      case 6:
        return reduced();
      default:
        return random();
    }
  }

  ValueId unary() {
    constexpr Op kOps[] = {Op::tanh,     Op::relu, Op::sin,  Op::sigmoid, Op::silu, Op::neg,
                           Op::softsign, Op::elu,  Op::gelu, Op::abs,     Op::clone};
    const Op op = kOps[gen_() % std::size(kOps)];
    std::vector<ir::AttrValue> attrs;
    if (op == Op::elu) attrs = {1.0};
    if (op == Op::gelu) attrs = {std::string("none")};
    return b_.emit(op, {pick()}, attrs);
  }

  ValueId binary() {
    constexpr Op kOps[] = {Op::add, Op::sub, Op::mul, Op::maximum, Op::logaddexp};
    const ValueId y =
        gen_() % 3 == 0 ? b_.full({}, DType::F32, static_cast<double>(gen_() % 3)) : pick();
    return b_.pointwise(kOps[gen_() % std::size(kOps)], {pick(), y});
  }

  ValueId view() {
    const ValueId x = pick();
    switch (gen_() % 5) {
      case 0:
        return b_.t(x);
      case 1:
        return b_.view(b_.view(x, {2, 8}), {kSide, kSide});
      case 2:
        return b_.expand(b_.slice(x, 0, 1, 2), {kSide, kSide});
      case 3:
        return b_.slice_scatter(x, b_.slice(pick(), 1, 0, 2), 1, 1, 3, 1);
      default:
        return b_.expand(b_.unsqueeze(b_.select(x, 1, 2), 1), {kSide, kSide});
    }
  }

  ValueId reduced() {
    const ValueId x = pick();
    const Dim dim = static_cast<int64_t>(gen_() % 2);
    switch (gen_() % 5) {
      case 0:
        return b_.softmax(x, static_cast<int>(dim));
      case 1:
        return b_.log_softmax(x, static_cast<int>(dim));
      case 2:
        return b_.layer_norm(x, {}, {}, 1, 1e-5);
      case 3:
        return b_.expand(b_.amax(x, {dim}, true), {kSide, kSide});
      default:
        return b_.expand(b_.mean(x, {dim}, true), {kSide, kSide});
    }
  }

  ValueId random() {
    const Dim offset = draws_;
    draws_ += kSide * kSide / 4;
    return b_.emit(Op::dropout, {pick(), rng_}, {0.25, offset});
  }

  Builder& b_;
  Values values_;
  ValueId rng_;
  std::mt19937 gen_;
  int64_t draws_ = 0;
};

Graph random_joint(uint32_t seed) {
  const ir::Type x{DType::F32, {kSide, kSide}};
  const Graph functional = make_graph(
      {x, x, x, {DType::I64, {2}}},
      [&](Builder& b, const Values& v) {
        return RandomProgram(b, {v[0], v[1], v[2]}, v[3], seed).run();
      },
      ir::Level::Functional, 3);
  return autodiff::joint(functional);
}

TEST(RandomGraphs, PassesKeepEveryBit) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph joint = random_joint(seed), core = decomps::decompose(joint);
    const Graph simple = decomps::simplify(core);
    const Graph merged = decomps::eliminate_common_subexpressions(simple);
    for (const Graph* graph : {&core, &simple, &merged}) ir::verify(*graph);
    const Buffers inputs = random_inputs(core, seed);
    const Buffers expected = run(core, inputs);
    const std::string what = "seed " + std::to_string(seed) + "\n" + ir::print(core);
    expect_same_bits(run(simple, inputs), expected, what);
    expect_same_bits(run(merged, inputs), expected, what);
    expect_close(run(core, inputs, true), run(joint, inputs, true), 1e-9, what);
    if (HasFatalFailure()) return;
  }
}

TEST(RandomGraphs, DefaultSavesNoMoreThanTheTape) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph joint = random_joint(seed), core = partition_testing::to_core(joint);
    const int64_t tape = partition::tape_bytes(joint);
    const auto p = partition::make_partitioner("default")->partition_within(core, tape);
    EXPECT_LE(p.report.saved_bytes, tape) << seed;
    partition_testing::expect_joint_bits(core, p, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(RandomGraphs, EveryPartitionGivesTheJointGraphsBits) {
  std::mt19937 gen(3);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph core = partition_testing::to_core(random_joint(seed));
    for (std::string_view name : partition::partitioner_names())
      partition_testing::expect_joint_bits(core, partition::make_partitioner(name)->partition(core),
                                           std::string(name) + ", seed " + std::to_string(seed));
    const Values saved = partition_testing::random_saved_set(core, gen);
    partition_testing::expect_joint_bits(core, partition::split(core, saved),
                                         "random cut, seed " + std::to_string(seed));
    const auto smallest = partition::make_partitioner("default")->partition(core).report;
    const auto all = partition::make_partitioner("save-all")->partition(core).report;
    EXPECT_LE(smallest.minimal_bytes, smallest.saved_bytes) << seed;
    EXPECT_LE(smallest.saved_bytes, all.saved_bytes) << seed;
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tandem::graph_testing
