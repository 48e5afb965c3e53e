// Groups that run slab by slab in one kernel: when they do, and that nothing else changes.
#include "codegen/fusion/slabs.h"

#include <random>

#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

using ir::Axes;

const Shape kImages{3, 16, 16, 16}, kChannels{1, 16, 1, 1};

/// The sum over all of a channel, in two steps, as reductions are decomposed.
V channel_sum(Builder& b, V x) { return b.sum(b.sum(x, Axes{2, 3}, true), Axes{0}, true); }

V channel_mean(Builder& b, V x) { return b.mul(channel_sum(b, x), 1.0 / (3 * 256)); }

V normalized(Builder& b, V x) {
  const V centred = b.sub(x, channel_mean(b, x));
  return b.mul(centred, b.rsqrt(b.add(channel_mean(b, b.mul(centred, centred)), 1e-5)));
}

Checked check(TestGraph& t, const LowerOptions& options = {}) {
  return check_lowering(t.finish(4, 1024), {}, options, 1e-4);
}

/// The launches of y = f(builder, x) of images.
template <class F>
size_t launches(F f, const std::optional<ir::Strides>& strides = {}) {
  TestGraph t;
  t.output(f(t.b, t.input(kImages, DType::F32, strides)));
  return check(t).plan.steps.size();
}

TEST(Slabs, ABatchNormIsOneKernel) {
  TestGraph t;
  t.output(normalized(t.b, t.input(kImages)));
  const Plan plan = check(t).plan;
  EXPECT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(std::get<Launch>(plan.steps[0]).units, 16);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(Slabs, SoIsItsGradient) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input(kImages), g = t.input(kImages), mean = t.input(kChannels),
          scale = t.input(kChannels);
  const V centred = b.sub(x, mean), sum = channel_mean(b, g),
          product = channel_mean(b, b.mul(g, centred));
  t.output(b.sum(b.sum(g, Axes{2, 3}), Axes{0}));
  t.output(b.mul(scale, b.sub(g, b.add(sum, b.mul(centred, product)))));
  EXPECT_EQ(check(t).plan.steps.size(), 1u);
}

TEST(Slabs, WhatLiesElsewhereIsReadThere) {
  EXPECT_EQ(launches(normalized, ir::Strides{5000, 300, 16, 1}), 1u);  // gaps between channels
  EXPECT_EQ(launches(normalized, ir::Strides{256, 768, 16, 1}), 1u);   // channels outermost
  EXPECT_GT(launches(normalized, ir::Strides{4096, 1, 256, 16}), 1u);  // and innermost
  EXPECT_GT(launches(normalized, ir::Strides{5000, 300, 17, 1}), 1u);  // gaps inside rows
  EXPECT_GT(launches(normalized, ir::Strides{4096, 256, 1, 16}), 1u);  // images on their side
}

TEST(Slabs, AValueBetweenIsKeptInTheSlab) {
  const auto long_values = [](Builder& b, V x) {
    const V e = b.exp(b.sin(x));
    return b.div(e, channel_sum(b, e));
  };
  TestGraph t;
  t.output(long_values(t.b, t.input(kImages)));
  const Plan plan = check(t).plan;
  EXPECT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(Slabs, WhatOthersReadIsInMemoryToo) {
  TestGraph t;
  const V x = t.input(kImages), mean = channel_mean(t.b, x);
  t.output(mean);
  t.output(t.b.sub(x, mean));
  t.output(t.b.mm(t.b.view(mean, Shape{4, 4}), t.b.view(mean, Shape{4, 4})));
  EXPECT_EQ(check(t).plan.steps.size(), 2u);
}

/// Products of all pairs of rows.
V products(Builder& b, V x, V y) {
  return b.mm(b.view(x, Shape{48, 256}), b.permute(b.view(y, Shape{48, 256}), Axes{1, 0}));
}

TEST(Slabs, WhatLiesBetweenThemRunsBehind) {
  TestGraph t;
  Builder& b = t.b;
  const V x = b.sin(t.input(kImages)), mean = channel_mean(b, x);
  t.output(products(b, x, x));
  t.output(b.sub(x, mean));
  const Plan plan = check(t).plan;
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Launch>(plan.steps[0]));
}

TEST(Slabs, UnlessTheyNeedIt) {
  TestGraph t;
  Builder& b = t.b;
  const V x = b.sin(t.input(kImages)), mean = channel_mean(b, x);
  const V rows = b.view(b.sum(products(b, x, x), Axes{1}, true), Shape{3, 16, 1, 1});
  t.output(b.mul(b.sub(x, mean), rows));
  EXPECT_GT(check(t).plan.steps.size(), 2u);
}

TEST(Slabs, AnotherChannelsValueIsWaitedFor) {
  EXPECT_GT(launches([](Builder& b, V x) { return b.sub(x, b.flip(channel_mean(b, x), Axes{1})); }),
            1u);
  EXPECT_GT(launches([](Builder& b, V x) {
              const V m = channel_mean(b, x), next = b.slice(m, 1, 1, 16, 1);
              return b.sub(x, b.cat(std::vector<V>{next, b.slice(m, 1, 0, 1, 1)}, 1));
            }),
            1u);
  EXPECT_GT(
      launches([](Builder& b, V x) { return b.sub(x, b.sum(channel_mean(b, x), Axes{1}, true)); }),
      1u);
  EXPECT_GT(launches([](Builder& b, V x) {  // as many rows as channels
              const V square = b.view(channel_mean(b, x), Shape{16});
              return b.sub(x, b.view(square, Shape{16, 1}));
            }),
            1u);
}

