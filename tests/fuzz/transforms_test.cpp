// 150 random compositions of functions of functions. `./dev fuzz --transforms` runs more of them.
#include "tests/support/random/transforms.h"

#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

class RandomTransforms : public ::testing::TestWithParam<int> {};

TEST_P(RandomTransforms, AgreeWithDualsAndLoops) {
  const auto first = static_cast<uint64_t>(GetParam()) * 1000;
  for (uint64_t seed = first; seed < first + 15; ++seed) {
    const GradientVerdict verdict = check_transforms(seed);
    EXPECT_EQ(verdict.difference, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Short, RandomTransforms, ::testing::Range(0, 10));

}  // namespace
}  // namespace tandem::testing
