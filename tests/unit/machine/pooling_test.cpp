// Maxima of windows and their places, against plain loops: of every kind of window, with NaN,
// equals and -0.
#include "machine/windows/pooling/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/unit/machine/instruction_sets.h"

namespace tandem::machine {
namespace {

/// The places in the input that window `i` of dimension `d` shows.
std::vector<int64_t> shown(const WindowSpec& s, size_t d, int64_t i) {
  std::vector<int64_t> out;
  if (s.window[d] == 0) {
    for (int64_t p = 0; p < s.input[d]; ++p)
      if ((p + 1) * s.output[d] > i * s.input[d] && p * s.output[d] < (i + 1) * s.input[d])
        out.push_back(p);
    return out;
  }
  for (int64_t k = 0; k < s.window[d]; ++k)
    if (const int64_t p = i * s.stride[d] - s.padding[d] + k * s.dilation[d];
        p >= 0 && p < s.input[d])
      out.push_back(p);
  return out;
}

template <class T>
int64_t largest(const WindowSpec& s, const Extents& at, const T* x) {
  int64_t best = -1;
  for (const int64_t p : shown(s, 0, at[0]))
    for (const int64_t q : shown(s, 1, at[1]))
      for (const int64_t r : shown(s, 2, at[2])) {
        const int64_t here = (p * s.input[1] + q) * s.input[2] + r;
        if (best < 0 || x[here] > x[best] || x[here] != x[here]) best = here;
      }
  return best;
}

template <class T>
std::vector<int64_t> maxima_by_loops(const WindowSpec& s, const std::vector<T>& x) {
  const int64_t pixels = s.input[0] * s.input[1] * s.input[2];
  std::vector<int64_t> out;
  for (int64_t plane = 0; plane < s.planes; ++plane)
    for (int64_t i = 0; i < s.output[0]; ++i)
      for (int64_t j = 0; j < s.output[1]; ++j)
        for (int64_t k = 0; k < s.output[2]; ++k)
          out.push_back(largest(s, {i, j, k}, x.data() + plane * pixels));
  return out;
}

/// The elements at `places` of their planes.
template <class T>
std::vector<T> chosen(const WindowSpec& s, const std::vector<T>& x,
                      const std::vector<int64_t>& places) {
  const int64_t pixels = product(s.input), windows = product(s.output);
  std::vector<T> out;
  for (const int64_t place : places) out.push_back(x[std::ssize(out) / windows * pixels + place]);
  return out;
}

template <class T>
bool same_bits(const std::vector<T>& p, const std::vector<T>& q) {
  return std::memcmp(p.data(), q.data(), p.size() * sizeof(T)) == 0;
}

/// Few different numbers, so that many are equal; some NaN among every other one's.
template <class T>
std::vector<T> elements(int64_t n, std::mt19937& random) {
  const bool has_nan = random() % 2 == 0;
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i) {
    const int number = static_cast<int>(random() % 9) - 4;
    out.push_back(static_cast<T>(number));
    if constexpr (std::is_floating_point_v<T>) {
      if (number == 0 && random() % 2 == 0) out.back() = -T(0);
      if (has_nan && random() % 40 == 0) out.back() = std::numeric_limits<T>::quiet_NaN();
      if (random() % 20 == 0) out.back() = -std::numeric_limits<T>::infinity();
    }
  }
  return out;
}

/// Windows of which none is empty: small ones, long ones, and such as show a dim as a whole.
WindowSpec random_windows(std::mt19937& random) {
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  WindowSpec s{.planes = draw(1, 3)};
  const bool adaptive = draw(0, 4) == 0;
  for (size_t d = 0; d < 3; ++d) {
    s.window[d] = adaptive ? 0 : draw(1, draw(0, 2) > 0 ? 3 : d == 2 ? 40 : 5);
    s.dilation[d] = adaptive ? 1 : draw(1, 2);
    s.stride[d] = draw(1, 3);
    s.padding[d] = adaptive ? 0 : draw(0, s.window[d] / 2);
    const int64_t span = (s.window[d] - 1) * s.dilation[d] + 1;
    const bool whole = draw(0, 2) == 0;
    s.input[d] = whole && span > 0 ? span : std::max(span, draw(1, d == 2 ? 70 : 7));
    s.output[d] = adaptive ? draw(1, whole ? 1 : 9)
                           : (s.input[d] + 2 * s.padding[d] - span) / s.stride[d] + 1;
  }
  return s;
}

template <class T>
void expect_maxima(const WindowSpec& s, std::mt19937& random) {
  const auto x = elements<T>(s.planes * s.input[0] * s.input[1] * s.input[2], random);
  const std::vector<int64_t> expected = maxima_by_loops(s, x);
  for (const MaximaKernels* kernels : those_that_run(kMaximaBase, kMaximaAvx2, kMaximaAvx512)) {
    std::vector<int64_t> found(expected.size(), -1);
    std::vector<T> values(expected.size());
    find_maxima<T>(s, x.data(), {values.data(), found.data()}, *kernels);
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(same_bits(values, chosen(s, x, expected)));
    std::vector<T> alone(expected.size());
    find_maxima<T>(s, x.data(), {alone.data(), nullptr}, *kernels);
    EXPECT_TRUE(same_bits(alone, values));
    std::vector<int64_t> places(expected.size(), -1);
    find_maxima<T>(s, x.data(), {nullptr, places.data()}, *kernels);
    EXPECT_EQ(places, expected);
  }
}

TEST(Pooling, MaximaOfAnyWindows) {
  std::mt19937 random(1);
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE(i);
    const WindowSpec s = random_windows(random);
    expect_maxima<float>(s, random);
    expect_maxima<double>(s, random);
    expect_maxima<int64_t>(s, random);
  }
}

