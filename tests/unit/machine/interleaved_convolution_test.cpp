// Convolutions over interleaved images, with each instruction set, against the loops in f64.
#include "machine/windows/interleaved/interleaved_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "machine/windows/interleaved/interleaved_weight.h"
#include "machine/windows/sliding_convolution.h"
#include "tests/unit/machine/convolution_tensors.h"

namespace tandem::machine {
namespace {

/// What anybody may ask for, in one to three dims, and at most a few million operations of it.
ConvolutionSpec random_spec(std::mt19937& random) {
  const auto up_to = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (;;) {
    ConvolutionSpec s{.images = up_to(1, 3) == 1 ? up_to(1, 70) : up_to(1, 18),
                      .in = up_to(1, 4) == 1 ? up_to(60, 300) : up_to(1, 30),
                      .out = up_to(1, 4) == 1 ? up_to(30, 150) : up_to(1, 30)};
    for (size_t d = up_to(1, 4) == 1 ? 0 : 1; d < 3; ++d) {
      s.input[d] = up_to(1, 9);
      s.kernel[d] = up_to(1, 5);
      s.stride[d] = up_to(1, 3);
      s.dilation[d] = up_to(1, 2);
      s.padding[d] = up_to(0, (s.kernel[d] - 1) * s.dilation[d] + 1);
    }
    s.output = {made(s, 0), made(s, 1), made(s, 2)};
    if (product(s.output) > 0 && flops(s) < 4e6) return s;
  }
}

/// What is sought is not to be read.
void interleave(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought, bool has_bias,
                Tensors<float>& t) {
  std::ranges::fill(t.result(sought), std::numeric_limits<float>::quiet_NaN());
  if (sought == Sought::Weight)
    sum_interleaved(kernels, s, t.data(sought, has_bias));
  else
    convolve_interleaved(kernels, s, sought, t.data(sought, has_bias));
}

class InterleavedConvolution : public OfSlideKernels {
 protected:
  static auto run() {
    return [](const ConvolutionSpec& s, Sought sought, bool has_bias, Tensors<float>& t) {
      interleave(GetParam().kernels, s, sought, has_bias, t);
    };
  }
};

TEST_P(InterleavedConvolution, IsNearTheLoops) {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    for (const Sought sought : kAll) {
      const ConvolutionSpec s = random_spec(random);
      const bool has_bias = i % 2 == 0;
      Tensors<float> t = tensors<float>(s);
      interleave(GetParam().kernels, s, sought, has_bias, t);
      expect_near(s, sought, has_bias, t);
    }
  }
}

/// Whose weights are packed in several parts, for several groups of images.
TEST_P(InterleavedConvolution, OfManyChannelsAndImagesIsNearTheLoops) {
  for (const ConvolutionSpec& s :
       {spec(50, 130, 70, {1, 4, 4}, {1, 3, 3}, {0, 1, 1}),
        spec(33, 70, 200, {1, 7, 8}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 2, 2}),
        spec(16, 600, 33, {1, 2, 2}, {1, 1, 1}, {0, 0, 0})})
    for (const Sought sought : kAll) {
      Tensors<float> t = tensors<float>(s);
      interleave(GetParam().kernels, s, sought, true, t);
      expect_near(s, sought, true, t);
    }
}

TEST_P(InterleavedConvolution, BitsDependOnNoOtherImageAndNoThread) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    for (const Sought sought : kBoth) {
      ConvolutionSpec s = random_spec(random);
      s.images = 37;
      expect_bits_of_one_image(s, sought, run());
    }
  }
}

TEST_P(InterleavedConvolution, WeightsHaveTheSameBitsOnAnyThreads) {
  for (const ConvolutionSpec& s :
       {spec(40, 70, 130, {1, 4, 4}, {1, 3, 3}, {0, 1, 1}),
        spec(9, 200, 40, {1, 7, 7}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 2, 2})}) {
    weights_on_any_threads(s, run());
  }
}

