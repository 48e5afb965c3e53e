// Factors of small matrices by loops of ours: that they are factors, and that they say of matrices
// without any what the library says.
#include "machine/linalg/small_factors.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace tandem::machine::matrices {
namespace {

template <class T>
class SmallFactors : public ::testing::Test {
 protected:
  std::vector<T> random_numbers(int64_t n) {
    std::vector<T> out(static_cast<size_t>(n));
    for (T& x : out) x = static_cast<T>(normal_(random_));
    return out;
  }
  /// Of rounding.
  static double tolerance() { return 200.0 * std::numeric_limits<T>::epsilon(); }

 private:
  std::mt19937 random_{3};
  std::normal_distribution<double> normal_;
};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SmallFactors, Floats);

/// The element of L U.
template <class T>
double product_of(const Matrix<T>& lu, int64_t r, int64_t c) {
  double sum = r <= c ? double{lu(r, c)} : 0;
  for (int64_t i = 0; i < std::min({r, c + 1, lu.rows}); ++i)
    sum += double{lu(r, i)} * double{lu(i, c)};
  return sum;
}

TYPED_TEST(SmallFactors, OfAnySidesMakeTheMatrix) {
  using T = TypeParam;
  for (int64_t m = 1; m <= kSmall; ++m)
    for (int64_t n = 1; n <= kSmall; ++n) {
      std::vector<T> a = this->random_numbers(m * n), lu = a;
      std::vector<int> pivots(static_cast<size_t>(std::min(m, n)));
      const Matrix<T> expected = row_major(a.data(), m, n), factors = row_major(lu.data(), m, n);
      ASSERT_EQ(factor_small_lu(factors, pivots.data()), 0);
      for (int64_t p = 0; p < std::min(m, n); ++p) {
        const int64_t other = pivots[static_cast<size_t>(p)] - 1;
        ASSERT_TRUE(other >= p && other < m);
        if (other != p) std::swap_ranges(&expected(p, 0), &expected(p, 0) + n, &expected(other, 0));
      }
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c) {
          ASSERT_TRUE(r <= c || std::abs(factors(r, c)) <= 1);
          ASSERT_NEAR(product_of(factors, r, c), expected(r, c), this->tolerance())
              << m << " " << n;
        }
    }
}

TYPED_TEST(SmallFactors, SayWhatTheLibrarySaysOfSingularMatrices) {
  using T = TypeParam;
  const lapack::Call call;
  for (int64_t n = 1; n <= kSmall; ++n)
    for (int64_t zero = 0; zero < n; ++zero) {  // a column
      std::vector<T> a = this->random_numbers(n * n);
      for (int64_t r = 0; r < n; ++r) a[static_cast<size_t>(r * n + zero)] = 0;
      std::vector<T> turned(a.size());
      copy(row_major(a.data(), n, n), column_major(turned.data(), n, n));
      std::vector<int> pivots(static_cast<size_t>(n)), expected = pivots;
      EXPECT_EQ(factor_small_lu(row_major(a.data(), n, n), pivots.data()),
                lapack::getrf(n, n, turned.data(), n, expected.data()));
      EXPECT_EQ(pivots, expected);
    }
}

TYPED_TEST(SmallFactors, OfPositiveMatricesAreRoots) {
  using T = TypeParam;
  for (int64_t n = 1; n <= kSmall; ++n) {
    std::vector<T> root = this->random_numbers(n * n),
                   memory(static_cast<size_t>(n * n), std::numeric_limits<T>::quiet_NaN());
    const Matrix<T> l = row_major(root.data(), n, n), a = row_major(memory.data(), n, n);
    for (int64_t r = 0; r < n; ++r) l(r, r) = 1 + std::abs(l(r, r));
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c <= r; ++c) {
        a(r, c) = 0;
        for (int64_t i = 0; i <= c; ++i) a(r, c) += l(r, i) * l(c, i);
      }
    std::vector<T> made = memory;
    ASSERT_EQ(factor_small_cholesky(row_major(made.data(), n, n)), 0);
    const Matrix<T> x = row_major(made.data(), n, n);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c <= r; ++c) {
        double sum = 0;
        for (int64_t i = 0; i <= c; ++i) sum += double{x(r, i)} * double{x(c, i)};
        ASSERT_NEAR(sum, a(r, c), 10 * this->tolerance()) << n;
      }
      for (int64_t c = r + 1; c < n; ++c)
        ASSERT_TRUE(std::isnan(x(r, c)));  // neither read nor written
    }
    for (const T bad : {T(-1), T(0), std::numeric_limits<T>::quiet_NaN()}) {
      made = memory;
      made[static_cast<size_t>((n / 2) * (n + 1))] = bad;
      EXPECT_EQ(factor_small_cholesky(row_major(made.data(), n, n)), n / 2 + 1);
    }
  }
}

/// Of one column and several, whichever triangle, however it lies.
TYPED_TEST(SmallFactors, SolveTriangles) {
  using T = TypeParam;
  for (int64_t n = 1; n <= kSmall; ++n)
    for (const int64_t k : {1, 2, 7, 16})
      for (int kind = 0; kind < 8; ++kind) {
        const bool upper = kind % 2 == 1, unit = kind / 2 % 2 == 1, turned = kind / 4 == 1;
        std::vector<T> memory = this->random_numbers(n * n), b = this->random_numbers(n * k), x = b;
        for (T& element : memory) element /= static_cast<T>(n);
        Matrix<T> a = row_major(memory.data(), n, n);
        if (turned) a = a.transposed();
        for (int64_t r = 0; r < n; ++r) {
          a(r, r) = unit ? std::numeric_limits<T>::quiet_NaN() : 2 + std::abs(a(r, r));
          for (int64_t c = 0; c < n; ++c)
            if (c != r && (c > r) != upper) a(r, c) = std::numeric_limits<T>::quiet_NaN();
        }
        const Matrix<const T> read{a.first, n, n, a.row_step, a.column_step};
        solve_small_triangle(read, upper, unit, x.data(), k);
        for (int64_t r = 0; r < n; ++r)
          for (int64_t j = 0; j < k; ++j) {
            const auto at = [&](int64_t c) { return double{x[static_cast<size_t>(c * k + j)]}; };
            double sum = (unit ? 1.0 : double{a(r, r)}) * at(r);
            for (int64_t c = upper ? r + 1 : 0; c < (upper ? n : r); ++c)
              sum += double{a(r, c)} * at(c);
            ASSERT_NEAR(sum, b[static_cast<size_t>(r * k + j)], this->tolerance()) << n << " " << k;
          }
      }
}

}  // namespace
}  // namespace tandem::machine::matrices
