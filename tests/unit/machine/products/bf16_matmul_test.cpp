#include "machine/library/bf16_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
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

TEST_F(Bf16Matmul, NothingToSum) {
  const DenseProduct p{.m = 2, .n = 3, .k = 0};
  EXPECT_EQ(run(p, Operands(p)), Halves(6, 0));
  const DenseProduct kept{.m = 2, .n = 3, .k = 0, .accumulate = true};
  EXPECT_EQ(run(kept, Operands(kept)), Operands(kept).c);
}

}  // namespace
}  // namespace tandem::machine
