// The number of threads changes no bit of random programs, forward and backward.
#include <gtest/gtest.h>

#include "tests/support/partition_bits.h"

namespace tandem::testing {
namespace {

constexpr uint64_t kParts = 4, kProgramsPerPart = 100;

class RandomProgramsByThreads : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomProgramsByThreads, AgreeToTheBit) {
  const uint64_t first = GetParam() * kProgramsPerPart;
  for (uint64_t seed = first; seed < first + kProgramsPerPart; ++seed)
    EXPECT_EQ(check_threads(seed), "");
}

INSTANTIATE_TEST_SUITE_P(Short, RandomProgramsByThreads, ::testing::Range(uint64_t{0}, kParts));

}  // namespace
}  // namespace tandem::testing
