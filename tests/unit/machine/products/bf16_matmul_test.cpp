#include "machine/library/bf16_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ir/half.h"
#include "tests/support/threads.h"

namespace tandem::machine {
namespace {

using Halves = std::vector<uint16_t>;

Halves random_halves(int64_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Halves v(static_cast<size_t>(count));
  for (uint16_t& x : v) x = ir::float_to_bf16(normal(random));
  return v;
}

double at(const Halves& v, int64_t i) { return ir::bf16_to_float(v[static_cast<size_t>(i)]); }

struct Operands {
  Halves a, b, c;
  explicit Operands(const DenseProduct& p)
      : a(random_halves(p.batch * p.m * p.k, 1)),
        b(random_halves(p.batch * p.k * p.n, 2)),
        c(random_halves(p.batch * p.m * p.n, 3)) {}
};

Halves run(const DenseProduct& p, const Operands& x) {
  Halves c = x.c;
  multiply_bf16(p, x.a.data(), x.b.data(), c.data());
  return c;
}

/// Sums in f32 differ from f64's by k roundings, the result by one to bf16.
void check(const DenseProduct& p) {
  SCOPED_TRACE(::testing::Message() << p.batch << " x " << p.m << " x " << p.n << " x " << p.k
                                    << " " << p.transposed_a << p.transposed_b << p.accumulate);
  const Operands x(p);
  const testing::Threads restored(1);
  const Halves c = run(p, x);
  for (int64_t q = 0; q < p.batch; ++q)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const int64_t place = (q * p.m + i) * p.n + j;
        double sum = p.accumulate ? at(x.c, place) : 0, size = std::abs(sum);
        for (int64_t l = 0; l < p.k; ++l) {
          const double term =
              at(x.a, q * p.m * p.k + (p.transposed_a ? l * p.m + i : i * p.k + l)) *
              at(x.b, q * p.k * p.n + (p.transposed_b ? j * p.k + l : l * p.n + j));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(at(c, place), sum, std::abs(sum) / 256 + size * 1e-5)
            << q << " " << i << " " << j;
      }
  for (const int threads : {2, 3}) {
    const testing::Threads more(threads);
    EXPECT_EQ(run(p, x), c) << threads << " threads";
  }
}

class Bf16Matmul : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_bf16_products()) GTEST_SKIP() << "this processor multiplies no bf16";
  }
};

TEST_F(Bf16Matmul, EveryTranspositionOfOddSizes) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true}) {
        check({.m = 37,
               .n = 53,
               .k = 29,
               .transposed_a = ta,
               .transposed_b = tb,
               .accumulate = accumulate});
        check({.batch = 5,
               .m = 17,
               .n = 19,
               .k = 33,
               .transposed_a = ta,
               .transposed_b = tb,
               .accumulate = accumulate});
        check({.m = 300,
               .n = 70,
               .k = 128,
               .transposed_a = ta,
               .transposed_b = tb,
               .accumulate = accumulate});
        check({.m = 33,
               .n = 700,
               .k = 257,
               .transposed_a = ta,
               .transposed_b = tb,
               .accumulate = accumulate});
      }
}

TEST_F(Bf16Matmul, Vectors) {
  check({.m = 1, .n = 65, .k = 40});
  check({.m = 65, .n = 1, .k = 40});
  check({.m = 1, .n = 1, .k = 1});
  check({.m = 65, .n = 33, .k = 1, .transposed_a = true});
}

TEST_F(Bf16Matmul, RowsAndColumnsOfParts) {
  for (int64_t m = 1; m <= 14; ++m)
    for (const int64_t n : {1, 4, 15, 16, 17, 63, 64, 67})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          check({.m = m, .n = n, .k = 30 + m, .transposed_a = ta, .transposed_b = tb});
}

TEST_F(Bf16Matmul, SumsOfSeveralParts) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const int64_t m : {2, 20})
          for (const int64_t k : {1023, 1024, 1025, 2050, 9001})
            check({.m = m,
                   .n = 35,
                   .k = k,
                   .transposed_a = ta,
                   .transposed_b = tb,
                   .accumulate = accumulate});
}

// What is not there is never multiplied: neighbours in memory may be anything.
TEST_F(Bf16Matmul, SpecialNumbersStayInTheirRowsAndColumns) {
  const uint16_t nan = ir::float_to_bf16(std::numeric_limits<float>::quiet_NaN());
  for (const int64_t m : {3, 29})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const DenseProduct p{.m = m, .n = 21, .k = 7, .transposed_a = ta, .transposed_b = tb};
        const Operands usual(p);
        Operands x = usual;
        const int64_t row = 1, column = 20;
        x.a[static_cast<size_t>(ta ? 6 * m + row : row * 7 + 6)] = nan;
        x.b[static_cast<size_t>(tb ? column * 7 : column)] = nan;
        const Halves c = run(p, x), expected = run(p, usual);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < 21; ++j) {
            const int64_t place = i * 21 + j;
            if (i == row || j == column)
              EXPECT_TRUE(std::isnan(at(c, place))) << i << " " << j;
            else
              EXPECT_EQ(at(c, place), at(expected, place)) << i << " " << j;
          }
      }
}

TEST_F(Bf16Matmul, NothingToSum) {
  const DenseProduct p{.m = 2, .n = 3, .k = 0};
  EXPECT_EQ(run(p, Operands(p)), Halves(6, 0));
  const DenseProduct kept{.m = 2, .n = 3, .k = 0, .accumulate = true};
  EXPECT_EQ(run(kept, Operands(kept)), Operands(kept).c);
}

}  // namespace
}  // namespace tandem::machine
