// Gradients over partitions and budgets: the same bits.
#include "tests/support/partition_bits.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace tandem::testing {
namespace {

void check(uint64_t first, uint64_t count, uint64_t stride, bool with_jit) {
  int requests = 0, cuts = 0, random = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const CutCheck result = check_cuts(first + i * stride, with_jit);
    ASSERT_TRUE(result.difference.empty()) << result.difference;
    requests += result.requests;
    cuts += result.cuts;
    random += result.random_ops;
  }
  std::printf("%d requests, %d different cuts, %d of %d programs with random operators\n", requests,
              cuts, random, static_cast<int>(count));
}

// 500 programs in all, in parts that ctest runs side by side; one in ten where a sanitizer slows
// them down tenfold.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kEvery = 10;
#else
constexpr int kEvery = 1;
#endif
constexpr int kPart = 125;

class PartitionBits : public ::testing::TestWithParam<int> {};

TEST_P(PartitionBits, PlansAgree) {
  check(static_cast<uint64_t>(GetParam()) * kPart, kPart / kEvery, kEvery, false);
}

INSTANTIATE_TEST_SUITE_P(Parts, PartitionBits, ::testing::Range(0, 4));

TEST(PartitionBitsJit, MachineCodeAgrees) { check(0, 12, 41, true); }

}  // namespace
}  // namespace tandem::testing
