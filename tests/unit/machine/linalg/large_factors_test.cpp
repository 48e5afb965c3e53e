// Factors of large matrices: what they are the factors of, what they refuse, and that their bits
// do not depend on the threads.
#include "machine/linalg/large_factors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/threads.h"

namespace tandem::machine::matrices {
namespace {

using tandem::testing::Threads;

template <class T>
std::vector<T> random_matrix(int64_t m, int64_t n) {
  std::mt19937 random(static_cast<uint32_t>(m * 1000 + n));
  std::normal_distribution<T> normal;
  std::vector<T> out(static_cast<size_t>(m * n));
  for (T& v : out) v = normal(random);
  return out;
}

/// Symmetric, with a diagonal that makes it positive definite.
template <class T>
std::vector<T> definite_matrix(int64_t n) {
  std::vector<T> a = random_matrix<T>(n, n);
  for (int64_t c = 0; c < n; ++c)
    for (int64_t r = 0; r <= c; ++r)
      a[static_cast<size_t>(c * n + r)] =
          r == c ? static_cast<T>(2 * n) : a[static_cast<size_t>(r * n + c)];
  return a;
}

/// The largest difference of a product [m, n] of factors(row, k), (k, column) and what it should
/// be.
template <class Left, class Right, class Whole>
double residual(int64_t m, int64_t n, int64_t k, Left left, Right right, Whole whole) {
  double most = 0;
  for (int64_t r = 0; r < m; r += 7)
    for (int64_t c = 0; c < n; c += 5) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += double(left(r, i)) * double(right(i, c));
      most = std::max(most, std::abs(sum - double(whole(r, c))));
    }
  return most;
}

template <class T>
class LargeFactors : public ::testing::Test {
 protected:
  static constexpr double kRounding = std::numeric_limits<T>::epsilon();
};
using Elements = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LargeFactors, Elements);

TYPED_TEST(LargeFactors, CholeskyGivesTheMatrixBack) {
  for (const int64_t n : {1, 63, 255, 256, 300, 517, 700}) {
    const auto a = definite_matrix<TypeParam>(n);
    const auto at = [n](const auto& x, int64_t r, int64_t c) {
      return x[static_cast<size_t>(c * n + r)];
    };
    std::vector<TypeParam> first;
    for (const int threads : {1, 3, 8}) {
      const Threads some(threads);
      auto u = a;
      const lapack::Call call;
      ASSERT_EQ(factor_large_cholesky(n, u.data()), 0);
      for (int64_t c = 0; c < n; ++c)  // below the diagonal there is anything
        std::fill(u.begin() + c * n + c + 1, u.begin() + (c + 1) * n, TypeParam(0));
      if (first.empty()) first = u;
      EXPECT_EQ(u, first) << n << " " << threads;
    }
    const double far = residual(
        n, n, n, [&](int64_t r, int64_t k) { return at(first, k, r); },
        [&](int64_t k, int64_t c) { return at(first, k, c); },
        [&](int64_t r, int64_t c) { return at(a, std::min(r, c), std::max(r, c)); });
    EXPECT_LE(far, 20 * this->kRounding * static_cast<double>(2 * n)) << n;
  }
}

TYPED_TEST(LargeFactors, CholeskySaysWhichMinorIsNotPositive) {
  for (const int64_t n : {100, 400})
    for (const int64_t bad : {0, 63, 64, 65, 99})
      for (const TypeParam value : {TypeParam(-1), std::numeric_limits<TypeParam>::quiet_NaN()}) {
        auto a = definite_matrix<TypeParam>(n);
        a[static_cast<size_t>(bad * n + bad)] = value;
        const lapack::Call call;
        EXPECT_EQ(factor_large_cholesky(n, a.data()), bad + 1) << n << " " << value;
      }
}

