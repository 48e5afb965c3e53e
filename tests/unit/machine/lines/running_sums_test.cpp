// Running sums: near those step by step, and the same bits however lines lie and whoever sums them.
#include "machine/lines/sums/running_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "machine/element.h"
#include "machine/lines/lines.h"
#include "tests/support/threads.h"
#include "tests/unit/machine/instruction_sets.h"

namespace tandem::machine::lines {
namespace {

using ir::BufferView;
using ir::DType;
using tandem::testing::Threads;

template <class T>
std::vector<T> random_numbers(int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::normal_distribution<double> normal;
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i)
    if constexpr (std::is_integral_v<T>)
      out.push_back(static_cast<T>(random()));
    else
      out.push_back(store<T>(static_cast<Compute<T>>(normal(random))));
  return out;
}

/// Where lines' elements are in memory of their own.
struct Layout {
  const char* name;
  int64_t lines, size, from_line_to_line, stride, begin = 0;

  int64_t elements() const {
    return (lines - 1) * std::abs(from_line_to_line) + (size - 1) * std::abs(stride) + 1;
  }
  size_t at(int64_t line, int64_t k) const {
    return static_cast<size_t>(begin + line * from_line_to_line + k * stride);
  }
};

std::vector<Layout> layouts(int64_t lines, int64_t n) {
  return {{"contiguous", lines, n, n, 1},
          {"side by side", lines, n, 1, lines},
          {"side by side with gaps", lines, n, 1, lines + 3},
          {"with gaps", lines, n, 2 * n, 2},
          {"turned round", lines, n, n, -1, n - 1},
          {"far from each other", lines, n, n + 5, 1}};
}

/// The sums of lines that hold `x` one after the other, laid out so, and then one after the other.
template <class T>
std::vector<T> sums(DType dtype, const std::vector<T>& x, const Layout& in, const Layout& out) {
  std::vector<T> from(static_cast<size_t>(in.elements())), to(static_cast<size_t>(out.elements()));
  for (int64_t l = 0; l < in.lines; ++l)
    for (int64_t k = 0; k < in.size; ++k)
      from[in.at(l, k)] = x[static_cast<size_t>(l * in.size + k)];
  const auto view = [&](std::vector<T>& data, const Layout& lies) {
    return BufferView{data.data() + lies.begin,
                      dtype,
                      {lies.lines, lies.size},
                      {lies.from_line_to_line, lies.stride}};
  };
  const BufferView operand = view(from, in);
  const int64_t dim = 1;
  cumsum({&operand, 1}, {&dim, 1}, view(to, out));
  std::vector<T> result;
  for (int64_t l = 0; l < out.lines; ++l)
    for (int64_t k = 0; k < out.size; ++k) result.push_back(to[out.at(l, k)]);
  return result;
}

template <class T>
bool have_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void check_layouts(DType dtype, int64_t lines, int64_t n) {
  SCOPED_TRACE(std::string(ir::name(dtype)) + " " + std::to_string(lines) + " x " +
               std::to_string(n));
  const std::vector<T> x = random_numbers<T>(lines * n);
  const std::vector<Layout> all = layouts(lines, n);
  const std::vector<T> expected = sums(dtype, x, all[0], all[0]);
  for (const int threads : {1, 2, 7}) {
    const Threads some(threads);
    for (const Layout& in : all)
      for (const Layout* out : {&all[0], &in})
        EXPECT_TRUE(have_same_bits(sums(dtype, x, in, *out), expected))
            << in.name << " to " << out->name << ", " << threads << " threads";
  }
}

void check_all_types(int64_t lines, int64_t n) {
  check_layouts<float>(DType::F32, lines, n);
  check_layouts<double>(DType::F64, lines, n);
  check_layouts<Bf16>(DType::BF16, lines, n);
  check_layouts<F16>(DType::F16, lines, n);
  check_layouts<int64_t>(DType::I64, lines, n);
  check_layouts<int8_t>(DType::I8, lines, n);
}

TEST(RunningSums, HaveTheSameBitsInAnyLayoutAndOnAnyThreads) {
  for (const auto& [lines, n] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {16, 129}, {40, 333}, {1, 4096}, {2, 4097}, {1, 30011}, {3, 12289}, {33, 8200}})
    check_all_types(lines, n);
}

TEST(RunningSums, OfShortLinesToo) {
  for (const int64_t lines : {3, 35})
    for (int64_t n = 1; n <= 2 * kGroup + 1; ++n) check_all_types(lines, n);
}

/// Along the middle of three dims, of which the last lies side by side, with gaps after rows.
template <class T>
void check_middle(DType dtype, int64_t outer, int64_t n, int64_t inner, int64_t gap) {
  SCOPED_TRACE(std::string(ir::name(dtype)) + " " + std::to_string(n) + " x " +
               std::to_string(inner) + " + " + std::to_string(gap));
  const int64_t row = inner + gap;
  std::vector<T> x = random_numbers<T>(outer * n * row), lines, expected = x;
  for (int64_t l = 0; l < outer * inner; ++l)
    for (int64_t k = 0; k < n; ++k)
      lines.push_back(x[static_cast<size_t>((l / inner * n + k) * row + l % inner)]);
  const Layout together = layouts(outer * inner, n)[0];
  lines = sums(dtype, lines, together, together);
  for (int64_t l = 0; l < outer * inner; ++l)
    for (int64_t k = 0; k < n; ++k)
      expected[static_cast<size_t>((l / inner * n + k) * row + l % inner)] =
          lines[static_cast<size_t>(l * n + k)];
  for (const int threads : {1, 3}) {
    const Threads some(threads);
    std::vector<T> found = x;
    const BufferView both{found.data(), dtype, {outer, n, inner}, {n * row, row, 1}};
    const int64_t dim = 1;
    cumsum({&both, 1}, {&dim, 1}, both);
    EXPECT_TRUE(have_same_bits(found, expected)) << threads << " threads";
  }
}

