// Which large values lie in memory between two kernels, and which are computed again.
#include "codegen/fusion/rematerialize.h"

#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

// Images of channels: their sums need two kernels, so what is read before and after is read by
// both.
const Shape kImages{16, 8, 256}, kChannels{1, 8, 1};
constexpr int64_t kBytes = 4 * 16 * 8 * 256;

V squares_of_channels(Builder& b, V x) {
  return b.sum(b.sum(b.mul(x, x), ir::Axes{2}, true), ir::Axes{0}, true);
}

/// `between` over the sum of its squares. Of what it reads, as many images as `images`.
template <class F>
Plan normalized(F between, int images = 1) {
  TestGraph t;
  std::vector<V> inputs;
  for (int i = 0; i < images; ++i) inputs.push_back(t.input(kImages));
  const V channels = t.input(kChannels), value = between(t, inputs, channels);
  t.output(t.b.mul(value, t.b.rsqrt(squares_of_channels(t.b, value))));
  return check_lowering(t.finish(), {}, {}, 1e-5).plan;
}

TEST(Rematerialize, WhatIsCheapIsComputedAgain) {
  const Plan plan =
      normalized([](TestGraph& t, const auto& x, V channels) { return t.b.sub(x[0], channels); });
  EXPECT_LT(plan.arena_bytes, kBytes);
}

TEST(Rematerialize, SoIsAChain) {
  const Plan plan = normalized([](TestGraph& t, const auto& x, V channels) {
    return t.b.neg(t.b.mul(t.b.sub(x[0], channels), channels));
  });
  EXPECT_LT(plan.arena_bytes, kBytes);
}

TEST(Rematerialize, ALongFunctionIsKept) {
  const Plan plan = normalized(
      [](TestGraph& t, const auto& x, V channels) { return t.b.exp(t.b.sub(x[0], channels)); });
  EXPECT_GE(plan.arena_bytes, kBytes);
}

TEST(Rematerialize, NoGroupReadsMoreThanBefore) {
  const Plan plan =
      normalized([](TestGraph& t, const auto& x, V) { return t.b.sub(x[0], x[1]); }, 2);
  EXPECT_GE(plan.arena_bytes, kBytes);
}

TEST(Rematerialize, WhatAGroupReadsAnywayCountsNot) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input(kImages), z = t.input(kImages), value = b.sub(x, z);
  t.output(b.add(b.mul(value, b.rsqrt(squares_of_channels(b, value))), x));
  EXPECT_LT(check_lowering(t.finish(), {}, {}, 1e-5).plan.arena_bytes, kBytes);
}

TEST(Rematerialize, AnOutputIsReadWhereItLies) {
  const Plan plan = normalized([](TestGraph& t, const auto& x, V channels) {
    const V value = t.b.sub(x[0], channels);
    t.output(value);
    return value;
  });
  EXPECT_LT(plan.arena_bytes, kBytes);
}

TEST(Rematerialize, WhatALibraryReadsIsKept) {
  const Plan plan = normalized([](TestGraph& t, const auto& x, V channels) {
    const V value = t.b.sub(x[0], channels), rows = t.b.view(value, Shape{128, 256});
    t.output(t.b.mm(rows, t.b.permute(rows, ir::Axes{1, 0})));
    return value;
  });
  EXPECT_GE(plan.arena_bytes, kBytes);
}

TEST(Rematerialize, WhatIsReadAcrossIsKept) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input(kImages), value = b.sub(x, t.input(kChannels));
  t.output(squares_of_channels(b, value));
  t.output(b.exp(b.permute(value, ir::Axes{2, 0, 1})));
  check_lowering(t.finish(), {}, {}, 1e-5);
}

TEST(Rematerialize, OnlyWhatChangesIsRewritten) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input(kImages), y = b.exp(b.sub(x, t.input(kChannels)));
  t.output(b.add(y, b.sum(y, ir::Axes{2}, true)));
  const Program program = make_program(t.finish());
  EXPECT_EQ(fuse_lean(program).program, program);
}

}  // namespace
}  // namespace tandem::codegen
