// Products with matrices of i8: every way that operands lie, every kernel, any number of threads.
#include "machine/products/int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/forked.h"
#include "tests/support/threads.h"

namespace tandem::machine {
namespace {

using ir::BufferView;
using ir::DType;

/// A matrix whose rows, or columns, lie `gap` elements more than dense apart, right up to its last
/// element. The rest is `between`.
template <class T>
struct Matrix {
  Matrix(int64_t rows, int64_t columns, bool transposed, int64_t gap, T between)
      : rows(rows), columns(columns), stride((transposed ? rows : columns) + gap) {
    const int64_t lines = transposed ? columns : rows, length = transposed ? rows : columns;
    const int64_t count = lines * length == 0 ? 0 : (lines - 1) * stride + length;
    data.assign(static_cast<size_t>(count), between);
    row = transposed ? 1 : stride;
    column = transposed ? stride : 1;
  }
  T& at(int64_t i, int64_t j) { return data[static_cast<size_t>(i * row + j * column)]; }
  template <class F>
  Matrix&& filled(F number) && {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) at(i, j) = number();
    return std::move(*this);
  }
  BufferView view(DType dtype) { return {data.data(), dtype, {rows, columns}, {row, column}}; }

  int64_t rows, columns, stride, row = 0, column = 0;
  std::vector<T> data;
};

class Int8Products : public ::testing::Test {
 protected:
  /// The least is frequent.
  int8_t byte() { return random() % 3 == 0 ? int8_t{-128} : static_cast<int8_t>(random()); }
  template <class T>
  T number() {
    return std::normal_distribution<T>()(random);
  }

  template <class T>
  std::vector<T> weigh(Matrix<T>& x, Matrix<int8_t>& w, std::vector<T>& scales, DType dtype) {
    std::vector<T> out(static_cast<size_t>(x.rows * w.rows), std::numeric_limits<T>::quiet_NaN());
    multiply_weight(x.view(dtype), w.view(DType::I8), {scales.data(), dtype, {w.rows}, {1}},
                    {out.data(), dtype, {x.rows, w.rows}, {w.rows, 1}});
    return out;
  }

  template <class T>
  void check_weight(int64_t m, int64_t n, int64_t k, int64_t gap, DType dtype, double epsilon) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " gap " << gap);
    auto x = Matrix<T>(m, k, false, gap, std::numeric_limits<T>::quiet_NaN()).filled([&] {
      return number<T>();
    });
    auto w = Matrix<int8_t>(n, k, false, gap, 99).filled([&] { return byte(); });
    std::vector<T> scales(static_cast<size_t>(n));
    for (T& s : scales) s = number<T>();
    const std::vector<T> out = weigh(x, w, scales, dtype);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += double{x.at(i, l)} * w.at(j, l);
          size += std::abs(double{x.at(i, l)} * w.at(j, l));
        }
        const double scale = scales[static_cast<size_t>(j)];
        ASSERT_NEAR(out[static_cast<size_t>(i * n + j)], sum * scale,
                    epsilon * size * std::abs(scale))
            << i << ", " << j;
      }
  }

  std::vector<int32_t> multiply(Matrix<int8_t>& a, Matrix<int8_t>& b) {
    std::vector<int32_t> out(static_cast<size_t>(a.rows * b.columns), -7);
    multiply_integers(a.view(DType::I8), b.view(DType::I8),
                      {out.data(), DType::I32, {a.rows, b.columns}, {b.columns, 1}});
    return out;
  }

  void check_integers(int64_t m, int64_t n, int64_t k, bool a_columns, bool b_columns,
                      int64_t gap) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " in columns "
                                      << a_columns << b_columns << " gap " << gap);
    auto a = Matrix<int8_t>(m, k, a_columns, gap, 99).filled([&] { return byte(); });
    auto b = Matrix<int8_t>(k, n, b_columns, gap, 99).filled([&] { return byte(); });
    const std::vector<int32_t> out = multiply(a, b);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += int64_t{a.at(i, l)} * b.at(l, j);
        ASSERT_EQ(out[static_cast<size_t>(i * n + j)], sum) << i << ", " << j;
      }
  }

  std::mt19937 random{5};
};

constexpr int64_t kWidths[] = {1, 2, 3, 5, 16, 17, 65};
constexpr int64_t kDepths[] = {0, 1, 7, 15, 16, 17, 33, 257, 515};

TEST_F(Int8Products, WeightsOfEverySize) {
  for (const int64_t m : {0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 23})
    for (const int64_t n : kWidths)
      for (const int64_t k : kDepths)
        for (const int64_t gap : {0, 3}) {
          check_weight<float>(m, n, k, gap, DType::F32, 1e-6);
          if (m < 4) check_weight<double>(m, n, k, gap, DType::F64, 1e-14);
        }
  check_weight<float>(300, 130, 40, 1, DType::F32, 1e-6);  // more than a block of rows
}

