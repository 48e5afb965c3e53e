// Random programs of nested branches and loops. `./dev fuzz --control` runs more of them.
#include <gtest/gtest.h>

#include "tests/support/random/control_program.h"

namespace tandem::testing {
namespace {

class RandomControlFlow : public ::testing::TestWithParam<int> {};

TEST_P(RandomControlFlow, Agrees) {
  constexpr int kPrograms = 60;
  const auto first = static_cast<uint64_t>(GetParam()) * 1'000'000;
  int refused = 0;
  for (uint64_t seed = first; seed < first + kPrograms; ++seed) {
    const auto numbers = seed % 3 == 0 ? ControlNumbers::Gradients : ControlNumbers::Integers;
    const ControlVerdict verdict = check_control(random_control_program(seed, numbers));
    refused += verdict.refused || verdict.stricter;
    ASSERT_EQ(verdict.difference, "");
  }
  EXPECT_LE(refused, kPrograms / 2);
}

INSTANTIATE_TEST_SUITE_P(Short, RandomControlFlow, ::testing::Range(0, 4));

}  // namespace
}  // namespace tandem::testing
