// 2,000 random programs, in parts that run side by side, and gradients of 400 against differences.
// `./dev fuzz` runs more of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/differential.h"

namespace tandem::testing {
namespace {

constexpr int kParts = 20, kProgramsPerPart = 100;

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, Agree) {
  Tally tally;
  int differing = 0;
  // Each part has seeds of its own: it redraws from those that follow.
  for (uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000;
       tally.programs < kProgramsPerPart && tally.unstable < kProgramsPerPart && differing < 3;
       ++seed) {
    const Verdict verdict = check_program(seed);
    tally.add(verdict);
    differing += verdict.kind == Verdict::Kind::Differ;
    EXPECT_NE(verdict.kind, Verdict::Kind::Differ) << verdict.message;
  }
  fmt::print("{}\n", tally.summary());
  if (differing > 0) return;
  EXPECT_LE(tally.unstable, kProgramsPerPart / 5);
  EXPECT_GE(tally.reductions, kProgramsPerPart / 3);
  EXPECT_GE(tally.contractions, kProgramsPerPart / 3);
  EXPECT_GE(tally.view_writes, kProgramsPerPart / 3);
  EXPECT_GE(tally.random, kProgramsPerPart / 5);
}

INSTANTIATE_TEST_SUITE_P(Short, RandomPrograms, ::testing::Range(0, kParts));

class RandomGradients : public ::testing::TestWithParam<int> {};

TEST_P(RandomGradients, AreDerivatives) {
  int compared = 0;
  for (uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000; compared < 100; ++seed) {
    const GradientVerdict verdict = check_gradient(seed);
    compared += verdict.compared;
    ASSERT_EQ(verdict.difference, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Short, RandomGradients, ::testing::Range(0, 4));

TEST(RandomGraph, IsTheSameForASeed) {
  const ProgramOptions options{.samples = true};
  for (uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(random_program(seed, options).graph, random_program(seed, options).graph);
}

}  // namespace
}  // namespace tandem::testing
