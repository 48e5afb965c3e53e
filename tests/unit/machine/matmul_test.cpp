#include "machine/library/matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "ir/base/error.h"
#include "machine/cpu.h"
#include "machine/library/block_primitive.h"
#include "machine/library/matmul_blocks.h"
#include "machine/memory/worker_memory.h"
#include "machine/products/panels.h"
#include "machine/threads/thread_pool.h"
#include "tests/support/forked.h"
#include "tests/support/threads.h"

extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int);

namespace tandem::machine {
namespace {

/// Elements from the first to the last that the strides of `spec` reach.
int64_t span(const MatmulSpec& spec, const MatrixStrides& s, int64_t rows, int64_t cols) {
  if (spec.matrices() == 0 || rows == 0 || cols == 0) return 0;
  return (spec.outer - 1) * s.outer + (spec.batch - 1) * s.batch + (rows - 1) * s.row +
         (cols - 1) * s.col + 1;
}

std::vector<float> random_floats(int64_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(count);
  for (float& x : v) x = normal(random);
  return v;
}

struct Operands {
  std::vector<float> a, b, c;
  explicit Operands(const MatmulSpec& s)
      : a(random_floats(span(s, s.a, s.m, s.k), 1)),
        b(random_floats(span(s, s.b, s.k, s.n), 2)),
        c(random_floats(span(s, s.c, s.m, s.n), 3)) {}
};

/// C after the product, by a loop in double.
std::vector<float> reference(const MatmulSpec& s, const Operands& x) {
  std::vector<float> c = x.c;
  for (int64_t p = 0; p < s.matrices(); ++p) {
    const auto at = [&](const MatrixStrides& t, int64_t row, int64_t col) {
      return p / s.batch * t.outer + p % s.batch * t.batch + row * t.row + col * t.col;
    };
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        float& out = c[at(s.c, i, j)];
        double sum = s.accumulate ? out : 0.0;
        for (int64_t l = 0; l < s.k; ++l)
          sum += double{x.a[at(s.a, i, l)]} * double{x.b[at(s.b, l, j)]};
        out = static_cast<float>(sum);
      }
    }
  }
  return c;
}

std::vector<float> run(const MatmulSpec& s, const Operands& x) {
  std::vector<float> c = x.c;
  Matmul(s).run(x.a.data(), x.b.data(), c.data());
  return c;
}

