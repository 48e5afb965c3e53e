// Windows that slide over padded planes, with each instruction set, against the loops in f64.
#include "machine/windows/sliding_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "machine/windows/grouped_weight.h"
#include "machine/windows/single_convolution.h"
#include "machine/windows/sliding_weight.h"
#include "tests/unit/machine/convolution_tensors.h"

namespace tandem::machine {
namespace {

/// What anybody may ask for, and at most a few million operations of it, some in groups, and with
/// strides where no gradient of an input is sought. Gradients of a weight may have padding beyond
/// their windows, and long rows.
ConvolutionSpec random_spec(std::mt19937& random, Sought sought) {
  const auto up_to = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const bool any = sought == Sought::Weight;
  const bool has_strides = any || (sought == Sought::Output && up_to(1, 2) == 1);
  for (;;) {
    int64_t size = up_to(1, 4) == 1 ? up_to(30, 70) : up_to(1, 20);
    if (any && up_to(1, 8) == 1) size = up_to(400, 1200);
    Extents kernel{1, up_to(1, 4), up_to(1, 5)}, dilation{1, up_to(1, 2), up_to(1, 3)}, padding{},
        stride{1, 1, 1};
    int64_t depth = 1;
    if (up_to(1, 3) == 1) depth = up_to(1, 6), kernel[0] = up_to(1, 3), dilation[0] = up_to(1, 2);
    if (up_to(1, 8) == 1) dilation[2] = 19;
    for (size_t d = 0; d < 3; ++d) {
      padding[d] = up_to(0, (kernel[d] - 1) * dilation[d] + (any ? 1 : 0));
      if (has_strides) stride[d] = up_to(1, 4);
    }
    ConvolutionSpec s =
        spec(any ? up_to(1, 9) : up_to(1, 3), up_to(1, 4) == 1 ? up_to(60, 300) : up_to(1, 20),
             up_to(1, 4) == 1 ? up_to(30, 150) : up_to(1, 30), {depth, up_to(1, 20), size}, kernel,
             padding, dilation, stride);
    if (up_to(1, 3) == 1) s = in_groups(s, up_to(2, 7), up_to(1, 6), up_to(1, 6));
    if (s.output[0] > 0 && s.output[1] > 0 && s.output[2] > 0 && flops(s) < 4e6) return s;
  }
}

bool can(const ConvolutionSpec& s, Sought sought) {
  return sought == Sought::Weight || can_slide(s, sought);
}

/// A row by itself, so long that it is cut into pieces; taps may lie far apart, and windows too
/// where no gradient of an input is sought.
ConvolutionSpec random_signal(std::mt19937& random, Sought sought) {
  const auto up_to = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (;;) {
    const bool is_wide = up_to(1, 4) == 1;
    const Extents kernel{1, 1, is_wide ? up_to(30, 200) : up_to(1, 12)},
        dilation{1, 1, is_wide ? 1 : up_to(1, 3)},
        padding{0, 0, up_to(0, (kernel[2] - 1) * dilation[2])},
        stride{1, 1,
               sought == Sought::Input ? 1
               : up_to(1, 3) == 1      ? up_to(1, 40)
                                       : 1};
    const ConvolutionSpec s = spec(up_to(1, 2), up_to(1, 3), up_to(1, 20),
                                   {1, 1, up_to(2000, 20000)}, kernel, padding, dilation, stride);
    if (s.output[2] > 0 && flops(s) < 8e6) return s;
  }
}

/// What is sought is not to be read. (Weights of few channels of a result are summed in both ways.)
void slide(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought, bool has_bias,
           Tensors<float>& t) {
  std::ranges::fill(t.result(sought), std::numeric_limits<float>::quiet_NaN());
  if (sought == Sought::Weight)
    (s.groups > 1 || (s.out <= 4 && s.in % 2 == 0) ? sum_grouped : sum_sliding)(
        kernels, s, t.data(sought, has_bias));
  else
    convolve_sliding(kernels, s, sought, t.data(sought, has_bias));
}

class SlidingConvolution : public OfSlideKernels {
 protected:
  static auto run() {
    return [](const ConvolutionSpec& s, Sought sought, bool has_bias, Tensors<float>& t) {
      slide(GetParam().kernels, s, sought, has_bias, t);
    };
  }
};

TEST_P(SlidingConvolution, IsNearTheLoops) {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    for (const Sought sought : kAll) {
      const ConvolutionSpec s = random_spec(random, sought);
      ASSERT_TRUE(can(s, sought)) << text(s, sought);
      const bool has_bias = i % 2 == 0;
      Tensors<float> t = tensors<float>(s);
      slide(GetParam().kernels, s, sought, has_bias, t);
      expect_near(s, sought, has_bias, t);
    }
  }
}

TEST_P(SlidingConvolution, OfSignalsIsNearTheLoops) {
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    for (const Sought sought : kAll) {
      const ConvolutionSpec s = random_signal(random, sought);
      Tensors<float> t = tensors<float>(s);
      slide(GetParam().kernels, s, sought, i % 2 == 0, t);
      expect_near(s, sought, i % 2 == 0, t);
      if (sought == Sought::Weight)
        weights_on_any_threads(s, run());
      else if (i % 10 == 0)
        expect_bits_of_one_image(s, sought, run());
    }
  }
}