TEST(Slabs, WhatMayFailStaysApart) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input(kImages, DType::I64);
  const V sums = b.sum(b.sum(x, Axes{2, 3}, true), Axes{0}, true);
  t.output(b.emit(Op::floor_divide, {x, b.expand(sums, kImages)}));
  EXPECT_GT(check(t).plan.steps.size(), 1u);
}

TEST(Slabs, AnotherLargeValueIsNoneOfTheirs) {
  TestGraph t;
  const V x = t.input(kImages), other = t.input({50, 40, 16});
  t.output(t.b.sin(other));
  t.output(normalized(t.b, x));
  EXPECT_EQ(check(t).plan.steps.size(), 2u);
}

TEST(Slabs, FewSlabsOrShortRowsStayApart) {
  for (const Shape& sizes : {Shape{3, 8, 16, 16}, Shape{3, 16, 8, 16}}) {
    TestGraph t;
    const V x = t.input(sizes);
    t.output(t.b.sub(x, channel_sum(t.b, x)));
    EXPECT_GT(check(t).plan.steps.size(), 1u);
  }
}

TEST(Slabs, TheResultMayLieWhereTheImagesWere) {
  TestGraph t;
  t.output(normalized(t.b, t.input(kImages)), {}, 0);
  const Checked done = check(t, {.write_into_input = {0}});
  EXPECT_EQ(done.plan.steps.size(), 1u);
  EXPECT_EQ(std::get<Launch>(done.plan.steps[0]).params.size(), 1u);
}

TEST(Slabs, ButNotWhereAnotherChannelIsStillRead) {
  TestGraph t;
  const V x = t.input(kImages);
  t.output(t.b.add(normalized(t.b, x), t.b.flip(x, Axes{1})), {}, 0);
  check(t, {.write_into_input = {0}});
}

TEST(Slabs, RunningStatisticsAreUpdatedInPlace) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input(kImages), running = t.input(kChannels), mean = channel_mean(b, x);
  t.output(b.sub(x, b.mul(mean, b.exp(running))));
  t.output(b.add(b.mul(running, 0.9), b.mul(mean, 0.1)), {}, 1);
  check(t, {.write_into_input = {1}});
}

/// Values of images, of rows, of channels and of one number, combined at random.
ir::Graph random_graph(uint32_t seed, bool all) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return random() % n; };
  TestGraph t;
  Builder& b = t.b;
  const std::vector<ir::Strides> strides{{4096, 256, 16, 1},
                                         {256, 768, 16, 1},
                                         {9000, 512, 16, 1},
                                         {4096, 256, 1, 16},
                                         {4096, 1, 256, 16}};
  std::vector<V> images, values{t.input(kChannels)};
  for (int i = 0; i < 2; ++i)
    images.push_back(t.input(kImages, DType::F32, strides[below(strides.size())]));
  const auto any = [&](const std::vector<V>& v) {
    return v[v.size() - 1 - below(std::min<size_t>(v.size(), 3))];
  };
  for (size_t i = 0, n = 4 + below(10); i < n; ++i) {
    const V x = any(images), c = any(values);
    switch (below(10)) {
      case 0:
      case 1:
        values.push_back(channel_mean(b, x));
        break;
      case 2:
        values.push_back(b.mul(channel_sum(b, b.mul(x, b.sub(any(images), c))), 1e-3));
        break;
      case 3:
        values.push_back(b.flip(c, Axes{1}));
        break;
      case 4:
        values.push_back(b.mul(b.sum(b.sum(x, Axes{2, 3}, true), Axes{1}, true), 1e-2));
        break;
      case 5:
        values.push_back(b.sigmoid(b.add(c, any(values))));
        break;
      case 6:
        images.push_back(b.exp(b.sigmoid(x)));
        break;
      case 7:
        images.push_back(b.mul(x, b.sum(any(images), Axes{2, 3}, true)));
        images.back() = b.sigmoid(images.back());
        break;
      case 8: {
        const V rows = b.mul(b.sum(products(b, x, any(images)), Axes{1}, true), 1e-6);
        images.push_back(b.sin(b.sub(x, b.view(rows, Shape{3, 16, 1, 1}))));
        break;
      }
      default:
        images.push_back(b.sub(x, c));
    }
  }
  if (all)
    for (V v : images) t.output(v);
  t.output(b.sub(any(images), any(values)));
  t.output(channel_mean(b, b.mul(any(images), any(values))));
  return t.finish(4, 1024);
}

class RandomSlabs : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomSlabs, AgreeHoweverTheyAreFused) {
  for (uint32_t seed = GetParam() * 10; seed < GetParam() * 10 + 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Checked few = check_lowering(random_graph(seed, false), {}, {}, 1e-4);
    const Checked all = check_lowering(random_graph(seed, true), {}, {}, 1e-4);
    if (testing::Test::HasFailure()) return;
    const auto &a = few.run.outputs, &b = all.run.outputs;
    for (size_t o = 0; o < a.size(); ++o)
      for (int64_t i = 0; i < a[o].numel(); ++i)
        ASSERT_EQ(a[o].at(i), b[b.size() - a.size() + o].at(i)) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSlabs, testing::Range(0u, 8u));

}  // namespace
}  // namespace tandem::codegen