/// Compares with the reference, and the bits for several thread counts with each other.
void check(const MatmulSpec& s) {
  SCOPED_TRACE(::testing::Message() << s.batch << " x " << s.m << " x " << s.n << " x " << s.k
                                    << " accumulate " << s.accumulate);
  const Operands x(s);
  const std::vector<float> expected = reference(s, x);
  const testing::Threads restored(1);
  const std::vector<float> first = run(s, x);
  const double tolerance = 2e-6 * std::sqrt(static_cast<double>(s.k) + 1) + 1e-6;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(first[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
  }
  for (const int threads : {2, 3, 5}) {
    testing::Threads::set(threads);
    const std::vector<float> other = run(s, x);
    ASSERT_EQ(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

TEST(Matmul, EveryTransposeAtOddSizes) {
  const int64_t sizes[][3] = {{1, 1, 1},      {1, 7, 5},      {9, 1, 33},   {3, 5, 1},
                              {17, 31, 13},   {65, 33, 7},    {64, 64, 64}, {129, 65, 97},
                              {128, 10, 512}, {130, 257, 300}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) check(dense_matmul(1, m, n, k, ta, tb));
    }
  }
}

TEST(Matmul, Accumulates) {
  for (const bool tb : {false, true}) {
    for (const int64_t m : {5, 64, 300}) {
      MatmulSpec s = dense_matmul(1, m, 100, 70, false, tb);
      s.accumulate = true;
      check(s);
    }
  }
}

TEST(Matmul, OfARowByAColumn) {
  for (const int64_t k : {1, 7, 200, 32'768, 32'769, 100'003})
    for (const bool accumulate : {false, true}) {
      MatmulSpec s = dense_matmul(3, 1, 1, k);
      s.accumulate = accumulate;
      check(s);
      s.a = {3 * k + 5, 1, 3}, s.c.batch = 2;
      check(s);
      s.b = {0, 2, 1};
      check(s);
    }
}

TEST(Matmul, OfARowByAColumnHasTheSameBitsAtAnyStrides) {
  if (!products::panels()) GTEST_SKIP() << "the library's may differ";
  const MatmulSpec s = dense_matmul(1, 1, 1, 70'001);
  MatmulSpec gapped = s;
  gapped.a.row = 1, gapped.a.col = 3;
  const Operands x(s);
  Operands y(gapped);
  y.b = x.b;
  for (size_t i = 0; i < x.a.size(); ++i) y.a[3 * i] = x.a[i];
  EXPECT_EQ(run(s, x), run(gapped, y));
}

/// Infinities and NaN at each place, whichever lane or chunk sums it.
TEST(Matmul, OfARowByAColumnKeepsInfinities) {
  const MatmulSpec s = dense_matmul(1, 1, 1, 300);
  Operands x(s);
  for (float& v : x.b) v = 1;
  for (float& v : x.a) {
    const float before = std::exchange(v, std::numeric_limits<float>::infinity());
    EXPECT_EQ(run(s, x)[0], v);
    v = before;
  }
  x.a.assign(x.a.size(), -0.0f);
  EXPECT_FALSE(std::signbit(run(s, x)[0]));
}

/// What few products are summed for: a matrix of short rows by a vector, or a vector by few rows.
TEST(Matmul, OfShortRowsByAVector) {
  for (const int64_t k : {1, 2, 3, 31, 32, 33})
    for (const int64_t m : {2, 17, 5000})
      for (const bool ta : {false, true})
        for (const bool accumulate : {false, true}) {
          MatmulSpec column = dense_matmul(3, m, 1, k, ta),
                     row = dense_matmul(3, 1, m, k, false, ta);
          column.accumulate = row.accumulate = accumulate;
          check(column);
          check(row);
          column.b.batch = 0;  // one vector for all
          check(column);
        }
}

TEST(Matmul, OfShortRowsByAVectorHasTheSameBitsWhereverTheyLie) {
  if (!products::panels()) GTEST_SKIP() << "the library's may differ";
  for (const int64_t k : {3, 32}) {
    const MatmulSpec s = dense_matmul(1, 1000, 1, k);
    const Operands x(s);
    MatmulSpec gapped = s;
    gapped.c.row = 3;
    Operands y(gapped);
    y.a = x.a, y.b = x.b;
    const std::vector<float> expected = run(s, x), found = run(gapped, y);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[3 * i], expected[i]) << i;
  }
}

/// The bits of what is added to rows of the bias; C is not read.
void expect_start_with_bias(MatmulSpec s) {
  s.accumulate = true;
  Operands x(s);
  const std::vector<float> bias = random_floats(s.n, 4);
  std::vector<float> c(x.c.size(), std::numeric_limits<float>::quiet_NaN());
  const Matmul matmul(s);
  std::vector<float> scratch(matmul.scratch_bytes() / sizeof(float));
  matmul.run(x.a.data(), x.b.data(), c.data(), scratch.data(), bias.data());
  for (size_t i = 0; i < x.c.size(); ++i) x.c[i] = bias[i % bias.size()];
  EXPECT_EQ(c, run(s, x)) << s.m << " " << s.n << " " << s.k;
}

TEST(Matmul, StartsWithABias) {
  std::vector<MatmulSpec> specs;
  for (const bool tb : {false, true})
    for (const int64_t m : {1, 5, 64, 300}) specs.push_back(dense_matmul(1, m, 100, 70, false, tb));
  for (const int64_t k : {70, 70'000}) specs.push_back(dense_matmul(1, 1, 1, k));
  specs.push_back(dense_matmul(3, 16, 24, 8));
  for (const int64_t k : {3, 33}) specs.push_back(dense_matmul(2, 300, 1, k));
  specs.push_back(dense_matmul(1, 40, 48, 30'000, true, false));  // a sum in parts
  for (const MatmulSpec& s : specs) expect_start_with_bias(s);
}

TEST(Matmul, OfAnOperandThatWasPackedAheadHasTheSameBits) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{32, 1024, 256},
                                {144, 100, 300},
                                {145, 100, 300},
                                {216, 100, 300},  // as many rows as are packed at once, and more
                                {217, 112, 300},
                                {264, 100, 300},
                                {265, 64, 300},
                                {32, 256, 1024},  // whose sums may be in chunks
                                {64, 200, 5000},
                                {3, 1024, 5},  // in one block, whose last panels are narrower
                                {6, 2032, 2},
                                {8, 1072, 64},
                                {2, 17, 1000}})
    for (const bool transposed : {false, true}) {
      const testing::Threads restored(1);
      const MatmulSpec s = dense_matmul(1, m, n, k, false, transposed);
      const Operands x(s);
      const Matmul matmul(s);
      const int64_t floats = matmul.packed_floats();
      const products::Panels* const panels = products::panels();
      const bool pays = panels && m <= panels->block_rows && !is_of_dots(s);
      EXPECT_EQ(floats > 0, pays) << m;
      if (floats == 0) continue;
      const WorkerMemory packed(floats);
      matmul.pack(x.b.data(), packed.of(0));
      for (const int threads : {1, 2, 5, 16}) {
        testing::Threads::set(threads);
        std::vector<float> c = x.c, scratch(matmul.scratch_bytes() / sizeof(float));
        matmul.run(x.a.data(), x.b.data(), c.data(), scratch.data(), nullptr, packed.of(0));
        EXPECT_EQ(c, run(s, x)) << m << " x " << n << " x " << k << " " << transposed;
      }
    }
}

TEST(Matmul, Batches) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      check(dense_matmul(7, 64, 64, 32, ta, tb));
      check(dense_matmul(48, 16, 9, 20, ta, tb));
      MatmulSpec s = dense_matmul(5, 33, 40, 24, ta, tb);
      s.accumulate = true;
      check(s);
    }
  }
}

TEST(Matmul, StridedOperands) {
  MatmulSpec s = dense_matmul(6, 20, 24, 32, false, true);
  s.a = {32, 3 * 6 * 32, 1};  // heads side by side in one buffer
  s.b = {32, 1, 3 * 6 * 32};
  s.c = {24, 6 * 24, 1};
  check(s);
  s.c = {1000, 1, 21};  // columns of C contiguous
  check(s);
  s.accumulate = true;
  check(s);
}

/// Heads side by side: A, B and C are parts of [outer, rows, 3, heads, columns].
MatmulSpec heads_matmul(int64_t outer, int64_t heads, int64_t m, int64_t n, int64_t k, bool ta,
                        bool tb) {
  MatmulSpec s{.batch = heads, .m = m, .n = n, .k = k, .outer = outer};
  const auto strides = [&](int64_t rows, int64_t cols, bool transposed) {
    if (transposed) std::swap(rows, cols);
    const int64_t ld = 3 * heads * cols;
    return transposed ? MatrixStrides{cols, 1, ld, rows * ld}
                      : MatrixStrides{cols, ld, 1, rows * ld};
  };
  s.a = strides(m, k, ta);
  s.b = strides(k, n, tb);
  s.c = strides(m, n, false);
  return s;
}

TEST(Matmul, TwoBatches) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      check(heads_matmul(3, 4, 17, 31, 13, ta, tb));
      check(heads_matmul(1, 5, 9, 8, 7, ta, tb));
      check(heads_matmul(5, 1, 9, 8, 7, ta, tb));
    }
  }
  MatmulSpec s = heads_matmul(3, 4, 17, 31, 13, false, true);
  s.accumulate = true;
  check(s);
  s.b.batch = 0;  // heads share B
  check(s);
  s.a.outer = 0;
  check(s);
  check(heads_matmul(2, 3, 1, 1, 40, false, false));
  check(heads_matmul(2, 2, 40, 48, 3000, true, false));  // a sum in parts
}

