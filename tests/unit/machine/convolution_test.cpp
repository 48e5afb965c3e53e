// Convolutions in parts, by libraries, against the loops; and their bits on any number of threads.
#include "machine/windows/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "machine/library/convolution_cut.h"
#include "machine/products/panels.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/unfolded_convolution.h"
#include "tests/support/threads.h"
#include "tests/unit/machine/convolution_tensors.h"

namespace tandem::machine {
namespace {

/// The specs, and between them cuts by images, by channels, by groups and by all of them.
std::vector<ConvolutionSpec> specs() {
  const auto square = [](int64_t images, int64_t in, int64_t out, int64_t groups, int64_t size,
                         int64_t kernel, int64_t stride) {
    const int64_t padding = kernel / 2, made = (size + 2 * padding - kernel) / stride + 1;
    return ConvolutionSpec{images,
                           in,
                           out,
                           groups,
                           {1, size, size},
                           {1, kernel, kernel},
                           {1, made, made},
                           {1, stride, stride},
                           {0, padding, padding}};
  };
  ConvolutionSpec strided{2,         6,          4,         2,         {1, 1, 40},
                          {1, 1, 3}, {1, 1, 13}, {1, 1, 3}, {0, 0, 2}, {1, 1, 2}};
  ConvolutionSpec image{5, 30, 7, 1, {2, 4, 5}, {2, 4, 5}, {1, 1, 1}, {1, 3, 1}};
  ConvolutionSpec deep{1, 8, 40, 1, {6, 7, 8}, {3, 2, 3}, {6, 6, 8}, {1, 1, 1}, {1, 0, 1}};
  ConvolutionSpec deep_and_wide{2,         40,        600,       1,         {3, 4, 5},
                                {2, 3, 2}, {2, 1, 3}, {2, 3, 2}, {1, 0, 1}, {1, 1, 2}};
  ConvolutionSpec deep_in_groups{2,         36,        60,        3,         {7, 9, 8},
                                 {2, 3, 3}, {3, 5, 6}, {2, 2, 1}, {0, 2, 1}, {2, 2, 2}};
  return {square(5, 35, 70, 1, 14, 3, 1),
          square(1, 64, 100, 1, 14, 3, 2),
          square(19, 16, 16, 1, 15, 3, 1),
          square(3, 96, 96, 96, 20, 5, 1),
          square(2, 64, 96, 4, 13, 3, 1),
          square(4, 48, 80, 1, 13, 1, 1),
          square(1, 7, 5, 1, 12, 1, 1),
          square(35, 17, 30, 1, 12, 1, 1),
          square(2, 900, 1300, 1, 12, 1, 1),
          square(3, 3, 64, 1, 32, 7, 2),
          square(9, 1, 32, 1, 28, 3, 1),
          square(9, 256, 272, 1, 3, 3, 1),
          square(19, 300, 288, 1, 4, 3, 2),
          square(3, 70, 420, 1, 3, 3, 1),
          square(2, 64, 480, 1, 5, 3, 2),
          square(1, 600, 512, 1, 1, 1, 1),
          deep_and_wide,
          square(5, 2, 32, 1, 15, 5, 1),
          square(3, 70, 40, 1, 32, 3, 1),
          square(2, 35, 30, 1, 57, 5, 1),
          square(4, 3, 20, 1, 33, 3, 1),
          square(2, 32, 1, 1, 20, 3, 1),
          square(2, 1, 20, 1, 18, 4, 1),
          square(3, 32, 32, 32, 9, 15, 1),
          image,
          strided,
          deep,
          deep_in_groups,
          // of one image and few channels: rows are cut
          {1, 16, 32, 1, {17, 20, 18}, {3, 3, 3}, {17, 20, 18}, {1, 1, 1}, {1, 1, 1}},
          {1, 32, 30, 1, {37, 12, 14}, {1, 3, 3}, {37, 12, 14}, {1, 1, 1}, {0, 1, 1}},
          {2, 32, 16, 2, {41, 16, 16}, {3, 3, 3}, {20, 8, 8}, {2, 2, 2}, {1, 1, 1}},
          {1, 32, 32, 1, {31, 16, 16}, {3, 2, 2}, {13, 14, 14}, {2, 1, 1}, {0, 0, 0}, {3, 2, 2}},
          {1, 32, 64, 1, {1, 112, 90}, {1, 2, 2}, {1, 56, 45}, {1, 2, 2}},
          {1, 64, 96, 1, {1, 64, 64}, {1, 4, 4}, {1, 32, 32}, {1, 2, 2}, {0, 1, 1}},
          {1, 24, 32, 1, {5, 40, 40}, {3, 3, 3}, {5, 40, 40}, {1, 1, 1}, {1, 1, 1}},
          {1, 32, 24, 1, {3, 20, 160}, {3, 3, 3}, {3, 20, 80}, {1, 1, 2}, {1, 1, 1}},
          {1, 40, 48, 1, {1, 1, 9000}, {1, 1, 9}, {1, 1, 3000}, {1, 1, 3}, {0, 0, 4}}};
}

TEST(Convolution, OfThePartsIsNearTheWhole) {
  bool images = false, channels = false, rows = false;
  for (const ConvolutionSpec& s : specs())
    for (const Sought sought : kAll)
      for (const bool bias : {false, true}) {
        const Cut cut = cut_of(s, sought);
        images |= cut.image_parts > 1, channels |= cut.channel_parts > 1;
        rows |= cut.row_parts > 1;
        Tensors<float> single = tensors<float>(s);
        convolve(s, sought, single.data(sought, bias));
        const std::vector<float>& got = single.result(sought);
        const std::vector<double> want = expected(s, sought, bias);
        double most = 0, far = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          most = std::max(most, std::abs(want[i]));
          far = std::max(far, std::abs(got[i] - want[i]));
        }
        EXPECT_LE(far, 1e-5 * most) << s.in << " " << static_cast<int>(sought) << " " << bias;
      }
  EXPECT_TRUE(images && channels && rows);
}

TEST(Convolution, IsUnfoldedWhereTheWeightIsLargeBesideTheWindows) {
  if (!products::panels()) GTEST_SKIP() << "products are the library's";
  EXPECT_GE(std::ranges::count_if(
                specs(), [](const ConvolutionSpec& s) { return is_unfolded(s, Sought::Input); }),
            4);
  const auto square = [](int64_t images, int64_t channels, int64_t size) {
    return ConvolutionSpec{images,    channels,        channels,  1,        {1, size, size},
                           {1, 3, 3}, {1, size, size}, {1, 1, 1}, {0, 1, 1}};
  };
  EXPECT_TRUE(is_unfolded(square(16, 512, 2), Sought::Output));
  EXPECT_TRUE(is_unfolded(square(1, 512, 7), Sought::Output));
  EXPECT_FALSE(is_unfolded(square(16, 512, 7), Sought::Output));
  EXPECT_FALSE(is_unfolded(square(16, 256, 4), Sought::Output));
  EXPECT_TRUE(is_unfolded(square(16, 256, 4), Sought::Weight));
  EXPECT_FALSE(is_unfolded(square(16, 64, 1), Sought::Output));
}

// Weights of many channels are read once, not once for each part of the images.
TEST(Convolution, OfFewPixelsIsCutByChannels) {
  const auto cut = [](int64_t channels, int64_t size, Sought sought) {
    return cut_of({16, channels, channels, 1, {1, size, size}, {1, 3, 3}, {1, size, size}}, sought);
  };
  for (const Sought sought : {Sought::Output, Sought::Input}) {
    EXPECT_EQ(cut(512, 2, sought).image_parts, 1);
    EXPECT_GE(cut(512, 2, sought).channel_parts, 8);
    EXPECT_EQ(cut(64, 16, sought).image_parts, 16);
    EXPECT_EQ(cut(64, 16, sought).channel_parts, 1);
  }
}

TEST(Convolution, OfFewImagesIsCutIntoAsMany) {
  for (const Sought sought : kBoth)
    for (int64_t images = 1; images <= 8; ++images) {
      const Cut cut = cut_of(
          {images, 16, 32, 1, {16, 16, 16}, {3, 3, 3}, {16, 16, 16}, {1, 1, 1}, {1, 1, 1}}, sought);
      EXPECT_GE(cut.image_parts * cut.channel_parts * cut.row_parts, std::max<int64_t>(images, 4));
    }
}

// Together they are all of what is sought, and each sees what its windows reach.
TEST(Convolution, RowsAreCutWithoutGapsOrOverlaps) {
  for (const ConvolutionSpec& s : specs())
    for (const Sought sought : kAll) {
      const Cut cut = cut_of(s, sought);
      const size_t d = row_dim(s, sought);
      const bool is_input = sought == Sought::Input;
      int64_t next = 0;
      for (const ConvolutionPart& part : parts_of(s, sought, cut)) {
        if (part.image > 0 || part.channel > 0) continue;
        EXPECT_EQ(is_input ? part.x_row : part.y_row, next);
        next += (is_input ? part.spec.input : part.spec.output)[d];
        EXPECT_EQ(part.x_row + s.padding[d], part.y_row * s.stride[d] + part.spec.padding[d]);
        EXPECT_LE(part.x_row + part.spec.input[d], s.input[d]);
        EXPECT_LE(part.y_row + part.spec.output[d], s.output[d]);
      }
      EXPECT_EQ(next, (is_input ? s.input : s.output)[d]);
    }
}

TEST(Convolution, BitsDoNotDependOnTheThreads) {
  const int before = num_threads();
  assume_processors(8);
  for (const ConvolutionSpec& s : specs())
    for (const Sought sought : kAll) {
      std::vector<float> first;
      for (const int threads : {1, 3, 8}) {
        set_num_threads(threads);
        Tensors<float> t = tensors<float>(s);
        convolve(s, sought, t.data(sought, true));
        if (first.empty()) first = t.result(sought);
        EXPECT_EQ(first, t.result(sought)) << s.in << " " << threads;
      }
    }
  assume_processors(0);
  set_num_threads(before);
}

// Sums of these numbers have no error in f64, in any order.
TEST(Convolution, OfF64IsWithoutErrorWhereItsSumsAre) {
  for (const ConvolutionSpec& s : specs())
    for (const Sought sought : kAll)
      for (const bool bias : {false, true}) {
        Tensors<double> t = tensors<double>(s);
        std::ranges::fill(t.result(sought), std::nan(""));
        convolve(s, sought, t.data(sought, bias));
        ASSERT_EQ(t.result(sought), expected(s, sought, bias)) << text(s, sought);
      }
}

TEST(Convolution, BitsOfF64DoNotDependOnTheThreads) {
  constexpr int64_t kInexact = 31;
  for (const ConvolutionSpec& s : specs())
    for (const Sought sought : kAll) {
      std::vector<double> first;
      for (const int threads : {1, 3}) {
        const testing::Threads restored(threads);
        Tensors<double> t = tensors<double>(s, kInexact);
        convolve(s, sought, t.data(sought, true));
        if (first.empty()) first = t.result(sought);
        EXPECT_EQ(first, t.result(sought)) << text(s, sought) << " " << threads;
      }
    }
}

// A vector's elements, a long line that is cut in strips, one pixel, and windows outside of images.
TEST(Convolution, OfF64OfOddShapesIsThatOfTheLoops) {
  const ConvolutionSpec shapes[] = {
      spec(1, 4, 5, {1, 1, 20011}, {1, 1, 3}, {0, 0, 1}),
      spec(2, 3, 4, {1, 1, 5000}, {1, 1, 300}, {0, 0, 7}, {1, 1, 3}, {1, 1, 5}),
      spec(3, 16, 9, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}),
      spec(3, 9, 16, {1, 1, 1}, {1, 3, 3}, {0, 1, 1}),
      spec(1, 5, 4, {1, 2, 3}, {1, 2, 2}, {0, 6, 9}, {1, 3, 2}),
      spec(2, 20, 40, {1, 70, 70}, {1, 1, 1}, {0, 0, 0}),
      spec(2, 20, 40, {1, 30, 30}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {1, 2, 3}),
      in_groups(spec(2, 4, 4, {1, 17, 9}, {1, 5, 2}, {0, 4, 1}, {1, 1, 2}, {1, 3, 2}), 5, 3, 7)};
  for (const ConvolutionSpec& s : shapes)
    for (const Sought sought : kAll) {
      Tensors<double> t = tensors<double>(s);
      std::ranges::fill(t.result(sought), std::nan(""));
      convolve(s, sought, t.data(sought, true));
      ASSERT_EQ(t.result(sought), expected(s, sought, true)) << text(s, sought);
    }
}