/// As random_windows, of planes that are cut into bands.
WindowSpec random_windows_of_large_planes(std::mt19937& random) {
  WindowSpec s = random_windows(random);
  s.planes = 2;
  for (const size_t d : {1, 2}) {
    s.input[d] = std::uniform_int_distribution<int64_t>(300, 400)(random);
    const int64_t span = (s.window[d] - 1) * s.dilation[d] + 1;
    s.output[d] = s.window[d] == 0 ? 150 : (s.input[d] + 2 * s.padding[d] - span) / s.stride[d] + 1;
  }
  return s;
}

TEST(Pooling, MaximaOfLargePlanes) {
  std::mt19937 random(2);
  for (int i = 0; i < 12; ++i) {
    SCOPED_TRACE(i);
    expect_maxima<float>(random_windows_of_large_planes(random), random);
  }
}

TEST(Pooling, SumsOfLargePlanes) {
  std::mt19937 random(3);
  for (int i = 0; i < 12; ++i) {
    WindowSpec s = random_windows_of_large_planes(random);
    s.dilation = {1, 1, 1};  // averages have none
    const auto x = elements<int64_t>(s.planes * s.input[0] * s.input[1] * s.input[2], random);
    const int64_t rows = s.output[0] * s.output[1], windows = rows * s.output[2];
    std::vector<int64_t> y(static_cast<size_t>(s.planes * windows));
    sum_windows<int64_t>(s, x.data(), y.data());
    const int64_t pixels = s.input[0] * s.input[1] * s.input[2];
    for (int64_t w = 0; w < s.planes * windows; w += 7) {
      const int64_t i0 = w % windows / s.output[2];
      uint64_t sum = 0;
      for (const int64_t p : shown(s, 0, i0 / s.output[1]))
        for (const int64_t q : shown(s, 1, i0 % s.output[1]))
          for (const int64_t r : shown(s, 2, w % s.output[2]))
            sum += static_cast<uint64_t>(x[static_cast<size_t>(
                w / windows * pixels + (p * s.input[1] + q) * s.input[2] + r)]);
      ASSERT_EQ(static_cast<uint64_t>(y[static_cast<size_t>(w)]), sum) << i << " " << w;
    }
  }
}

}  // namespace
}  // namespace tandem::machine