TEST(Matmul, BatchesThatRunOnAreOne) {
  MatmulSpec s = dense_matmul(12, 64, 64, 32, false, true);
  const MatmulSpec merged = s;
  s.outer = 3, s.batch = 4;
  for (MatrixStrides* x : {&s.a, &s.b, &s.c}) x->outer = 4 * x->batch;
  EXPECT_EQ(merge_batches(s), merged);
  s.c.outer += 8;
  EXPECT_EQ(merge_batches(s), s);
}

/// The matrices of `from`, laid out as `to` says.
std::vector<float> moved(const std::vector<float>& from, const MatmulSpec& spec,
                         const MatrixStrides& x, const MatmulSpec& to, const MatrixStrides& y,
                         int64_t rows, int64_t cols) {
  std::vector<float> out(span(to, y, rows, cols));
  for (int64_t p = 0; p < spec.matrices(); ++p)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        out[p / to.batch * y.outer + p % to.batch * y.batch + i * y.row + j * y.col] =
            from[p / spec.batch * x.outer + p % spec.batch * x.batch + i * x.row + j * x.col];
  return out;
}

/// `dense` with leading dimensions of at least `ld`, each on the way to the next matrix.
MatmulSpec spread(MatmulSpec s, int64_t ld) {
  const auto widen = [&](MatrixStrides& x, int64_t rows, int64_t cols) {
    int64_t& lead = x.col == 1 ? x.row : x.col;
    lead = (lead + ld - 1) / ld * ld;
    x.batch = (x.col == 1 ? rows : cols) * lead + 3;
  };
  widen(s.a, s.m, s.k);
  widen(s.b, s.k, s.n);
  widen(s.c, s.m, s.n);
  return s;
}

