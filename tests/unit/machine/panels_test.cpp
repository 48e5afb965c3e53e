// Products in panels, called as they are: matmul_test.cpp checks what is made of them.
#include "machine/products/panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "machine/cpu.h"
#include "machine/memory/worker_memory.h"

namespace tandem::machine::products {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A [rows, columns] matrix whose rows, or columns, lie `gap` more than dense apart, with NaN in
/// between, right up to its last element.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, bool transposed, int64_t gap, std::mt19937& numbers)
      : stride((transposed ? rows : columns) + gap), transposed(transposed) {
    const int64_t lines = transposed ? columns : rows, length = transposed ? rows : columns;
    data.assign(static_cast<size_t>((lines - 1) * stride + length), kNaN);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) at(i, j) = normal(numbers);
  }
  float& at(int64_t i, int64_t j) {
    return data[static_cast<size_t>(transposed ? j * stride + i : i * stride + j)];
  }
  Operand operand() const { return {data.data(), stride, transposed}; }

  int64_t stride;
  bool transposed;
  std::vector<float> data;
};

/// Row `i` of the product, added to `sums` [n].
void add_row(Matrix& a, int64_t i, Matrix& b, int64_t k, std::vector<double>& sums) {
  for (int64_t l = 0; l < k; ++l) {
    const double factor = a.at(i, l);
    const float* const row = &b.at(l, 0);
    const int64_t step = b.transposed ? b.stride : 1;
    for (int64_t j = 0; j < std::ssize(sums); ++j)
      sums[static_cast<size_t>(j)] += factor * double{row[j * step]};
  }
}

struct Case {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  enum class Start { None, C, Bias } start;
  int64_t gap;
};

constexpr Case::Start kStarts[] = {Case::Start::None, Case::Start::C, Case::Start::Bias};

struct Isa {
  const char* name;
  const Panels* panels;
  bool (*is_there)(const CpuFeatures&);
};

constexpr Isa kIsas[] = {
    {"Avx2", &kPanelsAvx2, [](const CpuFeatures& cpu) { return cpu.avx2 && cpu.fma; }},
    {"Avx512", &kPanelsAvx512, [](const CpuFeatures& cpu) { return cpu.avx512; }}};

/// Of each instruction set that the processor has, used or not.
class PanelProducts : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!GetParam().is_there(cpu_features())) GTEST_SKIP() << "needs " << GetParam().name;
  }

  static const Panels& panels() { return *GetParam().panels; }

  static void multiply(const Product& p) {
    const WorkerMemory memory(panels().scratch(p.m, p.n, p.k));
    panels().multiply(p, memory.of(0));
  }

  void check(const Case& x) {
    SCOPED_TRACE(::testing::Message()
                 << x.m << " x " << x.n << " x " << x.k << " transposed " << x.a_transposed
                 << x.b_transposed << " start " << static_cast<int>(x.start) << " gap " << x.gap);
    Matrix a(x.m, x.k, x.a_transposed, x.gap, random), b(x.k, x.n, x.b_transposed, x.gap, random),
        c(x.m, x.n, false, x.gap, random), bias(1, x.n, false, 0, random);
    Matrix before = c;
    const bool adds = x.start == Case::Start::C, has_bias = x.start == Case::Start::Bias;
    multiply({x.m, x.n, x.k, a.operand(), b.operand(), c.data.data(), c.stride, adds,
              has_bias ? bias.data.data() : nullptr});
    const double tolerance = 2e-6 * std::sqrt(static_cast<double>(x.k) + 1) + 1e-6;
    std::vector<double> sums(static_cast<size_t>(x.n));
    for (int64_t i = 0; i < x.m; ++i) {
      for (int64_t j = 0; j < x.n; ++j)
        sums[static_cast<size_t>(j)] = adds ? before.at(i, j) : has_bias ? bias.at(0, j) : 0.0;
      add_row(a, i, b, x.k, sums);
      for (int64_t j = 0; j < x.n; ++j) {
        const double sum = sums[static_cast<size_t>(j)];
        ASSERT_NEAR(c.at(i, j), sum, tolerance * (1 + std::abs(sum))) << i << ", " << j;
        c.at(i, j) = before.at(i, j);
      }
    }
    // Between its rows nothing was written.
    EXPECT_EQ(std::memcmp(c.data.data(), before.data.data(), c.data.size() * sizeof(float)), 0);
  }

  std::mt19937 random{7};
};

TEST_P(PanelProducts, OfEverySmallSize) {
  for (int64_t m = 1; m <= 20; ++m)
    for (int64_t n = 1; n <= 102; n += n < 18 ? 1 : 5)
      for (const int64_t k : {1, 2, 7, 8, 9, 17})
        for (int layout = 0; layout < 4; ++layout)
          check({m, n, k, layout % 2 == 1, layout / 2 == 1, kStarts[(m + n) % 3], (m * n) % 3});
}

TEST_P(PanelProducts, OfSeveralBlocks) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{263, 63, 384},
                                {215, 97, 1025},
                                {217, 1060, 520},
                                {435, 1056, 50},
                                {264, 64, 385},
                                {265, 65, 383},
                                {529, 130, 400},
                                {30, 200, 1153},
                                {301, 17, 769},
                                {265, 1065, 260},
                                {270, 2064, 33}})
    for (int layout = 0; layout < 12; ++layout)
      check({m, n, k, layout % 2 == 1, layout / 2 % 2 == 1, kStarts[layout / 4], layout});
}