TYPED_TEST(LargeFactors, LuGivesTheMatrixBack) {
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {255, 255}, {256, 256}, {300, 300}, {517, 517}, {300, 701}, {701, 300}}) {
    const auto a = random_matrix<TypeParam>(m, n);
    const int64_t k = std::min(m, n);
    std::vector<TypeParam> lu;
    std::vector<int> pivots;
    for (const int threads : {1, 3, 8}) {
      const Threads some(threads);
      auto factors = a;
      std::vector<int> exchanged(static_cast<size_t>(k));
      const lapack::Call call;
      ASSERT_EQ(factor_large_lu(m, n, factors.data(), exchanged.data()), 0);
      if (lu.empty()) lu = factors, pivots = exchanged;
      EXPECT_EQ(factors, lu) << m << " " << n << " " << threads;
      EXPECT_EQ(exchanged, pivots);
    }
    std::vector<int64_t> rows(static_cast<size_t>(m));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    for (size_t i = 0; i < pivots.size(); ++i)
      std::swap(rows[i], rows[static_cast<size_t>(pivots[i] - 1)]);
    const int64_t height = m;
    const auto at = [height](const auto& x, int64_t r, int64_t c) {
      return x[static_cast<size_t>(c * height + r)];
    };
    for (int64_t c = 0; c < k; ++c)
      for (int64_t r = c + 1; r < m; ++r) ASSERT_LE(std::abs(at(lu, r, c)), 1);
    const double far = residual(
        m, n, k,
        [&](int64_t r, int64_t i) {
          return r == i ? TypeParam(1) : r > i ? at(lu, r, i) : TypeParam(0);
        },
        [&](int64_t i, int64_t c) { return i <= c ? at(lu, i, c) : TypeParam(0); },
        [&](int64_t r, int64_t c) { return at(a, rows[static_cast<size_t>(r)], c); });
    EXPECT_LE(far, 100 * this->kRounding * static_cast<double>(k)) << m << " " << n;
  }
}

TYPED_TEST(LargeFactors, LuSaysWhereTheFirstZeroIs) {
  constexpr int64_t kN = 300;
  for (const int64_t zero : {0, 70, 299}) {
    auto a = random_matrix<TypeParam>(kN, kN);
    std::fill_n(a.begin() + zero * kN, kN, TypeParam(0));
    std::vector<int> pivots(kN);
    const lapack::Call call;
    EXPECT_EQ(factor_large_lu(kN, kN, a.data(), pivots.data()), zero + 1);
    EXPECT_TRUE(std::ranges::all_of(pivots, [](int p) { return p >= 1 && p <= kN; }));
  }
}

TYPED_TEST(LargeFactors, TrianglesAreSolvedForAnyRightSides) {
  for (const auto& [m, n] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 300}, {63, 100}, {129, 257}, {1000, 200}})
    for (const bool upper : {false, true}) {
      auto a = random_matrix<TypeParam>(n, n);
      for (int64_t i = 0; i < n; ++i)
        a[static_cast<size_t>(i * n + i)] = static_cast<TypeParam>(2 * n);
      const auto b = random_matrix<TypeParam>(m, n);
      std::vector<TypeParam> x;
      for (const int threads : {1, 3, 8}) {
        const Threads some(threads);
        auto solved = b;
        const lapack::Call call;
        solve_triangle<TypeParam>({a.data(), n, upper, false, false}, m, n, solved.data());
        if (x.empty()) x = solved;
        EXPECT_EQ(solved, x) << m << " " << n << " " << threads;
      }
      const int64_t rows = m, size = n;
      const double far = residual(
          m, n, n, [&](int64_t r, int64_t k) { return x[static_cast<size_t>(k * rows + r)]; },
          [&](int64_t k, int64_t c) {
            const bool is_read = upper ? k <= c : k >= c;
            return is_read ? a[static_cast<size_t>(c * size + k)] : TypeParam(0);
          },
          [&](int64_t r, int64_t c) { return b[static_cast<size_t>(c * rows + r)]; });
      EXPECT_LE(far, 100 * this->kRounding) << m << " " << n;
    }
}

}  // namespace
}  // namespace tandem::machine::matrices
