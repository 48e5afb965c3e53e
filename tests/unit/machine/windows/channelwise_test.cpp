// Convolutions of channels by themselves with lanes along channels, with each instruction set,
// against the loops in f64.
#include "machine/windows/interleaved/channelwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/machine/convolution_tensors.h"

namespace tandem::machine {
namespace {

/// What anybody may ask for, in one to three dims.
ConvolutionSpec random_spec(Sought sought, std::mt19937& random) {
  const auto up_to = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (;;) {
    ConvolutionSpec s{.images = up_to(1, 3)};
    s.in = s.out = s.groups = up_to(1, 40);
    for (size_t d = up_to(0, 2); d < 3; ++d) {
      s.input[d] = up_to(1, 22);
      s.kernel[d] = up_to(1, 4);
      s.stride[d] = sought == Sought::Output ? up_to(1, 3) : 1;
      s.dilation[d] = up_to(1, 2);
      s.padding[d] = up_to(0, (s.kernel[d] - 1) * s.dilation[d] + 1);
    }
    s.output = {made(s, 0), made(s, 1), made(s, 2)};
    if (product(s.output) > 0 && flops(s) < 4e6 && can_be_channelwise(s, sought)) return s;
  }
}

/// What is sought is not to be read.
void channelwise(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought,
                 bool has_bias, Tensors<float>& t) {
  ASSERT_TRUE(can_be_channelwise(s, sought));
  std::ranges::fill(t.result(sought), std::numeric_limits<float>::quiet_NaN());
  convolve_channelwise(kernels, s, sought, t.data(sought, has_bias));
}

class ChannelwiseConvolution : public OfSlideKernels {
 protected:
  static auto run() {
    return [](const ConvolutionSpec& s, Sought sought, bool has_bias, Tensors<float>& t) {
      channelwise(GetParam().kernels, s, sought, has_bias, t);
    };
  }
};

TEST_P(ChannelwiseConvolution, IsNearTheLoops) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i)
    for (const Sought sought : kBoth) {
      const ConvolutionSpec s = random_spec(sought, random);
      const bool has_bias = i % 2 == 0;
      Tensors<float> t = tensors<float>(s);
      channelwise(GetParam().kernels, s, sought, has_bias, t);
      expect_near(s, sought, has_bias, t);
    }
}

/// Whose planes are cut into bands.
TEST_P(ChannelwiseConvolution, OfLargePlanesIsNearTheLoops) {
  for (const ConvolutionSpec& s :
       {spec(2, 0, 0, {19, 17, 18}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}),
        spec(1, 0, 0, {12, 21, 20}, {3, 3, 3}, {1, 1, 1}),
        spec(1, 0, 0, {9, 40, 41}, {3, 5, 3}, {0, 2, 1}, {2, 1, 1}, {1, 3, 2}),
        spec(1, 0, 0, {30, 12, 12}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {3, 1, 1})}) {
    const ConvolutionSpec by_themselves = in_groups(s, 21, 1, 1);
    for (const Sought sought : kBoth) {
      if (!can_be_channelwise(by_themselves, sought)) continue;
      Tensors<float> t = tensors<float>(by_themselves);
      channelwise(GetParam().kernels, by_themselves, sought, true, t);
      expect_near(by_themselves, sought, true, t);
    }
  }
}

TEST_P(ChannelwiseConvolution, BitsDependOnNoOtherImageAndNoThread) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i)
    for (const Sought sought : kBoth) {
      ConvolutionSpec s = random_spec(sought, random);
      s.images = 7;
      expect_bits_of_one_image(s, sought, run());
    }
}

TEST_P(ChannelwiseConvolution, KeepsNaNToItsChannelAndWindows) {
  const ConvolutionSpec s =
      in_groups(spec(1, 0, 0, {1, 6, 6}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 2, 2}), 20, 1, 1);
  Tensors<float> t = tensors<float>(s);
  t.x[static_cast<size_t>((17 * 6 + 2) * 6 + 5)] = std::numeric_limits<float>::infinity();
  channelwise(GetParam().kernels, s, Sought::Output, false, t);
  for (int64_t i = 0; i < std::ssize(t.y); ++i) {
    const bool met = i / 9 == 17 && i / 3 % 3 == 1 && i % 3 == 2;
    EXPECT_EQ(std::isfinite(t.y[static_cast<size_t>(i)]), !met) << i;
  }
}

TEST(Channelwise, IsEachOfManyChannelsInThreeDimsWithStridesOrShortRows) {
  if (slide_kernels() == nullptr) GTEST_SKIP() << "needs AVX2";
  const ConvolutionSpec s =
      in_groups(spec(4, 0, 0, {8, 8, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}), 64, 1, 1);
  EXPECT_TRUE(is_channelwise(s, Sought::Output));
  EXPECT_FALSE(is_channelwise(s, Sought::Input));
  ConvolutionSpec near = spec(4, 0, 0, {8, 8, 8}, {3, 3, 3}, {1, 1, 1});
  EXPECT_TRUE(is_channelwise(in_groups(near, 64, 1, 1), Sought::Input));
  near = spec(1, 0, 0, {8, 64, 64}, {3, 3, 3}, {1, 1, 1});
  EXPECT_FALSE(is_channelwise(in_groups(near, 64, 1, 1), Sought::Output));
  EXPECT_FALSE(is_channelwise(in_groups(s, 3, 1, 1), Sought::Output));
  EXPECT_FALSE(can_be_channelwise(in_groups(s, 64, 1, 2), Sought::Output));
}

INSTANTIATE_TEST_SUITE_P(Isa, ChannelwiseConvolution, ::testing::ValuesIn(kIsas),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::machine
