// Random programs through the passes and every partitioner: the same bits everywhere.
#include <random>

#include "autodiff/joint.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"
#include "partition/analysis.h"
#include "partition/choices.h"
#include "partition/partition.h"
#include "partition/policies.h"
#include "tests/support/graph_testing.h"
#include "tests/support/random/random_matrices.h"
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

TEST(RandomGraphs, DefaultIsTheFastestPlanThatFitsAtAnyPriceOfAByteOrSavesNoMoreThanTheReference) {
  const partition_testing::FixedCosts costs;
  int with_limit = 0, fastest = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph joint = random_joint(seed), core = partition_testing::to_core(joint);
    const partition::Problem p(core,
                               {.tape_bytes = partition::eager_tape(joint).bytes, .costs = &costs});
    const auto cost = [&](const Values& saved) {
      return partition::cost_of(p.analysis, p.estimate, saved);
    };
    const Values everything = partition::choose_everything(p).values;
    const int64_t limit = std::min(p.context.tape_bytes, cost(everything).saved_bytes);
    const partition::Cost chosen = cost(partition::choose_default(p).values);
    const partition::Cost reference = cost(partition::choose_reference(p).values);
    const auto plan_at = [&](double price) {
      return cost(partition::cheapest_saved_set(
          p.analysis, partition::time_policy(p.analysis, p.estimate, {.seconds_per_byte = price})));
    };
    const double least = costs.transfer_seconds(1, 1);
    with_limit += plan_at(least).saved_bytes > limit;
    if (chosen.saved_bytes <= reference.saved_bytes) continue;
    ++fastest;
    for (double price = least; price < 1e3 * least; price *= 1.02) {
      const partition::Cost other = plan_at(price);
      if (other.saved_bytes > limit || chosen.saved_bytes > limit) continue;
      EXPECT_LE(chosen.seconds(), other.seconds() + 1e-12 * core.num_equations()) << seed;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(with_limit, 20);
  EXPECT_GT(fastest, 10);
}

TEST(RandomGraphs, WhatDefaultSavesBeyondTheReferenceIsPredictedToPay) {
  const partition_testing::FixedCosts costs;
  int above = 0, below = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Graph core = partition_testing::to_core(random_joint(seed));
    const auto by = [&](std::string_view name) {
      return partition::make_partitioner(name)->partition_within(core, {.costs = &costs});
    };
    const ir::Partition own = by("default"), reference = by("reference");
    const auto seconds = [&](const ir::Partition& p) {
      return costs.run_seconds(p.forward) + costs.run_seconds(p.backward);
    };
    below += own.report.saved_bytes < reference.report.saved_bytes;
    if (own.report.saved_bytes <= reference.report.saved_bytes) continue;
    ++above;
    EXPECT_LE(seconds(own), 0.97 * seconds(reference)) << seed;
  }
  std::printf("%d of 400 above the reference, %d below\n", above, below);
  EXPECT_GT(above, 10);
  EXPECT_GT(below, 10);
}

/// What `v` would take if it were not saved, from the costs of the two sets.
double dearer_without(const partition::Problem& p, Values saved, ValueId v) {
  const auto cost = [&] { return partition::cost_of(p.analysis, p.estimate, saved); };
  for (const ir::Input& input : p.analysis.graph.inputs())
    if (!p.analysis.needs_tangent[input.value]) saved.push_back(input.value);
  std::ranges::sort(saved);
  saved.erase(std::ranges::unique(saved).begin(), saved.end());
  const double with = cost().seconds() - p.estimate.save_seconds(v);
  std::erase(saved, v);
  return cost().seconds() - with;
}

void check_explanations(const partition::Problem& p, const std::string& name) {
  const ir::PartitionReport report =
      partition::make_partitioner(name)->partition_within(p.analysis.graph, p.context).report;
  const std::string text = to_text(report);
  EXPECT_EQ(text.find(" 0.000 us"), std::string::npos) << text;
  Values saved;
  for (const ir::SavedValue& s : report.saved)
    for (ValueId v : p.analysis.all_values())
      if (partition::value_name(p.analysis.graph, v) == s.name) saved.push_back(v);
  ASSERT_EQ(saved.size(), report.saved.size()) << text;
  for (size_t i = 0; i < saved.size(); ++i) {
    const ir::SavedValue& s = report.saved[i];
    const ir::EquationId e = p.analysis.producer(saved[i]);
    EXPECT_EQ(s.op, e.valid() ? ir::name(p.analysis.graph.op(e)) : "input");
    EXPECT_FALSE(s.reason.empty());
    EXPECT_GE(s.recompute_seconds, 0);
    if (!e.valid()) continue;
    EXPECT_NEAR(s.recompute_seconds, dearer_without(p, saved, saved[i]), 1e-15) << name << text;
    if (s.reason.starts_with("cheaper")) {
      EXPECT_LE(s.save_seconds, s.recompute_seconds) << name << ": " << s.name << "\n" << text;
    }
  }
}

TEST(RandomGraphs, EveryExplanationAgreesWithItsOwnNumbers) {
  const partition_testing::FixedCosts costs;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph joint = random_joint(seed), core = partition_testing::to_core(joint);
    const partition::EagerTape tape = partition::eager_tape(joint);
    const partition::Problem p(core, {tape.bytes, tape.outputs, &costs});
    for (const char* name : {"default", "reference", "save-all", "recompute-all",
                             "saved_budget=0.5", "memory_budget=0.5"})
      check_explanations(p, name + std::string());
    if (HasFailure()) return;
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
