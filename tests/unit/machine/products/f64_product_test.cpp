// Products by BLAS against sums that have no error, and their bits on any number of threads.
#include "machine/linalg/f64_product.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/threads.h"

namespace tandem::machine {
namespace {

/// Whole numbers over `denominator`.
std::vector<double> numbers(int64_t count, int64_t seed, double denominator) {
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<double>((i * 37 + seed * 11) % 101 - 50) / denominator);
  return out;
}

struct Operands {
  std::vector<double> a, b, c;
  Operands(const DenseProduct& p, double denominator)
      : a(numbers(p.batch * p.m * p.k, 1, denominator)),
        b(numbers(p.batch * p.k * p.n, 2, denominator)),
        c(numbers(p.batch * p.m * p.n, 3, denominator)) {}
};

std::vector<double> run(const DenseProduct& p, const Operands& x) {
  std::vector<double> c = x.c;
  multiply_f64(p, x.a.data(), x.b.data(), c.data());
  return c;
}

double at(const std::vector<double>& v, int64_t i) { return v[static_cast<size_t>(i)]; }

void check(const DenseProduct& p) {
  SCOPED_TRACE(::testing::Message() << p.batch << " x " << p.m << " x " << p.n << " x " << p.k
                                    << " " << p.transposed_a << p.transposed_b << p.accumulate);
  const Operands x(p, 32);
  const std::vector<double> c = run(p, x);
  for (int64_t q = 0; q < p.batch; ++q)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const int64_t place = (q * p.m + i) * p.n + j;
        double sum = p.accumulate ? at(x.c, place) : 0;
        for (int64_t l = 0; l < p.k; ++l)
          sum += at(x.a, q * p.m * p.k + (p.transposed_a ? l * p.m + i : i * p.k + l)) *
                 at(x.b, q * p.k * p.n + (p.transposed_b ? j * p.k + l : l * p.n + j));
        ASSERT_EQ(at(c, place), sum) << q << " " << i << " " << j;
      }
}

TEST(F64Product, EveryTranspositionOfOddSizes) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (DenseProduct p :
             {DenseProduct{.m = 37, .n = 53, .k = 29},
              DenseProduct{.batch = 3, .m = 17, .n = 19, .k = 33},
              DenseProduct{.m = 401, .n = 70, .k = 40}, DenseProduct{.m = 33, .n = 1601, .k = 35},
              DenseProduct{.batch = 2, .m = 390, .n = 771, .k = 3}}) {
          p.transposed_a = ta, p.transposed_b = tb, p.accumulate = accumulate;
          check(p);
        }
  check({.m = 1, .n = 65, .k = 40});
  check({.m = 65, .n = 1, .k = 40});
}

TEST(F64Product, BitsDoNotDependOnTheThreads) {
  const DenseProduct p{.batch = 2, .m = 500, .n = 900, .k = 77, .transposed_b = true};
  const Operands x(p, 31);
  std::vector<double> first;
  for (const int threads : {1, 2, 3}) {
    const testing::Threads restored(threads);
    if (first.empty()) first = run(p, x);
    EXPECT_EQ(run(p, x), first) << threads;
  }
}

TEST(F64Product, IsLargeWhereBothFactorsAreReadOften) {
  EXPECT_TRUE(is_large_f64_product(1024, 1024, 1024));
  EXPECT_FALSE(is_large_f64_product(256, 256, 256));
  EXPECT_FALSE(is_large_f64_product(1, 4096, 4096));
  EXPECT_FALSE(is_large_f64_product(4096, 4096, 1));
  EXPECT_FALSE(is_large_f64_product(int64_t{1} << 31, 1024, 1024));
}

}  // namespace
}  // namespace tandem::machine
