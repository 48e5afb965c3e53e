// Measures the inline math against libm in the next larger type: f32 on a sample of all bit
// patterns, f64 on random ones. Prints the largest error of each function and asserts the bound of
// math_functions(); checks special values and that the bits do not depend on the vector width.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "tests/unit/jit/math_check.h"

namespace tandem::jit {
namespace {

constexpr uint64_t kStride = 4099;

struct Samples32 {
  std::vector<float> x, y;
};

// Every kStride-th f32 bit pattern and the special values; for two operands all pairs of specials
// and random pairs.
Samples32 samples32(int arity) {
  Samples32 s;
  const std::vector<float> special = specials<float>();
  if (arity == 1) {
    s.x = special;
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStride)
      s.x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  } else {
    for (const float a : special) {
      for (const float b : special) s.x.push_back(a), s.y.push_back(b);
    }
    std::mt19937 random(1);
    for (int i = 0; i < 400000; ++i) {
      const bool any = i % 4 == 0;
      s.x.push_back(any ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                        : std::exp2(static_cast<float>(random()) * 0x1p-28f - 8));
      s.y.push_back(any ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                        : static_cast<float>(random()) * 0x1p-27f - 16);
    }
  }
  pad(s.x, 1.0f);
  s.y.resize(s.x.size(), 1.0f);
  return s;
}

struct Samples64 {
  std::vector<double> x, y;
};

Samples64 samples64(int arity) {
  Samples64 s;
  const std::vector<double> special = specials<double>();
  std::mt19937_64 random(2);
  const auto wide = [&] { return std::bit_cast<double>(random()); };
  const auto usual = [&] {
    const double size = std::exp2(static_cast<double>(random()) * 0x1p-64 * 24 - 12);
    return random() % 2 ? size : -size;
  };
  for (const double a : special) {
    if (arity == 1) s.x.push_back(a);
    for (size_t j = 0; arity == 2 && j < special.size(); ++j)
      s.x.push_back(a), s.y.push_back(special[j]);
  }
  for (int i = 0; i < 60000; ++i) {
    s.x.push_back(i % 8 ? usual() : wide());
    s.y.resize(s.x.size() - 1, 1.0);
    s.y.push_back(i % 8 ? usual() : wide());
    if (arity == 2 && i % 2) s.x.back() = std::abs(s.x.back());
  }
  pad(s.x, 1.0);
  s.y.resize(s.x.size(), 1.0);
  return s;
}

template <typename T, typename Exact, typename Samples>
void check_accuracy(const Code& loops, MathFn fn, const Samples& s, double bound) {
  const std::vector<T> out = run(loops, fn, s.x, s.y);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double error = ulp_error(out[i], reference<Exact>(fn, s.x[i], s.y[i]));
    if (!(error <= worst)) worst = error, at = i;
    if (worst == INFINITY) break;
  }
  std::printf("  %-8s %s %8.3f ulp (bound %.1f) at %a, %a: %a\n",
              math_functions()[static_cast<size_t>(fn)].name.data(), sizeof(T) == 4 ? "f32" : "f64",
              worst, bound, static_cast<double>(s.x[at]), static_cast<double>(s.y[at]),
              static_cast<double>(out[at]));
  EXPECT_LE(worst, bound) << math_functions()[static_cast<size_t>(fn)].name;
}

class Math : public testing::TestWithParam<size_t> {
 protected:
  MathFn fn() const { return static_cast<MathFn>(GetParam()); }
  const MathInfo& info() const { return math_functions()[GetParam()]; }
};

TEST_P(Math, F32IsWithinItsBound) {
  check_accuracy<float, double>(code(true, 16), fn(), samples32(info().arity), info().f32_ulp);
}

TEST_P(Math, F64IsWithinItsBound) {
  check_accuracy<double, long double>(code(false, 8), fn(), samples64(info().arity),
                                      info().f64_ulp);
}

// Without FMA the exact steps are emulated and the polynomials round once more for each term.
TEST_P(Math, CpuWithoutFmaIsNearlyAsGood) {
  check_accuracy<float, double>(code(true, 4, true), fn(), samples32(info().arity),
                                info().f32_ulp + 0.5);
  check_accuracy<double, long double>(code(false, 2, true), fn(), samples64(info().arity),
                                      info().f64_ulp + 0.5);
}

template <typename T, typename Samples>
void check_widths(MathFn fn, const Samples& s, std::initializer_list<unsigned> widths) {
  const std::vector<T> first = run(code(sizeof(T) == 4, *widths.begin()), fn, s.x, s.y);
  for (const unsigned lanes : widths) {
    const std::vector<T> other = run(code(sizeof(T) == 4, lanes), fn, s.x, s.y);
    size_t different = 0;
    for (size_t i = 0; i < other.size(); ++i) different += !same(first[i], other[i]);
    EXPECT_EQ(different, 0u) << math_functions()[static_cast<size_t>(fn)].name << " with " << lanes
                             << " lanes";
  }
}

TEST_P(Math, BitsDoNotDependOnTheVectorWidth) {
  check_widths<float>(fn(), samples32(info().arity), {16, 1, 4, 8, 64});
  check_widths<double>(fn(), samples64(info().arity), {8, 1, 2, 4});
}

INSTANTIATE_TEST_SUITE_P(All, Math, testing::Range(size_t{0}, math_functions().size()),
                         [](const auto& info) {
                           return std::string(math_functions()[info.param].name);
                         });

// What a kernel may assume of sin(cos(x)) changes no bit.
TEST_P(Math, KnownRangeGivesTheSameBits) {
  if (info().arity != 1) return;
  Samples32 s;
  const uint32_t one = std::bit_cast<uint32_t>(1.0f);
  for (uint32_t bits = 0; bits <= one; bits += 997)
    s.x.push_back(std::bit_cast<float>(bits)), s.x.push_back(-s.x.back());
  s.x.insert(s.x.end(), {1, -1, std::nextafter(1.0f, 0.0f), NAN});
  pad(s.x, 1.0f);
  s.y.resize(s.x.size());
  const auto general = run(code(true, 16), fn(), s.x, s.y);
  const auto known = run(code(true, 16, false, Domain::Unit), fn(), s.x, s.y);
  size_t different = 0;
  for (size_t i = 0; i < general.size(); ++i) different += !same(general[i], known[i]);
  EXPECT_EQ(different, 0u);
}

// Large arguments, where the reduction must know 2/pi to a thousand bits.
TEST(MathLarge, SineOfHugeArguments) {
  std::mt19937_64 random(3);
  std::vector<double> x;
  for (int i = 0; i < 4096; ++i)
    x.push_back(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 950) - 40));
  x[0] = 0x1.6ac5b262ca1ffp+849;  // the double nearest to a multiple of pi/2
  const auto out = run(code(false, 8), MathFn::cos, x, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulp_error(out[i], std::cos(static_cast<long double>(x[i]))));
  EXPECT_LE(worst, 2.5);
}

}  // namespace
}  // namespace tandem::jit