TEST_F(Int8Products, IntegersOfEverySizeAndLayout) {
  for (const int64_t m : {0, 1, 2, 3, 4, 5, 6, 7, 13})
    for (const int64_t n : kWidths)
      for (const int64_t k : kDepths)
        for (const int layout : {0, 1, 2, 3})
          check_integers(m, n, k, layout % 2 != 0, layout / 2 != 0, m % 2 * 3);
  check_integers(270, 40, 30, false, true, 0);
}

// 2^14 products of the largest magnitude are 2^28; what saturates in between shows.
TEST_F(Int8Products, TheLeastIntegersAreExact) {
  for (const int64_t m : {1, 9}) {
    auto a = Matrix<int8_t>(m, 16384, false, 0, 0).filled([] { return int8_t{-128}; });
    auto b = Matrix<int8_t>(16384, 5, true, 0, 0).filled([] { return int8_t{-128}; });
    for (const int32_t sum : multiply(a, b)) EXPECT_EQ(sum, 1 << 28);
  }
}

TEST_F(Int8Products, SumsWrap) {
  for (const int64_t m : {1, 9}) {
    auto a = Matrix<int8_t>(m, 140000, false, 0, 0).filled([] { return int8_t{-128}; });
    auto b = Matrix<int8_t>(140000, 3, true, 0, 0).filled([] { return int8_t{-128}; });
    for (const int32_t sum : multiply(a, b))
      EXPECT_EQ(sum, static_cast<int32_t>(static_cast<uint32_t>(140000u << 14)));
  }
}

TEST_F(Int8Products, NotANumberStaysInItsRow) {
  for (const int64_t m : {3, 20}) {
    auto x = Matrix<float>(m, 37, false, 0, 0).filled([] { return 1.0f; });
    auto w = Matrix<int8_t>(5, 37, false, 0, 0).filled([&] { return byte(); });
    w.at(2, 36) = 0;
    x.at(1, 36) = std::numeric_limits<float>::infinity();
    std::vector<float> scales(5, 1.0f);
    const std::vector<float> out = weigh(x, w, scales, DType::F32);
    EXPECT_TRUE(std::isnan(out[5 + 2]));  // infinity times 0
    for (int64_t i = 0; i < m; ++i)
      EXPECT_EQ(std::isfinite(out[static_cast<size_t>(i * 5 + 2)]), i != 1);
  }
}

TEST_F(Int8Products, BitsDependOnSizesAlone) {
  for (const int64_t m : {1, 6, 40}) {
    auto x = Matrix<float>(m, 300, false, 0, 0).filled([&] { return number<float>(); });
    auto w = Matrix<int8_t>(500, 300, false, 0, 0).filled([&] { return byte(); });
    auto gapped_x = Matrix<float>(m, 300, false, 5, 0), x_copy = x;
    auto gapped_w = Matrix<int8_t>(500, 300, false, 7, 0), w_copy = w;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < 300; ++l) gapped_x.at(i, l) = x_copy.at(i, l);
    for (int64_t j = 0; j < 500; ++j)
      for (int64_t l = 0; l < 300; ++l) gapped_w.at(j, l) = w_copy.at(j, l);
    std::vector<float> scales(500, 0.3f);
    const testing::Threads restored(1);
    const std::vector<float> alone = weigh(x, w, scales, DType::F32);
    for (const int threads : {2, 5, 8}) {
      testing::Threads::set(threads);
      EXPECT_EQ(weigh(gapped_x, gapped_w, scales, DType::F32), alone);
    }
  }
}

TEST_F(Int8Products, IntegersDoNotDependOnThreadsOrStrides) {
  for (const int64_t m : {1, 12, 70}) {
    auto a = Matrix<int8_t>(m, 300, false, 0, 0).filled([&] { return byte(); });
    auto b = Matrix<int8_t>(300, 500, true, 0, 0).filled([&] { return byte(); });
    auto rows_of_b = Matrix<int8_t>(300, 500, false, 7, 0);
    for (int64_t l = 0; l < 300; ++l)
      for (int64_t j = 0; j < 500; ++j) rows_of_b.at(l, j) = b.at(l, j);
    const testing::Threads restored(1);
    const std::vector<int32_t> alone = multiply(a, b);
    for (const int threads : {2, 5, 8}) {
      testing::Threads::set(threads);
      EXPECT_EQ(multiply(a, b), alone);
      EXPECT_EQ(multiply(a, rows_of_b), alone);
    }
  }
}

#if !defined(__SANITIZE_THREAD__)  // its runtime does not follow threads that start after a fork
// (Tiles are configured for each product.)
TEST_F(Int8Products, AForkedProcessComputesTheSame) {
  auto a = Matrix<int8_t>(40, 200, false, 0, 0).filled([&] { return byte(); });
  auto b = Matrix<int8_t>(200, 90, false, 0, 0).filled([&] { return byte(); });
  const std::vector<int32_t> expected = multiply(a, b);
  EXPECT_EQ(testing::status_in_child([&] { return multiply(a, b) == expected; }), 0);
}
#endif

}  // namespace
}  // namespace tandem::machine