TEST_P(SlidingConvolution, BitsDependOnNoOtherImageAndNoThread) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    for (const Sought sought : kBoth) {
      ConvolutionSpec s = random_spec(random, sought);
      s.images = 9;
      expect_bits_of_one_image(s, sought, run());
    }
  }
}

/// Of several parts, blocks and cuts of channels and panels; in groups of one channel, and of more
/// than are summed at once.
TEST_P(SlidingConvolution, WeightsHaveTheSameBitsOnAnyThreads) {
  for (const ConvolutionSpec& s :
       {in_groups(spec(6, 1, 1, {1, 19, 37}, {1, 5, 5}, {0, 2, 2}), 3, 1, 1),
        in_groups(spec(5, 1, 1, {1, 16, 16}, {1, 3, 3}, {0, 1, 1}, {1, 2, 1}, {1, 1, 3}), 2, 2, 5),
        spec(5, 40, 130, {1, 20, 30}, {1, 3, 3}, {0, 1, 1}),
        spec(40, 70, 50, {1, 8, 8}, {1, 3, 3}, {0, 1, 1}),
        spec(3, 300, 200, {1, 14, 14}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 2, 2}),
        spec(2, 3, 64, {1, 1, 3000}, {1, 1, 7}, {0, 0, 3}, {1, 1, 1}, {1, 1, 2}),
        spec(3, 5, 20, {6, 12, 12}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {2, 1, 1}),
        in_groups(spec(3, 1, 1, {6, 12, 12}, {3, 3, 3}, {1, 1, 1}), 5, 1, 2),
        // bands of rows
        spec(1, 2, 3, {1, 150, 70}, {1, 3, 3}, {0, 1, 1}),
        spec(1, 4, 1, {1, 333, 41}, {1, 5, 3}, {0, 2, 1}, {1, 3, 2}, {1, 2, 3}),
        spec(2, 2, 2, {3, 131, 37}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 2, 1}),
        in_groups(spec(1, 1, 1, {1, 170, 60}, {1, 4, 2}, {0, 3, 1}), 3, 2, 1)}) {
    const std::vector<float> w = weights_on_any_threads(s, run());
    const std::vector<double> want = expected(s, Sought::Weight, false);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(w[i], want[i], 1e-3) << text(s, Sought::Weight) << " at " << i;
  }
}

