// Gradients of signals whose windows are far apart, with each instruction set, against the loops in
// f64.
#include "machine/windows/signals/phased_gradient.h"

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

ConvolutionSpec signal(int64_t images, int64_t in, int64_t out, int64_t size, int64_t kernel,
                       int64_t stride, int64_t padding) {
  return spec(images, in, out, {1, 1, size}, {1, 1, kernel}, {0, 0, padding}, {1, 1, 1},
              {1, 1, stride});
}

/// Short ones and such as are cut into pieces; padding may be wider than windows.
ConvolutionSpec random_spec(std::mt19937& random) {
  const auto up_to = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (;;) {
    const int64_t stride = up_to(1, 3) == 1 ? up_to(17, 70) : up_to(1, 16),
                  kernel = stride * up_to(1, 4),
                  size = up_to(1, 3) == 1 ? up_to(1000, 9000) : up_to(1, 300);
    const ConvolutionSpec s = signal(up_to(1, 3), up_to(1, 3) == 1 ? up_to(1, 9) : 1, up_to(1, 20),
                                     size, kernel, stride, up_to(0, kernel + 1));
    if (product(s.output) > 0 && flops(s) < 4e6) return s;
  }
}

/// What is sought is not to be read.
void phased(const SlideKernels& kernels, const ConvolutionSpec& s, bool has_bias,
            Tensors<float>& t) {
  ASSERT_TRUE(has_phases(s));
  std::ranges::fill(t.x, std::numeric_limits<float>::quiet_NaN());
  sum_in_phases(kernels, s, t.data(Sought::Input, has_bias));
}

class PhasedGradient : public OfSlideKernels {
 protected:
  static auto run() {
    return [](const ConvolutionSpec& s, Sought, bool has_bias, Tensors<float>& t) {
      phased(GetParam().kernels, s, has_bias, t);
    };
  }
};

TEST_P(PhasedGradient, IsNearTheLoops) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const ConvolutionSpec s = random_spec(random);
    Tensors<float> t = tensors<float>(s);
    phased(GetParam().kernels, s, i % 2 == 0, t);
    expect_near(s, Sought::Input, i % 2 == 0, t);
  }
}

TEST_P(PhasedGradient, BitsDependOnNoOtherImageAndNoThread) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    ConvolutionSpec s = random_spec(random);
    s.images = 9;
    expect_bits_of_one_image(s, Sought::Input, run());
  }
  // Of more floats than are merged at once.
  expect_bits_of_one_image(signal(5, 2, 3, 90000, 16, 8, 4), Sought::Input, run());
}

TEST_P(PhasedGradient, KeepsNaNToItsWindow) {
  const ConvolutionSpec s = signal(2, 2, 3, 120, 15, 5, 4);
  const int64_t made = s.output[2];
  for (int64_t place = 0; place < made; ++place) {
    Tensors<float> t = tensors<float>(s);
    t.y[static_cast<size_t>(4 * made + place)] = std::numeric_limits<float>::infinity();
    phased(GetParam().kernels, s, false, t);
    for (int64_t i = 0; i < std::ssize(t.x); ++i) {
      const int64_t tap = i % 120 + 4 - 5 * place;
      const bool met = i >= 2 * 120 && tap >= 0 && tap < 15;
      ASSERT_EQ(std::isfinite(t.x[static_cast<size_t>(i)]), !met) << place << " at " << i;
    }
  }
}

TEST(Phased, IsOfLongSignalsAndStridesOfFewChannels) {
  if (slide_kernels() == nullptr) GTEST_SKIP() << "needs AVX2";
  const auto pays = [](const ConvolutionSpec& s) { return is_phased(s, Sought::Input); };
  EXPECT_TRUE(pays(signal(8, 1, 64, 262144, 1024, 512, 512)) &&
              pays(signal(1, 1, 64, 1000000, 256, 64, 128)) &&
              pays(signal(1, 1, 4, 65536, 512, 128, 256)) &&
              pays(signal(2, 16, 32, 65536, 4, 2, 1)));
  EXPECT_FALSE(pays(signal(1, 1, 64, 65536, 16, 8, 4)) || pays(signal(2, 64, 64, 65536, 4, 2, 1)) ||
               pays(signal(2, 16, 32, 512, 4, 2, 1)) || pays(signal(1, 1, 64, 4096, 1024, 512, 0)));
  EXPECT_FALSE(is_phased(signal(8, 1, 64, 262144, 1024, 512, 512), Sought::Output));
  EXPECT_FALSE(has_phases(signal(1, 2, 3, 300, 10, 4, 0)) ||
               has_phases(spec(1, 2, 3, {1, 2, 300}, {1, 2, 8}, {0, 0, 0}, {1, 1, 1}, {1, 1, 4})) ||
               has_phases(in_groups(signal(1, 1, 1, 300, 8, 4, 0), 2, 1, 1)));
}

INSTANTIATE_TEST_SUITE_P(Isa, PhasedGradient, ::testing::ValuesIn(kIsas),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::machine