void expect_same_bits_at_leading_dimensions(const MatmulSpec& s) {
  const Operands x(s);
  const std::vector<float> expected = run(s, x);
  for (const int64_t ld : {1, 7, 48, 256, 1024}) {
    const MatmulSpec wide = spread(s, ld);
    Operands y(wide);
    y.a = moved(x.a, s, s.a, wide, wide.a, s.m, s.k);
    y.b = moved(x.b, s, s.b, wide, wide.b, s.k, s.n);
    ASSERT_EQ(moved(run(wide, y), wide, wide.c, s, s.c, s.m, s.n), expected) << ld;
  }
}

TEST(Matmul, LeadingDimensionsDoNotChangeTheBitsOfAStrideFreeProduct) {
  const int64_t sizes[][3] = {{64, 64, 32}, {64, 32, 64}, {2, 2, 2},      {3, 2, 5},
                              {17, 2, 129}, {33, 65, 97}, {128, 256, 64}, {256, 64, 256},
                              {19, 7, 13},  {9, 21, 30},  {40, 48, 512},  {130, 33, 500},
                              {50, 3, 200}, {4, 70, 129}, {8, 60, 300}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        SCOPED_TRACE(::testing::Message() << m << " " << n << " " << k << " " << ta << tb);
        MatmulSpec s = dense_matmul(4, m, n, k, ta, tb);
        s.stride_free = true;
        if (ta == tb) check(s);
        expect_same_bits_at_leading_dimensions(s);
      }
    }
  }
}

TEST(Matmul, LeadingDimensionsDoNotChangeTheBitsOfOneSum) {
  const int64_t sizes[][3] = {{64, 64, 32}, {4, 768, 64},   {4, 64, 768}, {2, 2, 2},
                              {33, 65, 97}, {256, 96, 300}, {7, 9, 40},   {30, 40, 1200},
                              {50, 3, 200}, {8, 60, 900}};
  for (const auto& [m, n, k] : sizes) {
    if (!is_stride_free(m, n, k)) GTEST_SKIP() << "the library's products";
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        SCOPED_TRACE(::testing::Message() << m << " " << n << " " << k << " " << ta << tb);
        const MatmulSpec s = dense_matmul(3, m, n, k, ta, tb);
        expect_same_bits_at_leading_dimensions(s);
      }
    }
  }
}

TEST(Matmul, SumsThatMayBeCutDependOnStrides) {
  EXPECT_FALSE(is_stride_free(128, 64, 1024));
  EXPECT_FALSE(is_stride_free(1, 64, 64));
}

