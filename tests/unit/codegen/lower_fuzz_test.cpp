// Random graphs: the plan's results against the reference interpreter, and bit for bit against the
// same graph for narrower vectors, and with every value as an output, which fuses differently.
#include "tests/unit/codegen/random_lowering.h"

namespace tandem::codegen {
namespace {

constexpr uint32_t kGraphs = 50;  // of a case

void expect_same_bits(const ir::Buffer& a, const ir::Buffer& b, uint32_t seed) {
  for (int64_t i = 0; i < a.numel(); ++i)
    ASSERT_EQ(a.at(i), b.at(i)) << "seed " << seed << ", element " << i;
}

class LowerFuzz : public testing::TestWithParam<uint32_t> {};

void check(uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomGraph fewer(seed), more(seed);
  const ir::Graph few = fewer.finish(false), all = more.finish(true);
  LowerOptions narrow = direct_writes(few);
  narrow.vector_bytes = 16;
  const double tolerance = fewer.tolerance();
  const Checked a = check_lowering(few, {}, direct_writes(few), tolerance);
  const Checked b = check_lowering(all, {}, direct_writes(all), tolerance);
  const Checked c = check_lowering(few, {}, narrow, tolerance);
  if (testing::Test::HasFailure()) return;
  for (size_t o = 0; o < few.outputs().size(); ++o) {
    const size_t same = all.outputs().size() - few.outputs().size() + o;
    expect_same_bits(a.run.outputs[o], b.run.outputs[same], seed);
    expect_same_bits(a.run.outputs[o], c.run.outputs[o], seed);
  }
}

TEST_P(LowerFuzz, AgreesHoweverItIsFused) {
  for (uint32_t i = 0; i < kGraphs && !testing::Test::HasFailure(); ++i)
    check(GetParam() * kGraphs + i);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LowerFuzz, testing::Range(0u, 8u));

}  // namespace
}  // namespace tandem::codegen