/// Groups that make a channel each, whose rows share what they read: any taps, rows and columns, a
/// row by itself, dilations, depths and bands, and bits that depend on no other image and no
/// thread.
TEST_P(SlidingConvolution, OfSingleChannelsIsNearTheLoops) {
  std::mt19937 random(3);
  const auto up_to = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const auto run = [](const ConvolutionSpec& s, Sought sought, bool has_bias, Tensors<float>& t) {
    std::ranges::fill(t.result(sought), std::numeric_limits<float>::quiet_NaN());
    convolve_single(GetParam().kernels, s, sought, t.data(sought, has_bias));
  };
  for (int i = 0; i < 150; ++i) {
    const int64_t depth = up_to(1, 3) == 1 ? up_to(2, 4) : 1;
    const int64_t rows = up_to(1, 4) == 1 ? 1 : up_to(1, 50), channels = up_to(1, 4);
    const bool is_long = depth * rows == 1 && up_to(1, 2) == 1;  // cut into pieces
    const Extents kernel{depth == 1 ? 1 : up_to(1, 3), rows == 1 ? 1 : up_to(1, 13), up_to(1, 17)},
        dilation{up_to(1, 2), up_to(1, 2), up_to(1, 2)};
    Extents padding{};
    for (size_t d = 0; d < 3; ++d) padding[d] = up_to(0, (kernel[d] - 1) * dilation[d]);
    const ConvolutionSpec all =
        spec(up_to(1, 3), 1, 1, {depth, rows, is_long ? up_to(3000, 20000) : up_to(1, 150)}, kernel,
             padding, dilation);
    if (std::ranges::any_of(all.output, [](int64_t n) { return n <= 0; })) continue;
    for (const Sought sought : kBoth) {
      const bool is_input = sought == Sought::Input;
      const ConvolutionSpec s =
          in_groups(all, up_to(1, 4), is_input ? 1 : channels, is_input ? channels : 1);
      if (flops(s) > 8e6) continue;
      ASSERT_TRUE(can_convolve_single(s, sought)) << text(s, sought);
      Tensors<float> t = tensors<float>(s);
      run(s, sought, i % 2 == 0, t);
      expect_near(s, sought, i % 2 == 0, t);
      if (i % 10 == 0) expect_bits_of_one_image(s, sought, run);
    }
  }
}

/// Rows of whole vectors and others, of many taps, in several bands and blocks of channels.
TEST_P(SlidingConvolution, WithStridesIsNearTheLoops) {
  for (const ConvolutionSpec& s :
       {spec(2, 1, 20, {1, 1, 2100}, {1, 1, 80}, {0, 0, 38}, {1, 1, 1}, {1, 1, 16}),
        spec(1, 3, 9, {1, 70, 75}, {1, 7, 7}, {0, 3, 3}, {1, 1, 1}, {1, 2, 2}),
        spec(1, 90, 17, {1, 31, 33}, {1, 3, 3}, {0, 1, 1}, {1, 2, 3}, {1, 3, 2}),
        spec(1, 2, 3, {1, 300, 65}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 2, 1}),
        in_groups(spec(2, 1, 1, {9, 17, 33}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}), 5, 1, 1),
        in_groups(spec(2, 1, 1, {9, 12, 14}, {3, 5, 5}, {1, 2, 2}, {1, 1, 1}, {3, 2, 4}), 2, 2, 3)})
    for (const bool has_bias : {false, true}) {
      Tensors<float> t = tensors<float>(s);
      slide(GetParam().kernels, s, Sought::Output, has_bias, t);
      expect_near(s, Sought::Output, has_bias, t);
      expect_bits_of_one_image(s, Sought::Output, run());
    }
}

TEST_P(SlidingConvolution, WithStridesKeepsNaNToItsWindows) {
  const ConvolutionSpec s = spec(1, 1, 2, {1, 9, 40}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 2, 2});
  for (int64_t pixel = 0; pixel < 9 * 40; ++pixel) {
    Tensors<float> t = tensors<float>(s);
    t.x[static_cast<size_t>(pixel)] = std::numeric_limits<float>::quiet_NaN();
    slide(GetParam().kernels, s, Sought::Output, false, t);
    for (int64_t i = 0; i < std::ssize(t.y); ++i) {
      const int64_t row = i / 20 % 5 * 2, column = i % 20 * 2;
      const bool met = std::abs(row - pixel / 40) <= 1 && std::abs(column - pixel % 40) <= 1;
      ASSERT_EQ(std::isnan(t.y[static_cast<size_t>(i)]), met) << pixel << " at " << i;
    }
  }
}

