// Random graphs: the plan's results against the reference interpreter, and bit for bit against the
// same graph with every value as an output, which fuses differently.
#include "tests/unit/codegen/random_lowering.h"

namespace tandem::codegen {
namespace {

void expect_same_bits(const ir::Buffer& a, const ir::Buffer& b, uint32_t seed) {
  for (int64_t i = 0; i < a.numel(); ++i)
    ASSERT_EQ(a.at(i), b.at(i)) << "seed " << seed << ", element " << i;
}

class LowerFuzz : public testing::TestWithParam<uint32_t> {};

TEST_P(LowerFuzz, AgreesHoweverItIsFused) {
  for (uint32_t seed = GetParam() * 50; seed < GetParam() * 50 + 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph few = RandomGraph(seed).finish(false), all = RandomGraph(seed).finish(true);
    const Checked a = check_lowering(few, {}, direct_writes(few), 1e-4);
    const Checked b = check_lowering(all, {}, direct_writes(all), 1e-4);
    if (testing::Test::HasFailure()) return;
    for (size_t o = 0; o < few.outputs().size(); ++o) {
      const size_t same = all.outputs().size() - few.outputs().size() + o;
      expect_same_bits(a.run.outputs[o], b.run.outputs[same], seed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LowerFuzz, testing::Range(0u, 8u));

}  // namespace
}  // namespace tandem::codegen
