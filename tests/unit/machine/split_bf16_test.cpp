// Products of f32 in parts of bf16, called as they are: matmul_test.cpp checks who gets them.
#include "machine/products/split_bf16.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "machine/cpu.h"
#include "tests/support/threads.h"

namespace tandem::machine::products {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Floats that end at a page which nobody may touch, and begin behind another one if they fill
/// pages.
class Guarded {
 public:
  explicit Guarded(int64_t count) : count_(count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    const size_t inside = (bytes + page - 1) / page * page;
    bytes_ = inside + 2 * page;
    memory_ =
        static_cast<char*>(mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + page, inside, PROT_READ | PROT_WRITE);
    data_ = reinterpret_cast<float*>(memory_ + page + inside - bytes);
    std::fill_n(data_, count, kNaN);
  }
  ~Guarded() { munmap(memory_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  float* data() const { return data_; }
  int64_t size() const { return count_; }

 private:
  int64_t count_;
  size_t bytes_;
  char* memory_;
  float* data_;
};

/// A [rows, columns] matrix whose rows, or columns, lie `gap` more than dense apart, with NaN in
/// between.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, bool transposed, int64_t gap,
         const std::function<float()>& number)
      : stride((transposed ? rows : columns) + gap),
        transposed(transposed),
        memory(((transposed ? columns : rows) - 1) * stride + (transposed ? rows : columns)) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) at(i, j) = number();
  }
  float& at(int64_t i, int64_t j) const {
    return memory.data()[transposed ? j * stride + i : i * stride + j];
  }
  Operand operand() const { return {memory.data(), stride, transposed}; }

  int64_t stride;
  bool transposed;
  Guarded memory;
};

struct Case {
  int64_t m, n, k;
  int parts;
  bool a_transposed = false, b_transposed = false;
  enum class Start { None, C, Bias } start = Start::None;
  int64_t gap = 0;
};

constexpr Case::Start kStarts[] = {Case::Start::None, Case::Start::C, Case::Start::Bias};

/// A random product, and what it should be.
class SplitProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().amx_bf16) GTEST_SKIP() << "needs AMX";
  }

  std::mt19937 random{7};
  std::function<float()> normal = [this] { return std::normal_distribution<float>()(random); };

  /// Elements of A B and of |A| |B|, in f64.
  struct Sums {
    double sum, magnitudes;
  };
  static Sums sums(const Matrix& a, const Matrix& b, int64_t i, int64_t j, int64_t k) {
    Sums s{};
    for (int64_t l = 0; l < k; ++l) {
      const double x = double{a.at(i, l)} * double{b.at(l, j)};
      s.sum += x, s.magnitudes += std::abs(x);
    }
    return s;
  }

  static double bound(int parts, int64_t k) {
    return (parts == 3 ? 0x1p-21 : 0x1p-15) + static_cast<double>(k) * 0x1p-24;
  }

  void check(const Case& x) {
    SCOPED_TRACE(::testing::Message()
                 << x.m << " x " << x.n << " x " << x.k << " transposed " << x.a_transposed
                 << x.b_transposed << " start " << static_cast<int>(x.start) << " gap " << x.gap);
    const Matrix a(x.m, x.k, x.a_transposed, x.gap, normal),
        b(x.k, x.n, x.b_transposed, x.gap, normal), c(x.m, x.n, false, x.gap, normal),
        bias(1, x.n, false, 0, normal);
    const std::vector<float> before(c.memory.data(), c.memory.data() + c.memory.size());
    const bool adds = x.start == Case::Start::C, has_bias = x.start == Case::Start::Bias;
    multiply_split({x.m, x.n, x.k, a.operand(), b.operand(), c.memory.data(), c.stride, adds,
                    has_bias ? bias.memory.data() : nullptr},
                   x.parts, SplitMemory(x.m, x.k, x.parts));
    for (int64_t i = 0; i < x.m; ++i)
      for (int64_t j = 0; j < x.n; ++j) {
        const float old = before[static_cast<size_t>(i * c.stride + j)];
        const double start = adds ? old : has_bias ? bias.at(0, j) : 0.0f;
        const Sums s = sums(a, b, i, j, x.k);
        ASSERT_NEAR(c.at(i, j), start + s.sum,
                    bound(x.parts, x.k) * (s.magnitudes + std::abs(start)))
            << i << ", " << j;
        c.at(i, j) = old;
      }
    // Between its rows nothing was written.
    EXPECT_EQ(std::memcmp(c.memory.data(), before.data(), before.size() * sizeof(float)), 0);
  }

  static std::vector<float> product(const Matrix& a, const Matrix& b, int64_t m, int64_t n,
                                    int64_t k, int parts) {
    std::vector<float> c(static_cast<size_t>(m * n));
    multiply_split({m, n, k, a.operand(), b.operand(), c.data(), n, false}, parts,
                   SplitMemory(m, k, parts));
    return c;
  }

  /// Of random normal numbers, relative to the results: the root of the mean of squares.
  double error(int64_t m, int64_t n, int64_t k, int parts) {
    const Matrix a(m, k, false, 0, normal), b(k, n, false, 0, normal);
    const std::vector<float> c = product(a, b, m, n, k, parts);
    double errors = 0, squares = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double sum = sums(a, b, i, j, k).sum;
        const double error = c[static_cast<size_t>(i * n + j)] - sum;
        errors += error * error, squares += sum * sum;
      }
    return std::sqrt(errors / squares);
  }
};