TEST_P(SlidingConvolution, KeepsNaNToItsWindows) {
  const ConvolutionSpec s = spec(2, 3, 5, {1, 9, 21}, {1, 3, 3}, {0, 1, 1});
  Tensors<float> t = tensors<float>(s);
  const int64_t row = 4, column = 20;  // of the second image's last channel
  t.x[static_cast<size_t>((5 * 9 + row) * 21 + column)] = std::numeric_limits<float>::infinity();
  slide(GetParam().kernels, s, Sought::Output, false, t);
  for (int64_t i = 0; i < std::ssize(t.y); ++i) {
    const bool met = i >= 5 * 9 * 21 && std::abs(i / 21 % 9 - row) <= 1 && i % 21 >= column - 1;
    EXPECT_EQ(std::isfinite(t.y[static_cast<size_t>(i)]), !met) << i;
  }
}

/// A pixel that is not finite meets only taps that reach it, and only its channel; what a row's or
/// a plane's neighbours hold is no tap's.
TEST_P(SlidingConvolution, WeightsKeepNaNToTheirChannelAndTaps) {
  const ConvolutionSpec s = spec(2, 3, 5, {1, 9, 21}, {1, 3, 3}, {0, 0, 0});
  Tensors<float> t = tensors<float>(s);
  // The first pixel of the second image's last channel, which only the first tap meets.
  t.x[static_cast<size_t>(5 * 9 * 21)] = std::numeric_limits<float>::infinity();
  slide(GetParam().kernels, s, Sought::Weight, false, t);
  for (int64_t i = 0; i < std::ssize(t.w); ++i) {
    const bool met = i / 9 % 3 == 2 && i % 9 == 0;
    EXPECT_EQ(std::isfinite(t.w[static_cast<size_t>(i)]), !met) << i;
  }
}

/// A pixel beside which lies none that is wanted meets only its own channel's taps; a group is no
/// other's neighbour.
TEST_P(SlidingConvolution, WeightsOfAGroupKeepNaNToIt) {
  const ConvolutionSpec s = in_groups(spec(2, 1, 1, {1, 9, 21}, {1, 3, 3}, {0, 0, 0}), 4, 1, 2);
  Tensors<float> t = tensors<float>(s);
  // The last pixel of the first image's second channel, which only the last tap meets.
  t.x[static_cast<size_t>(2 * 9 * 21 - 1)] = std::numeric_limits<float>::infinity();
  slide(GetParam().kernels, s, Sought::Weight, false, t);
  for (int64_t i = 0; i < std::ssize(t.w); ++i) {
    const bool met = i / 9 / 2 == 1 && i % 9 == 8;
    EXPECT_EQ(std::isfinite(t.w[static_cast<size_t>(i)]), !met) << i;
  }
}