TEST(RunningSums, AlongTheMiddleOfThreeDims) {
  for (const int64_t inner : {1, 5, 13, 16, 17, 33, 100})
    for (const int64_t n : {3, 50, 300})
      for (const int64_t gap : {0, 2}) {
        check_middle<float>(DType::F32, 7, n, inner, gap);
        check_middle<double>(DType::F64, 7, n, inner, gap);
        check_middle<Bf16>(DType::BF16, 7, n, inner, gap);
        check_middle<int64_t>(DType::I64, 7, n, inner, gap);
        check_middle<int8_t>(DType::I8, 7, n, inner, gap);
      }
  check_middle<float>(DType::F32, 2, 9001, 18, 1);
}

TEST(RunningSums, AreNearThoseStepByStep) {
  constexpr int64_t kN = 50021;
  const std::vector<double> x = random_numbers<double>(kN);
  const Layout line = layouts(1, kN)[0];
  const std::vector<double> found = sums(DType::F64, x, line, line);
  long double sum = 0, magnitudes = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    sum += x[k], magnitudes += std::abs(x[k]);
    ASSERT_NEAR(found[k], static_cast<double>(sum), 1e-14 * static_cast<double>(magnitudes)) << k;
  }
}

TEST(RunningSums, OfPositiveNumbersNeverFall) {
  constexpr int64_t kN = 50021;
  std::vector<double> x = random_numbers<double>(kN);
  for (double& v : x) v = std::abs(v) * (v > 0 ? 1 : 1e-17);
  const Layout line = layouts(1, kN)[0];
  EXPECT_TRUE(std::ranges::is_sorted(sums(DType::F64, x, line, line)));
}

// Nothing before an element is touched by it, within its group, chunk or line.
TEST(RunningSums, KeepNaNAndInfinitiesToWhatFollows) {
  constexpr int64_t kN = 4200;
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t lines : {1, 16})
    for (const int64_t at : {0, 3, 8, 77, 4095, 4096, 4199})
      for (const float odd : {std::numeric_limits<float>::quiet_NaN(), inf, -inf})
        for (const Layout& lies : layouts(lines, kN)) {
          std::vector<float> x(static_cast<size_t>(lines * kN), 1.0F);
          x[static_cast<size_t>(at)] = odd;
          const std::vector<float> found = sums(DType::F32, x, lies, lies);
          for (int64_t i = 0; i < lines * kN; ++i) {
            const float got = found[static_cast<size_t>(i)];
            if (i < at || i >= kN)
              ASSERT_EQ(got, static_cast<float>(i % kN + 1)) << lies.name << " " << at << " " << i;
            else
              ASSERT_TRUE(odd != odd ? got != got : got == odd) << lies.name << " " << at;
          }
        }
}

TEST(RunningSums, OfEveryInstructionSetAreTheSame) {
  constexpr int64_t kN = 1003;
  const std::vector<float> x = random_numbers<float>(kN * kSideBySide);
  std::vector<float> first_run, first_lines, first_runs;
  for (const RunningSumKernels* k :
       those_that_run(kRunningSumsBase, kRunningSumsAvx2, kRunningSumsAvx512)) {
    std::vector<float> run(kN), lines(x.size());
    const double local = k->f32.of_run(x.data(), kN, 0.25, 0.5, run.data());
    EXPECT_EQ(local, k->f32.of_run(x.data(), kN, 0.25, 0.5, nullptr));
    std::vector<double> carry(kSideBySide, 0.25), locals(kSideBySide, 0.5);
    k->f32.of_lines(x.data(), kSideBySide, kN, carry.data(), locals.data(), lines.data(),
                    kSideBySide);
    std::vector<float> runs(x.size());
    k->f32.of_runs(x.data(), kN, kSideBySide, kN, runs.data(), kN);
    if (first_run.empty()) first_run = run, first_lines = lines, first_runs = runs;
    EXPECT_TRUE(have_same_bits(run, first_run) && have_same_bits(lines, first_lines) &&
                have_same_bits(runs, first_runs));
  }
}

TEST(RunningSums, MayReplaceWhatTheySum) {
  for (const int64_t n : {100, 20000}) {
    std::vector<float> x = random_numbers<float>(n);
    const Layout line = layouts(1, n)[0];
    const std::vector<float> expected = sums(DType::F32, x, line, line);
    const BufferView both{x.data(), DType::F32, {n}, {1}};
    const int64_t dim = 0;
    const Threads four(4);
    cumsum({&both, 1}, {&dim, 1}, both);
    EXPECT_TRUE(have_same_bits(x, expected));
  }
}

}  // namespace
}  // namespace tandem::machine::lines