TEST(Matmul, PlusZeroLeavesNoNegativeZero) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{3, 5, 4}, {9, 2, 48}, {3, 7, 48}}) {
    MatmulSpec s = dense_matmul(2, m, n, k, false, true);
    s.stride_free = true;
    const std::vector<float> a(2 * m * k, 1e-30f), b(2 * k * n, -1e-30f);
    for (const bool plus_zero : {false, true}) {
      s.plus_zero = plus_zero;
      std::vector<float> c(2 * m * n, 1.0f);
      Matmul(s).run(a.data(), b.data(), c.data());
      for (const float x : c) {
        EXPECT_EQ(x, 0.0f);
        EXPECT_EQ(std::signbit(x), !plus_zero);
      }
    }
  }
}

/// Products of few rows or columns by many, of every layout: some are sums along k.
std::vector<MatmulSpec> specs_of_few() {
  std::vector<MatmulSpec> out;
  for (const int64_t few : {2, 3, 4, 5, 8})
    for (const int64_t many : {2, 7, 70, 300})
      for (const int64_t k : {33, 64, 129, 1000})
        for (int layout = 0; layout < 8; ++layout) {
          const bool is_tall = layout & 4;
          out.push_back(dense_matmul(1 + layout % 3, is_tall ? many : few, is_tall ? few : many, k,
                                     layout & 1, layout & 2));
        }
  return out;
}