/// Elements that are bf16's own.
Tensors<Bf16> halves(const ConvolutionSpec& s) {
  const auto rounded = [](const std::vector<float>& from) {
    std::vector<Bf16> to;
    for (const float x : from) to.push_back(store<Bf16>(x));
    return to;
  };
  const Tensors<float> t = tensors<float>(s);
  return {rounded(t.x), rounded(t.w), rounded(t.y), rounded(t.bias)};
}

std::vector<float> widened(const std::vector<Bf16>& from) {
  std::vector<float> to;
  for (const Bf16 x : from) to.push_back(load(x));
  return to;
}

/// Sums of f32, rounded once: where the processor has instructions for them or not.
TEST(Convolution, OfBf16IsThatOfItsNumbersRoundedOnce) {
  for (const ConvolutionSpec& s : specs())
    for (const Sought sought : kAll)
      for (const bool bias : {false, true}) {
        Tensors<Bf16> half = halves(s);
        Tensors<float> single{widened(half.x), widened(half.w), widened(half.y),
                              widened(half.bias)};
        convolve(s, sought, half.data(sought, bias));
        convolve(s, sought, single.data(sought, bias));
        const std::vector<float> got = widened(half.result(sought)), &want = single.result(sought);
        double most = 0;
        for (const float x : want) most = std::max<double>(most, std::abs(x));
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want[i], std::abs(want[i]) / 256 + 1e-5 * most)
              << s.in << " " << static_cast<int>(sought) << " " << bias << " " << i;
      }
}

TEST(Convolution, BitsOfBf16DoNotDependOnTheThreads) {
  for (const ConvolutionSpec& s : specs())
    for (const Sought sought : kAll) {
      std::vector<float> first;
      for (const int threads : {1, 3}) {
        const testing::Threads restored(threads);
        Tensors<Bf16> t = halves(s);
        convolve(s, sought, t.data(sought, true));
        if (first.empty()) first = widened(t.result(sought));
        EXPECT_EQ(first, widened(t.result(sought))) << s.in << " " << threads;
      }
    }
}

TEST(Convolution, OfNoImagesGivesZeroGradients) {
  ConvolutionSpec s = specs().front();
  s.images = 0;
  Tensors<Bf16> t = halves(s);
  convolve(s, Sought::Weight, t.data(Sought::Weight, false));
  for (const float x : widened(t.w)) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace tandem::machine