TEST_P(PanelProducts, OfARowByAColumn) {
  std::normal_distribution<float> normal;
  for (int64_t k = 1; k < 300; ++k) {
    std::vector<float> a(k), b(k), gapped(3 * (k - 1) + 1, kNaN);
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      gapped[3 * i] = a[i] = normal(random), b[i] = normal(random);
      sum += double{a[i]} * double{b[i]};
    }
    const float dot = panels().dot({a.data(), 1}, {b.data(), 1}, k);
    ASSERT_NEAR(dot, sum, 1e-5) << k;
    ASSERT_EQ(dot, panels().dot({gapped.data(), 3}, {b.data(), 1}, k)) << k;
  }
}

/// However a product is cut, wherever it lies: also where a column is one of a few that are last.
TEST_P(PanelProducts, HaveTheBitsOfTheirRowAndColumn) {
  const int64_t m = 270, k = 500;
  for (const int64_t n : {70, 65, 67})
    for (int layout = 0; layout < 4; ++layout) {
      const bool a_transposed = layout % 2 == 1, b_transposed = layout / 2 == 1;
      Matrix a(m, k, a_transposed, 0, random), b(k, n, b_transposed, 0, random);
      std::vector<float> whole(m * n), parts(m * (n + 3));
      multiply({m, n, k, a.operand(), b.operand(), whole.data(), n, false});
      for (const int64_t columns : {13, 18}) {
        for (int64_t i = 0; i < m; i += 47)
          for (int64_t j = 0; j < n; j += columns) {
            const Operand row{&a.at(i, 0), a.stride, a_transposed},
                column{&b.at(0, j), b.stride, b_transposed};
            multiply({std::min<int64_t>(47, m - i), std::min<int64_t>(columns, n - j), k, row,
                      column, parts.data() + i * (n + 3) + j, n + 3, false});
          }
        for (int64_t i = 0; i < m; ++i)
          ASSERT_EQ(std::memcmp(&whole[i * n], &parts[i * (n + 3)], n * sizeof(float)), 0) << i;
      }
    }
}

/// A's columns are read where they lie if they lie near each other, else packed.
TEST_P(PanelProducts, OfColumnsNearAndFarHaveTheSameBits) {
  constexpr int64_t kFar = 5000;
  const int64_t m = 60, k = 700, tile = panels().tile_columns;
  for (const int64_t n : {int64_t{3}, int64_t{5}, panels().vector_columns,
                          panels().vector_columns + 2, tile, 2 * tile + 3}) {
    Matrix near(m, k, true, 0, random), far(m, k, true, kFar, random), b(k, n, false, 0, random);
    ASSERT_TRUE(panels().packs(true, far.stride, n));
    ASSERT_TRUE(n > tile || !panels().packs(true, near.stride, n));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l) far.at(i, l) = near.at(i, l);
    std::vector<float> expected(m * n), result(m * n);
    multiply({m, n, k, far.operand(), b.operand(), expected.data(), n, false});
    multiply({m, n, k, near.operand(), b.operand(), result.data(), n, false});
    EXPECT_EQ(result, expected) << n;
  }
}

TEST_P(PanelProducts, OfWhatIsPackedAheadHaveTheSameBits) {
  const int64_t tile = panels().tile_columns;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{32, 70, 256},
                                {7, 16, 700},
                                {1, 5, 3},
                                {41, 66, 300},
                                {150, 129, 513},
                                {panels().block_rows + 6, 1040, 300},
                                {4, 1024, 20},  // whose last panels are narrower
                                {20, 3 * tile + 7, 1030}})
    for (const bool transposed : {false, true}) {
      Matrix a(m, k, false, 0, random), b(k, n, transposed, 3, random);
      std::vector<float> expected(m * n), packed(m * n);
      multiply({m, n, k, a.operand(), b.operand(), expected.data(), n, false});
      const WorkerMemory memory(panels().packed_floats(n, k));
      for (int64_t j = 0; j < n; j += panels().panel_columns(n - j))
        panels().pack(b.operand(), n, k, j, memory.of(0));
      multiply({.m = m,
                .n = n,
                .k = k,
                .a = a.operand(),
                .b = {},
                .c = packed.data(),
                .c_stride = n,
                .adds = false,
                .packed = {memory.of(0), n, 0}});
      EXPECT_EQ(packed, expected) << m << " x " << n << " x " << k << " " << transposed;
    }
}

TEST_P(PanelProducts, KeepNaNAndInfinityToTheirRowAndColumn) {
  const int64_t m = 20, n = 20, k = 28;  // (Column 19 is one of the last few.)
  Matrix a(m, k, false, 0, random), b(k, n, true, 0, random);
  a.at(13, 5) = kNaN;
  b.at(6, 19) = std::numeric_limits<float>::infinity();
  std::vector<float> c(m * n, kNaN);
  multiply({m, n, k, a.operand(), b.operand(), c.data(), n, false});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      EXPECT_EQ(std::isfinite(c[i * n + j]), i != 13 && j != 19) << i << ", " << j;
}

INSTANTIATE_TEST_SUITE_P(Isa, PanelProducts, ::testing::ValuesIn(kIsas),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::machine::products
