// For tests of convolutions: tensors of numbers that any dtype holds exactly, specs, what the loops
// make of them, and the instruction sets of sliding windows.
#ifndef TANDEM_TESTS_UNIT_MACHINE_CONVOLUTION_TENSORS_H
#define TANDEM_TESTS_UNIT_MACHINE_CONVOLUTION_TENSORS_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "machine/cpu.h"
#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"
#include "tests/support/threads.h"

namespace tandem::machine {

template <class T>
struct Tensors {
  std::vector<T> x, w, y, bias;

  ConvolutionData<T> data(Sought sought, bool has_bias) {
    return {x.data(), w.data(), y.data(),
            has_bias && sought != Sought::Weight ? bias.data() : nullptr};
  }
  std::vector<T>& result(Sought sought) {
    return sought == Sought::Output ? y : sought == Sought::Input ? x : w;
  }
};

/// Numbers are whole ones over this.
inline constexpr int64_t kDenominator = 32;

template <class T>
std::vector<T> numbers(int64_t n, int64_t seed, int64_t denominator = kDenominator) {
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(static_cast<T>((i * 37 + seed * 11) % 101 - 50) / static_cast<T>(denominator));
  return out;
}

template <class T>
Tensors<T> tensors(const ConvolutionSpec& s, int64_t denominator = kDenominator) {
  return {numbers<T>(s.images * s.in * product(s.input), 1, denominator),
          numbers<T>(s.out * (s.in / s.groups) * product(s.kernel), 2, denominator),
          numbers<T>(s.images * s.out * product(s.output), 3, denominator),
          numbers<T>(std::max(s.in, s.out), 4, denominator)};
}

inline int64_t made(const ConvolutionSpec& s, size_t d) {
  const int64_t beyond = s.input[d] + 2 * s.padding[d] - (s.kernel[d] - 1) * s.dilation[d] - 1;
  return beyond < 0 ? 0 : beyond / s.stride[d] + 1;
}

inline ConvolutionSpec spec(int64_t images, int64_t in, int64_t out, Extents input, Extents kernel,
                            Extents padding, Extents dilation = {1, 1, 1},
                            Extents stride = {1, 1, 1}) {
  ConvolutionSpec s{.images = images,
                    .in = in,
                    .out = out,
                    .input = input,
                    .kernel = kernel,
                    .stride = stride,
                    .padding = padding,
                    .dilation = dilation};
  s.output = {made(s, 0), made(s, 1), made(s, 2)};
  return s;
}

/// The same in groups of `in` channels, which make `out`.
inline ConvolutionSpec in_groups(ConvolutionSpec s, int64_t groups, int64_t in, int64_t out) {
  s.groups = groups, s.in = groups * in, s.out = groups * out;
  return s;
}

/// Without an error: what the loops make of whole numbers.
inline std::vector<double> expected(const ConvolutionSpec& s, Sought sought, bool has_bias) {
  Tensors<int64_t> t = tensors<int64_t>(s, 1);
  for (int64_t& bias : t.bias) bias *= kDenominator;
  convolve(s, sought, t.data(sought, has_bias));
  std::vector<double> out;
  for (const int64_t x : t.result(sought))
    out.push_back(static_cast<double>(x) / (kDenominator * kDenominator));
  return out;
}

inline std::string text(const ConvolutionSpec& s, Sought sought) {
  std::string out = sought == Sought::Output  ? "output"
                    : sought == Sought::Input ? "input"
                                              : "weight";
  for (const int64_t n : {s.images, s.groups, s.in, s.out}) out += " " + std::to_string(n);
  for (const Extents& e : {s.input, s.kernel, s.stride, s.padding, s.dilation})
    for (const int64_t n : e) out += " " + std::to_string(n);
  return out;
}

/// The loops', and not far from it.
inline void expect_near(const ConvolutionSpec& s, Sought sought, bool has_bias, Tensors<float>& t) {
  const std::vector<double> want = expected(s, sought, has_bias);
  double most = 0;
  for (const double x : want) most = std::max(most, std::abs(x));
  for (size_t j = 0; j < want.size(); ++j)
    ASSERT_NEAR(t.result(sought)[j], want[j], 1e-6 + 1e-5 * most) << text(s, sought) << " at " << j;
}

inline constexpr Sought kBoth[] = {Sought::Output, Sought::Input};
inline constexpr Sought kAll[] = {Sought::Output, Sought::Input, Sought::Weight};

struct Isa {
  const char* name;
  const SlideKernels& kernels;
  bool (*here)();
};
inline const Isa kIsas[] = {
    {"Avx2", kSlideAvx2, [] { return cpu_features().avx2 && cpu_features().fma; }},
    {"Avx512", kSlideAvx512, [] { return cpu_features().avx512; }}};

class OfSlideKernels : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!GetParam().here()) GTEST_SKIP() << "the processor lacks it";
  }
};

/// run(spec, sought, has bias, tensors). An image's bits are those it has alone, on any number of
/// threads.
template <class Run>
void expect_bits_of_one_image(const ConvolutionSpec& s, Sought sought, Run run) {
  Tensors<float> whole = tensors<float>(s);
  {
    const testing::Threads restored(3);
    run(s, sought, true, whole);
  }
  ConvolutionSpec one = s;
  one.images = 1;
  Tensors<float> alone = tensors<float>(one);
  const testing::Threads restored(1);
  run(one, sought, true, alone);
  const std::vector<float>&a = alone.result(sought), &b = whole.result(sought);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin())) << text(s, sought);
}

/// What one thread and three make, with the same bits, of a weight's gradient.
template <class Run>
std::vector<float> weights_on_any_threads(const ConvolutionSpec& s, Run run) {
  Tensors<float> one = tensors<float>(s), three = one;
  {
    const testing::Threads restored(1);
    run(s, Sought::Weight, false, one);
  }
  const testing::Threads restored(3);
  run(s, Sought::Weight, false, three);
  EXPECT_EQ(one.w, three.w) << text(s, Sought::Weight);
  return one.w;
}

}  // namespace tandem::machine

#endif  // TANDEM_TESTS_UNIT_MACHINE_CONVOLUTION_TENSORS_H