TEST(Sliding, InGroupsPaysForFewChannelsAndTapsThatTheLibraryLoopsOver) {
  if (slide_kernels() == nullptr) GTEST_SKIP() << "the processor lacks AVX2";
  const auto of = [](int64_t groups, int64_t in, int64_t out, int64_t size, int64_t taps,
                     int64_t stride = 1) {
    const int64_t padding = taps / 2;
    return in_groups(spec(8, 1, 1, {1, size, size}, {1, taps, taps}, {0, padding, padding},
                          {1, 1, 1}, {1, stride, stride}),
                     groups, in, out);
  };
  EXPECT_TRUE(is_weight_grouped(of(96, 1, 1, 56, 3)) && is_weight_grouped(of(96, 1, 1, 7, 5)) &&
              is_weight_grouped(of(32, 1, 2, 7, 3)) && is_weight_grouped(of(96, 1, 1, 28, 5, 2)));
  EXPECT_FALSE(is_weight_grouped(of(96, 1, 1, 7, 3)) || is_weight_grouped(of(16, 8, 8, 28, 3)) ||
               is_weight_grouped(of(96, 1, 1, 56, 3, 2)) || is_weight_grouped(of(1, 8, 8, 28, 3)));
  EXPECT_TRUE(is_sliding(of(32, 1, 2, 7, 3), Sought::Output) &&
              is_sliding(of(32, 4, 4, 14, 5), Sought::Input));
  EXPECT_FALSE(is_sliding(of(96, 1, 1, 7, 3), Sought::Output) ||
               is_single(of(96, 1, 1, 7, 3), Sought::Output) ||
               is_single(of(96, 1, 1, 14, 5), Sought::Input));
  EXPECT_EQ(is_single(of(96, 1, 1, 56, 3), Sought::Output), slide_kernels() == &kSlideAvx512);
  EXPECT_TRUE(is_single(of(3, 1, 1, 56, 5), Sought::Input));
}

/// So it does for a group's only channel, and where more taps lie outside than the library's tiles
/// have pixels.
TEST(Sliding, PaysForSingleChannelsAndWideWindows) {
  if (slide_kernels() == nullptr) GTEST_SKIP() << "the processor lacks AVX2";
  const auto of = [](int64_t in, int64_t out, int64_t size, int64_t taps) {
    return spec(8, in, out, {1, size, size}, {1, taps, taps}, {0, taps / 2, taps / 2});
  };
  EXPECT_TRUE(is_single(of(64, 1, 28, 3), Sought::Output) &&
              is_single(of(1, 64, 28, 3), Sought::Input) &&
              is_sliding(of(64, 2, 28, 3), Sought::Output));
  EXPECT_TRUE(is_weight_grouped(of(64, 3, 28, 3)) && is_weight_grouped(of(1, 1, 64, 15)));
  EXPECT_FALSE(is_single(of(64, 2, 28, 3), Sought::Output) || is_weight_grouped(of(64, 8, 28, 3)));
  const auto alone = [&](int64_t taps) { return in_groups(of(1, 1, 28, taps), 64, 1, 1); };
  EXPECT_TRUE(is_single(alone(31), Sought::Output));
  EXPECT_FALSE(is_single(alone(13), Sought::Output) || is_single(alone(4), Sought::Output));
}

/// Of signals it does for a channel of any length, whose windows may be as far apart as they are
/// wide.
TEST(Sliding, PaysForLongSignals) {
  if (slide_kernels() == nullptr) GTEST_SKIP() << "the processor lacks AVX2";
  const auto of = [](int64_t in, int64_t out, int64_t size, int64_t kernel, int64_t stride) {
    return spec(1, in, out, {1, 1, size}, {1, 1, kernel}, {0, 0, 0}, {1, 1, 1}, {1, 1, stride});
  };
  for (const int64_t size : {16000, 1 << 18, 1 << 22}) {
    EXPECT_TRUE(is_sliding(of(1, 32, size, 9, 1), Sought::Output) &&
                is_sliding(of(1, 8, size, 16, 16), Sought::Output) &&
                is_single(of(1, 16, size, 9, 1), Sought::Input) &&
                is_single(of(1, 1, size, 9, 1), Sought::Output) &&
                is_weight_sliding(of(1, 32, size, 9, 1)) && is_weight_grouped(of(1, 8, size, 9, 1)))
        << size;
  }
  EXPECT_TRUE(is_single(of(1, 32, 1 << 18, 9, 1), Sought::Input));
  EXPECT_FALSE(is_single(of(1, 32, 16000, 9, 1), Sought::Input) ||
               is_sliding(of(1, 8, 16000, 16, 17), Sought::Output) ||
               is_sliding(of(2, 8, 16000, 16, 16), Sought::Output) ||
               is_weight_grouped(of(2, 8, 16000, 9, 1)));
}

