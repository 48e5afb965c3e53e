#include "machine/products/f64/f64_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/machine/instruction_sets.h"

namespace tandem::machine::products {
namespace {

std::vector<AddF64Product*> all_of_this_processor() {
  return those_that_run<AddF64Product>(add_product<double>, add_product_avx2, add_product_avx512);
}

std::vector<double> numbers(int64_t count, double seed) {
  std::vector<double> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::sin(1.7 * static_cast<double>(i) + seed);
  return out;
}

/// C has a guard behind it, which stays.
void check(AddF64Product* add, int64_t m, int64_t n, int64_t k) {
  const std::vector<double> a = numbers(m * k, 1), b = numbers(k * n, 2),
                            before = numbers(m * n + 8, 3);
  std::vector<double> c = before;
  add({m, n, k, a.data(), b.data(), c.data()});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const auto place = static_cast<size_t>(i * n + j);
      double sum = before[place];
      for (int64_t l = 0; l < k; ++l)
        sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
      ASSERT_NEAR(c[place], sum, 1e-13 * static_cast<double>(k + 1)) << i << ", " << j;
    }
  for (auto i = static_cast<size_t>(m * n); i < c.size(); ++i) EXPECT_EQ(c[i], before[i]);
}

TEST(F64Rows, OfEveryWidthAndHeight) {
  for (AddF64Product* add : all_of_this_processor())
    for (int64_t m = 0; m < 15; ++m)
      for (int64_t n = 0; n < 70; ++n)
        for (const int64_t k : {0, 1, 5}) {
          SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
          check(add, m, n, k);
        }
}

TEST(F64Rows, OfLongSums) {
  for (AddF64Product* add : all_of_this_processor()) check(add, 9, 37, 1000);
}

}  // namespace
}  // namespace tandem::machine::products