TEST_P(InterleavedConvolution, KeepsNaNToItsImageAndWindows) {
  const ConvolutionSpec s = spec(18, 3, 5, {1, 4, 4}, {1, 3, 3}, {0, 1, 1});
  Tensors<float> t = tensors<float>(s);
  const int64_t row = 1, column = 3;  // of the last image's last channel
  t.x[static_cast<size_t>((53 * 4 + row) * 4 + column)] = std::numeric_limits<float>::infinity();
  interleave(GetParam().kernels, s, Sought::Output, false, t);
  for (int64_t i = 0; i < std::ssize(t.y); ++i) {
    const bool met = i >= 17 * 5 * 16 && std::abs(i / 4 % 4 - row) <= 1 && i % 4 >= column - 1;
    EXPECT_EQ(std::isfinite(t.y[static_cast<size_t>(i)]), !met) << i;
  }
  t = tensors<float>(s);
  t.x[0] = std::numeric_limits<float>::infinity();  // which the last taps do not meet
  interleave(GetParam().kernels, s, Sought::Weight, false, t);
  for (int64_t i = 0; i < std::ssize(t.w); ++i) {
    const bool met = i / 9 % 3 == 0 && i % 3 < 2 && i / 3 % 3 < 2;
    EXPECT_EQ(std::isfinite(t.w[static_cast<size_t>(i)]), !met) << i;
  }
}

/// No tap is multiplied with padding: an infinite one makes no NaN of it.
TEST_P(InterleavedConvolution, TapsMeetNoPadding) {
  const ConvolutionSpec s = spec(17, 2, 2, {1, 3, 3}, {1, 3, 3}, {0, 1, 1});
  for (const Sought sought : kBoth) {
    Tensors<float> t = tensors<float>(s);
    std::ranges::fill(t.x, 1.0f);
    std::ranges::fill(t.y, 1.0f);
    std::ranges::fill(t.w, 1.0f);
    t.w[0] = std::numeric_limits<float>::infinity();  // the first channels' first tap
    interleave(GetParam().kernels, s, sought, false, t);
    const std::vector<float>& result = t.result(sought);
    for (int64_t i = 0; i < std::ssize(result); ++i) {
      const int64_t row = i / 3 % 3, column = i % 3;
      const bool inside = sought == Sought::Output ? row > 0 && column > 0 : row < 2 && column < 2;
      const bool met = i / 9 % 2 == 0 && inside;
      EXPECT_EQ(std::isinf(result[static_cast<size_t>(i)]), met) << i;
      EXPECT_FALSE(std::isnan(result[static_cast<size_t>(i)])) << i;
    }
  }
}

TEST(Interleaved, IsOfOneGroupAndTakenWherePlanesAreSmall) {
  const ConvolutionSpec s = spec(16, 64, 64, {1, 4, 4}, {1, 3, 3}, {0, 1, 1});
  ConvolutionSpec grouped = s;
  grouped.groups = 2;
  for (const Sought sought : kBoth) {
    EXPECT_FALSE(can_interleave(grouped, sought));
    EXPECT_EQ(is_interleaved(s, sought), slide_kernels() != nullptr);
    EXPECT_FALSE(is_interleaved(spec(16, 64, 64, {1, 32, 32}, {1, 3, 3}, {0, 1, 1}), sought));
  }
  EXPECT_FALSE(can_interleave(s, Sought::Weight) || can_sum_interleaved(grouped));
  EXPECT_EQ(is_weight_interleaved(s), slide_kernels() != nullptr);
  EXPECT_FALSE(is_weight_interleaved(spec(16, 64, 64, {1, 32, 32}, {1, 3, 3}, {0, 1, 1})));
}

INSTANTIATE_TEST_SUITE_P(Isa, InterleavedConvolution, ::testing::ValuesIn(kIsas),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::machine