/// The library loops over groups in three dims, and over blocks that are not full.
TEST(Sliding, InThreeDimsPaysForFewChannels) {
  if (slide_kernels() == nullptr) GTEST_SKIP() << "the processor lacks AVX2";
  const auto of = [](int64_t groups, int64_t in, int64_t out) {
    return in_groups(spec(2, 1, 1, {8, 28, 28}, {3, 3, 3}, {1, 1, 1}), groups, in, out);
  };
  for (const Sought sought : kBoth) {
    EXPECT_TRUE(is_single(of(32, 1, 1), sought) && is_sliding(of(1, 3, 16), sought) &&
                is_sliding(of(1, 20, 20), sought));
    EXPECT_FALSE(is_sliding(of(2, 32, 32), sought) || is_sliding(of(1, 32, 32), sought));
  }
  EXPECT_TRUE(is_weight_grouped(of(32, 1, 1)) && is_weight_grouped(of(4, 8, 8)) &&
              is_weight_sliding(of(1, 3, 16)));
  EXPECT_FALSE(is_weight_grouped(of(2, 32, 32)) || is_weight_sliding(of(1, 32, 32)));
}

/// The library loops over groups of few channels, over channels by themselves in three dims, and
/// takes long over many taps of one channel.
TEST(Sliding, WithStridesPaysWhereTheLibraryHasNoKernel) {
  if (slide_kernels() == nullptr) GTEST_SKIP() << "the processor lacks AVX2";
  const auto pays = [](const ConvolutionSpec& s) { return is_sliding(s, Sought::Output); };
  const auto of = [](int64_t depth, int64_t in, int64_t out, int64_t taps, int64_t stride) {
    const bool is_deep = depth > 1;
    const Extents kernel{is_deep ? taps : 1, taps, taps}, padding{is_deep ? 1 : 0, 1, 1},
        strides{is_deep ? stride : 1, stride, stride};
    return spec(8, in, out, {depth, 56, 56}, kernel, padding, {1, 1, 1}, strides);
  };
  EXPECT_TRUE(pays(in_groups(of(8, 1, 1, 3, 2), 32, 1, 1)) &&
              pays(in_groups(of(1, 1, 1, 3, 2), 16, 2, 2)) && pays(of(1, 20, 33, 3, 2)) &&
              pays(spec(8, 1, 64, {1, 1, 16000}, {1, 1, 80}, {0, 0, 38}, {1, 1, 1}, {1, 1, 16})));
  EXPECT_FALSE(pays(in_groups(of(1, 1, 1, 3, 2), 32, 1, 1)) || pays(of(1, 64, 64, 3, 2)) ||
               pays(of(8, 4, 32, 3, 2)) || pays(of(1, 20, 33, 1, 2)) || pays(of(1, 3, 64, 4, 4)));
}

TEST(Sliding, IsOfOutputsWhereItHasStridesAndPaddedWithinReach) {
  const ConvolutionSpec s = spec(2, 32, 32, {1, 64, 64}, {1, 3, 3}, {0, 1, 1});
  EXPECT_TRUE(can_slide(s, Sought::Output) && can_slide(s, Sought::Input));
  ConvolutionSpec grouped = s, strided = s, far = s;
  grouped.groups = 2;
  strided.stride = {1, 2, 2};
  far.padding = {0, 1, 3};
  EXPECT_TRUE(can_slide(strided, Sought::Output));
  EXPECT_FALSE(can_slide(strided, Sought::Input));
  for (const Sought sought : kBoth) EXPECT_FALSE(can_slide(far, sought));
  EXPECT_TRUE(can_slide(grouped, Sought::Output));
  EXPECT_FALSE(can_slide(s, Sought::Weight) || is_weight_sliding(grouped));
  EXPECT_EQ(is_weight_sliding(s), slide_kernels() != nullptr);
  EXPECT_EQ(is_sliding(s, Sought::Output), slide_kernels() == &kSlideAvx512);
}

INSTANTIATE_TEST_SUITE_P(Isa, SlidingConvolution, ::testing::ValuesIn(kIsas),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::machine
