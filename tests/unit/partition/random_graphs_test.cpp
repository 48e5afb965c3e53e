// Random programs through the passes and every partitioner: the same bits everywhere.
#include <random>

#include "autodiff/joint.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "ir/rewrite.h"
#include "partition/analysis.h"
#include "partition/choices.h"
#include "partition/partition.h"
#include "partition/policies.h"
#include "tests/support/graph_testing.h"
#include "tests/support/random_matrices.h"
#include "tests/unit/partition/fixed_costs.h"
#include "tests/unit/partition/halves.h"

namespace tandem::graph_testing {
namespace {

Graph random_joint(uint32_t seed) { return autodiff::joint(random_functional(seed)); }

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
    const int64_t tape = partition::eager_tape(joint).bytes;
    const auto p =
        partition::make_partitioner("default")->partition_within(core, {.tape_bytes = tape});
    EXPECT_LE(p.report.saved_bytes, tape) << seed;
    partition_testing::expect_joint_bits(core, p, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(RandomGraphs, DefaultIsTheFastestPlanThatFitsAtAnyPriceOfAByte) {
  const partition_testing::FixedCosts costs;
  int with_limit = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph joint = random_joint(seed), core = partition_testing::to_core(joint);
    const partition::Problem p(core,
                               {.tape_bytes = partition::eager_tape(joint).bytes, .costs = &costs});
    const auto cost = [&](const Values& saved) {
      return partition::cost_of(p.analysis, p.estimate, saved);
    };
    const Values everything = partition::values_of(partition::choose_everything(p));
    const int64_t limit = std::min(p.context.tape_bytes, cost(everything).saved_bytes);
    const partition::Cost chosen = cost(partition::values_of(partition::choose_default(p)));
    const auto plan_at = [&](double price) {
      return cost(partition::cheapest_saved_set(
          p.analysis, partition::time_policy(p.analysis, p.estimate, {.seconds_per_byte = price})));
    };
    const double least = costs.transfer_seconds(1);
    with_limit += plan_at(least).saved_bytes > limit;
    for (double price = least; price < 1e3 * least; price *= 1.02) {
      const partition::Cost other = plan_at(price);
      if (other.saved_bytes > limit || chosen.saved_bytes > limit) continue;
      EXPECT_LE(chosen.seconds(), other.seconds() + 1e-12 * core.num_equations()) << seed;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(with_limit, 20);
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