TEST(Matmul, OfFewRowsOrColumns) {
  for (MatmulSpec s : specs_of_few()) {
    check(s);
    s.accumulate = true;
    check(s);
    s.c = {s.m * s.n, 1, s.m};  // the transposed result
    check(s);
  }
  check(dense_matmul(1, 3, 2, 100'000, false, true));  // a sum in parts
  check(dense_matmul(2, 40, 3, 70'000));
}

TEST(Matmul, OfFewRowsOrColumnsHasTheSameBitsOnAnyNumberOfThreads) {
  const testing::Threads restored(1);
  for (const MatmulSpec& s : specs_of_few()) {
    testing::Threads::set(1);
    const Operands x(s);
    const std::vector<float> expected = run(s, x);
    testing::Threads::set(5);
    EXPECT_EQ(run(s, x), expected) << s.m << " " << s.n << " " << s.k;
  }
}

TEST(Matmul, OfFewRowsOrColumnsStartsWithABias) {
  for (const MatmulSpec& s : specs_of_few()) expect_start_with_bias(s);
}

TEST(Matmul, OfFewRowsOrColumnsPropagatesNaNAndInfinity) {
  for (const MatmulSpec& s : specs_of_few()) {
    Operands x(s);
    x.a.back() = std::numeric_limits<float>::infinity();
    x.b.front() = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> expected = reference(s, x), found = run(s, x);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << i;
      EXPECT_EQ(std::isinf(found[i]), std::isinf(expected[i])) << i;
    }
  }
}

TEST(Matmul, RefusesToPromiseBitsThatItCannot) {
  MatmulSpec s = dense_matmul(2, 64, 64, 2048);
  s.stride_free = true;
  EXPECT_THROW(Matmul{s}, ir::InternalError);
  s = dense_matmul(2, 8, 8, 8);
  s.plus_zero = true;
  EXPECT_THROW(Matmul{s}, ir::InternalError);
}

TEST(Matmul, SharedOperands) {
  MatmulSpec s = dense_matmul(6, 20, 24, 32, false, true);
  s.b.batch = 0;  // folds into one product
  EXPECT_EQ(fold_batch(s).batch, 1);
  check(s);
  s = dense_matmul(6, 20, 24, 32);
  s.a.batch = 0;
  check(s);
}

TEST(Matmul, LongSums) {
  const MatmulSpec s = dense_matmul(1, 40, 48, 30'000, true, false);
  EXPECT_GT(Matmul(s).blocks().grid_k, 1);
  EXPECT_GT(Matmul(s).scratch_bytes(), 0u);
  check(s);
  MatmulSpec accumulate = s;
  accumulate.accumulate = true;
  check(accumulate);
}

/// As exact as f32 products, for any spec.
TEST(Matmul, OfHighPrecision) {
  std::vector<MatmulSpec> specs = {dense_matmul(1, 130, 140, 600, true, true),
                                   dense_matmul(3, 129, 128, 64), dense_matmul(2, 16, 200, 100)};
  for (const bool accumulate : {false, true}) {
    specs.push_back(dense_matmul(2, 150, 131, 100, false, true));
    specs.back().accumulate = accumulate;
    specs.back().c = {150 * 131, 1, 150};  // in columns
  }
  specs.push_back(dense_matmul(6, 30, 140, 90));
  specs.back().b.batch = 0;  // folds into one product
  specs.push_back(dense_matmul(2, 128, 150, 130));
  specs.back().stride_free = specs.back().plus_zero = true;
  for (MatmulSpec s : specs) {
    s.precision = MatmulPrecision::High;
    check(s);
  }
}

TEST(Matmul, PrecisionsAreDifferentProductsWhereTheySplitNumbers) {
  MatmulSpec s = dense_matmul(1, 140, 150, 160, false, true);
  const Operands x(s);
  const std::vector<float> highest = run(s, x);
  const auto kept = shared_matmul(s);
  for (const auto precision : {MatmulPrecision::High, MatmulPrecision::Medium}) {
    s.precision = precision;
    EXPECT_NE(shared_matmul(s), kept);
    EXPECT_EQ(run(s, x) != highest, cpu_features().amx_bf16);
  }
  s.m = 4;  // too few rows
  const std::vector<float> few = run(s, x);
  s.precision = MatmulPrecision::Highest;
  EXPECT_EQ(run(s, x), few);
}

TEST(Matmul, OfHighPrecisionWithABias) {
  MatmulSpec s = dense_matmul(1, 130, 140, 150);
  s.accumulate = true;
  s.precision = MatmulPrecision::High;
  const Operands x(s);
  std::vector<float> rows = x.c, expected = x.c;
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = x.c[i % 140];
  Matmul(s).run(x.a.data(), x.b.data(), rows.data());
  Matmul(s).run(x.a.data(), x.b.data(), expected.data(), nullptr, x.c.data());
  EXPECT_EQ(rows, expected);
}

TEST(Matmul, EmptySizes) {
  for (const auto& [batch, m, n, k] :
       {std::array<int64_t, 4>{0, 2, 3, 4}, {1, 0, 3, 4}, {1, 2, 0, 4}}) {
    Matmul(dense_matmul(batch, m, n, k)).run(nullptr, nullptr, nullptr);
  }
  MatmulSpec s = dense_matmul(2, 3, 4, 0);
  check(s);
  s.accumulate = true;
  check(s);
  s.c = {100, 1, 5};
  s.accumulate = false;
  check(s);
}

TEST(Matmul, OverwritesNaN) {
  for (const MatmulSpec& s : {dense_matmul(1, 30, 40, 50), dense_matmul(4, 32, 32, 32, false, true),
                              dense_matmul(1, 40, 48, 30'000, true, false)}) {
    Operands x(s);
    x.c.assign(x.c.size(), std::numeric_limits<float>::quiet_NaN());
    for (const float v : run(s, x)) ASSERT_FALSE(std::isnan(v));
  }
}

TEST(Matmul, PropagatesNaNAndInfinity) {
  const MatmulSpec s = dense_matmul(1, 20, 24, 28);
  Operands x(s);
  x.a[3 * 28 + 5] = std::numeric_limits<float>::quiet_NaN();
  x.b[6 * 24 + 7] = std::numeric_limits<float>::infinity();
  const std::vector<float> c = run(s, x);
  for (int64_t j = 0; j < 24; ++j) EXPECT_TRUE(std::isnan(c[3 * 24 + j]));
  for (int64_t i = 0; i < 20; ++i) EXPECT_FALSE(std::isfinite(c[i * 24 + 7]));
}

TEST(Matmul, AlignmentDoesNotChangeBits) {
  for (const MatmulSpec& s :
       {dense_matmul(1, 128, 100, 70, false, true), dense_matmul(1, 100, 96, 300, true, false),
        dense_matmul(6, 64, 64, 32, false, true)}) {
    const Operands x(s);
    const std::vector<float> expected = run(s, x);
    std::vector<float> a(x.a.size() + 1), b(x.b.size() + 3), c(x.c.size() + 5);
    std::copy(x.a.begin(), x.a.end(), a.begin() + 1);
    std::copy(x.b.begin(), x.b.end(), b.begin() + 3);
    Matmul(s).run(a.data() + 1, b.data() + 3, c.data() + 5);
    EXPECT_EQ(std::memcmp(c.data() + 5, expected.data(), expected.size() * sizeof(float)), 0);
  }
}

TEST(Matmul, SmallBatchesUsePrimitives) {
  const Matmul attention(dense_matmul(48, 64, 64, 32, false, true));
  const bool has_kernel =
      block_primitive(dense_matmul(48, 64, 64, 32, false, true), 3, 64) != nullptr;
  const BlockAlgorithm in_library = has_kernel ? BlockAlgorithm::Primitive : BlockAlgorithm::Sgemm;
  EXPECT_EQ(attention.blocks().algorithm, products::panels() ? BlockAlgorithm::Panels : in_library);
}

TEST(Matmul, RefusesOperandsWithoutAUnitStride) {
  MatmulSpec s = dense_matmul(1, 8, 8, 8);
  s.a = {0, 20, 2};
  EXPECT_FALSE(matmul_supports(s));
  EXPECT_THROW(Matmul{s}, ir::Error);
  s.a = {0, 0, 1};  // rows that overlap
  EXPECT_FALSE(matmul_supports(s));
}

TEST(Matmul, SharedMatmulIsCreatedOnce) {
  const MatmulSpec s = dense_matmul(2, 20, 30, 40);
  EXPECT_EQ(shared_matmul(s), shared_matmul(s));
  EXPECT_NE(shared_matmul(s), shared_matmul(dense_matmul(2, 20, 30, 41)));
}

TEST(Matmul, ConcurrentCallersGetTheSameBits) {
  const MatmulSpec s = dense_matmul(12, 64, 64, 32, false, true);
  const Operands x(s);
  const std::vector<float> expected = run(s, x);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        std::vector<float> c(x.c.size());
        shared_matmul(s)->run(x.a.data(), x.b.data(), c.data());
        ASSERT_EQ(c, expected);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(Matmul, KeepsTheCallersOpenMpSetting) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(7);
  const MatmulSpec s = dense_matmul(1, 64, 64, 64, false, true);
  run(s, Operands(s));
  EXPECT_EQ(omp_get_max_threads(), 7);
  omp_set_num_threads(before);
}

#if !defined(__SANITIZE_THREAD__)
TEST(Matmul, WorksInAForkedChild) {
  set_num_threads(2);
  const MatmulSpec s = dense_matmul(1, 256, 256, 128, false, true);
  const Operands x(s);
  const std::vector<float> expected = run(s, x);
  EXPECT_EQ(testing::status_in_child([&] { return run(s, x) == expected; }), 0);
}
#endif

TEST(MatmulBlocks, CoverTheProduct) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const auto size = [&] { return static_cast<int64_t>(1 + random() % (round % 2 ? 50 : 3000)); };
    const MatmulSpec s =
        dense_matmul(1 + random() % 9, size(), size(), size(), random() % 2, random() % 2);
    for (const auto algorithm : {BlockAlgorithm::Sgemm, BlockAlgorithm::Panels}) {
      const MatmulBlocks b = choose_blocks(s, algorithm, true);
      EXPECT_GE(b.batch * b.grid_batch, s.batch);
      EXPECT_GE(b.m * b.grid_m, s.m);
      EXPECT_GE(b.n * b.grid_n, s.n);
      EXPECT_GE(b.k * b.grid_k, s.k);
      EXPECT_LT(b.m * (b.grid_m - 1), s.m);
      EXPECT_GE(b.grain, 1);
      EXPECT_EQ(b.algorithm == BlockAlgorithm::Panels, algorithm == BlockAlgorithm::Panels);
      EXPECT_TRUE(b.algorithm != BlockAlgorithm::Primitive || b.grid_n * b.grid_k == 1);
    }
  }
}

}  // namespace
}  // namespace tandem::machine