TEST_F(SplitProducts, OfOddSizesInEveryLayout) {
  int64_t count = 0;
  for (const int64_t m : {1, 16, 31, 33, 70})
    for (const int64_t n : {1, 17, 32, 65})
      for (const int64_t k : {1, 15, 32, 49})
        for (int layout = 0; layout < 4; ++layout, ++count)
          check({m, n, k, count % 2 == 0 ? 3 : 2, layout % 2 == 1, layout / 2 == 1,
                 kStarts[count % 3], count % 4});
}

TEST_F(SplitProducts, OfSeveralBlocksAndPartsOfK) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{290, 70, 1100}, {65, 515, 513}, {4130, 40, 33}, {40, 4130, 520}})
    for (int layout = 0; layout < 4; ++layout)
      check(
          {m, n, k, 2 + layout / 2, layout % 2 == 1, layout % 3 == 1, kStarts[layout % 3], layout});
}

TEST_F(SplitProducts, AreAsExactAsTheySay) {
  for (const int64_t k : {32, 512, 3000}) {
    EXPECT_LT(error(64, 64, k, 3), 3e-7) << k;
    EXPECT_LT(error(64, 64, k, 2), 5e-6) << k;
  }
}

/// Numbers of few bits are parts themselves.
TEST_F(SplitProducts, OfSmallIntegersAreExact) {
  const auto integer = [this] { return static_cast<float>(random() % 401) - 200; };
  const Matrix a(50, 100, false, 0, integer), b(100, 40, true, 0, integer);
  const std::vector<float> c = product(a, b, 50, 40, 100, 3);
  for (int64_t i = 0; i < 50; ++i)
    for (int64_t j = 0; j < 40; ++j)
      ASSERT_EQ(c[static_cast<size_t>(i * 40 + j)], sums(a, b, i, j, 100).sum) << i << ", " << j;
}

/// Whether they add up to infinities, to numbers or to zeros is as f32 products have it.
TEST_F(SplitProducts, OfLargeAndSmallNumbers) {
  const int64_t m = 40, n = 50, k = 70;
  for (const float scale : {1e38f, 1e25f, 1e18f, 1e-17f, 1e-20f, 1e-30f, 1e-38f, 1e-42f})
    for (const float other : {1e30f, 1e-18f, 1.0f, 1e18f, 1e-30f})
      for (const int parts : {2, 3}) {
        SCOPED_TRACE(::testing::Message() << scale << " times " << other << " parts " << parts);
        const Matrix a(m, k, false, 0, [&] { return normal() * scale; }),
            b(k, n, false, 0, [&] { return normal() * other; });
        const std::vector<float> c = product(a, b, m, n, k, parts);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            const Sums s = sums(a, b, i, j, k);
            const float got = c[static_cast<size_t>(i * n + j)];
            if (std::abs(s.sum) > 0x1p128) {
              ASSERT_FALSE(std::isfinite(got)) << s.sum;
            } else if (s.magnitudes < 0x1p127) {
              const double largest = 16.0 * scale * other;
              ASSERT_NEAR(got, s.sum,
                          bound(parts, k) * s.magnitudes + k * (0x1p-40 * largest + 0x1p-149));
            }
          }
      }
}

/// Where one is in a row or column, and only there.
TEST_F(SplitProducts, OfInfinitiesAndNaN) {
  const int64_t m = 70, n = 66, k = 600;
  const Matrix a(m, k, false, 0, normal), b(k, n, false, 0, normal);
  a.at(3, 599) = kNaN;
  a.at(40, 5) = kInfinity;
  b.at(5, 7) = 0;
  b.at(7, 65) = -kInfinity;
  for (const int parts : {2, 3}) {
    const std::vector<float> c = product(a, b, m, n, k, parts);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double sum = sums(a, b, i, j, k).sum;
        const float got = c[static_cast<size_t>(i * n + j)];
        if (std::isfinite(sum)) {
          ASSERT_NEAR(got, sum, 1e-2) << i << ", " << j;
        } else {
          ASSERT_EQ(std::isnan(got), std::isnan(sum)) << i << ", " << j;
          ASSERT_TRUE(std::isnan(sum) || got == static_cast<float>(sum)) << i << ", " << j;
        }
      }
  }
}

TEST_F(SplitProducts, OfRowsOfVeryDifferentMagnitudes) {
  const int64_t m = 64, n = 32, k = 64;
  int64_t count = 0;
  const Matrix a(m, k, false, 0,
                 [&] { return normal() * std::ldexp(1.0f, -3 * static_cast<int>(count++ / k)); }),
      b(k, n, false, 0, normal);
  const std::vector<float> c = product(a, b, m, n, k, 3);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const Sums s = sums(a, b, i, j, k);
      ASSERT_NEAR(c[static_cast<size_t>(i * n + j)], s.sum,
                  bound(3, k) * s.magnitudes + k * 0x1p-36)
          << i;
    }
}

TEST_F(SplitProducts, HaveTheSameBitsAtAnyStridesAndOnAnyThreads) {
  const int64_t m = 300, n = 520, k = 700;
  const Matrix a(m, k, false, 0, normal), b(k, n, false, 0, normal);
  const auto copy = [](const Matrix& from, int64_t rows, int64_t columns, bool transposed) {
    int64_t at = 0;
    return Matrix(rows, columns, transposed, 5, [&] {
      const int64_t i = at / columns, j = at++ % columns;
      return from.at(i, j);
    });
  };
  for (const int parts : {2, 3}) {
    const std::vector<float> expected = product(a, b, m, n, k, parts);
    for (const int threads : {1, 2, 3, 4}) {
      const testing::Threads some(threads);
      const bool odd = threads % 2 == 1;
      const Matrix a2 = copy(a, m, k, odd), b2 = copy(b, k, n, threads > 2);
      ASSERT_EQ(product(a2, b2, m, n, k, parts), expected) << threads;
    }
  }
}

}  // namespace
}  // namespace tandem::machine::products
