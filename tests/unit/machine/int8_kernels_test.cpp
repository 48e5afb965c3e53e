// Kernels of every instruction set that this processor has, against plain loops; operands end where
// a page does that nobody may touch, or begin behind one.
#include "machine/products/int8_kernels.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "machine/cpu.h"
#include "machine/memory/worker_memory.h"

namespace tandem::machine::products {
namespace {

constexpr size_t kPage = 4096;

/// `count` elements between two pages that may not be touched: against the one behind, or the one
/// before.
template <class T>
class Guarded {
 public:
  Guarded(int64_t count, bool at_end)
      : bytes_((static_cast<size_t>(count) * sizeof(T) / kPage + 3) * kPage),
        pages_(static_cast<char*>(
            mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    mprotect(pages_ + kPage, bytes_ - 2 * kPage, PROT_READ | PROT_WRITE);
    const size_t size = static_cast<size_t>(count) * sizeof(T);
    data = reinterpret_cast<T*>(at_end ? pages_ + bytes_ - kPage - size : pages_ + kPage);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(pages_, bytes_); }

  T* data;

 private:
  size_t bytes_;
  char* pages_;
};

/// Lines of a matrix, `gap` elements more than dense apart, right up to the last element.
template <class T>
struct Lines {
  Lines(int64_t lines, int64_t length, int64_t gap, bool at_end)
      : stride(length + gap),
        count((lines - 1) * stride + length),
        memory(count > 0 ? count : 0, at_end) {}
  template <class F>
  void fill(F number) {
    for (int64_t i = 0; i < count; ++i) memory.data[i] = number();
  }
  T* data() const { return memory.data; }

  int64_t stride, count;
  Guarded<T> memory;
};

struct NamedIntegers {
  std::string name;
  const IntegerKernels& kernels;
};
struct NamedWeights {
  std::string name;
  const WeightKernels& kernels;
};

std::vector<NamedIntegers> integer_tables() {
  const CpuFeatures& cpu = cpu_features();
  std::vector<NamedIntegers> all{{"base", kIntegersBase}};
  if (cpu.avx2 && cpu.fma) all.push_back({"avx2", kIntegersAvx2});
  if (cpu.avx512_vnni) all.push_back({"vnni", kIntegersVnni});
  if (cpu.avx512_vnni && cpu.amx_int8) all.push_back({"amx", kIntegersAmx});
  return all;
}

std::vector<NamedWeights> weight_tables() {
  const CpuFeatures& cpu = cpu_features();
  std::vector<NamedWeights> all{{"base", kWeightsBase}};
  if (cpu.avx2 && cpu.fma) all.push_back({"avx2", kWeightsAvx2});
  if (cpu.avx512) all.push_back({"avx512", kWeightsAvx512});
  return all;
}

struct Case {
  int64_t m, n, k, gap;
  bool at_end;
};

std::string text(const Case& x) {
  return std::to_string(x.m) + " x " + std::to_string(x.n) + " x " + std::to_string(x.k) + " gap " +
         std::to_string(x.gap) + (x.at_end ? " at the end" : " at the start");
}

class Int8Kernels : public ::testing::Test {
 protected:
  /// The least is frequent.
  int8_t byte() { return random() % 3 == 0 ? int8_t{-128} : static_cast<int8_t>(random()); }
  template <class T>
  T number() {
    return std::normal_distribution<T>()(random);
  }

  static int32_t at(const Bytes& x, int64_t row, int64_t column) {
    return x.data[x.transposed ? column * x.stride + row : row * x.stride + column];
  }

  void check_integers(const Case& x, bool a_columns, bool b_columns) {
    SCOPED_TRACE(text(x) + " in columns " + std::to_string(a_columns) + std::to_string(b_columns));
    Lines<int8_t> a(a_columns ? x.k : x.m, a_columns ? x.m : x.k, x.gap, x.at_end),
        b(b_columns ? x.n : x.k, b_columns ? x.k : x.n, x.gap, x.at_end);
    a.fill([&] { return byte(); });
    b.fill([&] { return byte(); });
    const Bytes left{a.data(), a.stride, a_columns}, right{b.data(), b.stride, b_columns};
    Lines<int32_t> expected(x.m, x.n, x.gap, x.at_end);
    expected.fill([] { return -7; });
    for (int64_t i = 0; i < x.m; ++i)
      for (int64_t j = 0; j < x.n; ++j) {
        int32_t sum = 0;
        for (int64_t l = 0; l < x.k; ++l) sum += at(left, i, l) * at(right, l, j);
        expected.data()[i * expected.stride + j] = sum;
      }
    for (const NamedIntegers& table : integer_tables()) {
      Lines<int32_t> out(x.m, x.n, x.gap, x.at_end);
      out.fill([] { return -7; });
      const WorkerMemory memory(table.kernels.scratch(x.m, x.n, x.k));
      table.kernels.multiply({x.m, x.n, x.k, left, right, out.data(), out.stride},
                             reinterpret_cast<int32_t*>(memory.of(0)));
      ASSERT_EQ(std::memcmp(out.data(), expected.data(), static_cast<size_t>(out.count) * 4), 0)
          << table.name;
    }
  }

  template <class T>
  void check_weights(const Case& y, void (*WeightKernels::*multiply)(const WeightProduct<T>&),
                     double epsilon) {
    SCOPED_TRACE(text(y));
    Lines<T> x(y.m, y.k, y.gap, y.at_end), scales(1, y.n, 0, y.at_end);
    Lines<int8_t> weight(y.n, y.k, y.gap, y.at_end);
    x.fill([&] { return number<T>(); });
    scales.fill([&] { return number<T>(); });
    weight.fill([&] { return byte(); });
    for (const NamedWeights& table : weight_tables()) {
      Lines<T> out(y.m, y.n, y.gap, y.at_end);
      out.fill([] { return T{-7}; });
      (table.kernels.*multiply)({y.m, y.n, y.k, x.data(), x.stride, weight.data(), weight.stride,
                                 scales.data(), out.data(), out.stride});
      for (int64_t i = 0; i < out.count; ++i) {
        const int64_t row = i / out.stride, j = i % out.stride;
        double sum = 0, size = 0;
        for (int64_t l = 0; j < y.n && l < y.k; ++l) {
          const double product =
              double{x.data()[row * x.stride + l]} * weight.data()[j * weight.stride + l];
          sum += product, size += std::abs(product);
        }
        const double scale = j < y.n ? double{scales.data()[j]} : 1;
        ASSERT_NEAR(out.data()[i], j < y.n ? sum * scale : -7.0, epsilon * size * std::abs(scale))
            << table.name << ", " << row << ", " << j;
      }
    }
  }

  std::mt19937 random{5};
};

TEST_F(Int8Kernels, IntegersAreThoseOfPlainLoops) {
  for (const int64_t m : {1, 2, 3, 5, 8, 9, 13, 16, 17, 31, 33, 47})
    for (const int64_t n : {1, 3, 4, 16, 17, 33, 65})
      for (const int64_t k : {1, 3, 63, 64, 65, 130, 1025})
        for (const int layout : {0, 1, 2, 3})
          for (const bool at_end : {false, true})
            check_integers({m, n, k, m % 2 * 3, at_end}, layout % 2 != 0, layout / 2 != 0);
}

TEST_F(Int8Kernels, SumsOfIntegersWrap) {
  constexpr int64_t kDepth = 140000, kColumns = 3;
  Lines<int8_t> bytes(17, kDepth, 0, true);
  bytes.fill([] { return int8_t{-128}; });
  const auto expected = static_cast<int32_t>(uint32_t{kDepth} << 14);
  for (const NamedIntegers& table : integer_tables())
    for (const int64_t m : {1, 17}) {
      std::vector<int32_t> out(static_cast<size_t>(m * kColumns));
      const WorkerMemory memory(table.kernels.scratch(m, kColumns, kDepth));
      table.kernels.multiply({m,
                              kColumns,
                              kDepth,
                              {bytes.data(), kDepth, false},
                              {bytes.data(), kDepth, true},
                              out.data(),
                              kColumns},
                             reinterpret_cast<int32_t*>(memory.of(0)));
      for (const int32_t sum : out) EXPECT_EQ(sum, expected) << table.name;
    }
}

TEST_F(Int8Kernels, WeightsAreThoseOfPlainLoops) {
  for (const int64_t m : {1, 2, 3, 5, 6, 7, 12, 13, 16})
    for (const int64_t n : {1, 3, 4, 5, 16, 33})
      for (const int64_t k : {0, 1, 15, 16, 17, 63, 64, 65, 130, 515})
        for (const bool at_end : {false, true}) {
          check_weights({m, n, k, m % 2 * 3, at_end}, &WeightKernels::multiply, 1e-6);
          if (m < 4) check_weights({m, n, k, m, at_end}, &WeightKernels::multiply_f64, 1e-14);
        }
}

// Not of how many rows there are, nor of what lies beside.
TEST_F(Int8Kernels, BitsAreOfARowAndARowOfWeight) {
  constexpr int64_t kRows = 13, kColumns = 7, kDepth = 333;
  Lines<float> x(kRows, kDepth, 0, true), scales(1, kColumns, 0, true);
  Lines<int8_t> weight(kColumns, kDepth, 0, true);
  x.fill([&] { return number<float>(); });
  scales.fill([&] { return number<float>(); });
  weight.fill([&] { return byte(); });
  for (const NamedWeights& table : weight_tables()) {
    std::vector<float> all(kRows * kColumns), one(1);
    const WeightProduct<float> product{kRows,      kColumns,      kDepth, x.data(),
                                       kDepth,     weight.data(), kDepth, scales.data(),
                                       all.data(), kColumns};
    table.kernels.multiply(product);
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        table.kernels.multiply({1, 1, kDepth, x.data() + i * kDepth, kDepth,
                                weight.data() + j * kDepth, kDepth, scales.data() + j, one.data(),
                                1});
        EXPECT_EQ(one[0], all[static_cast<size_t>(i * kColumns + j)]) << table.name;
      }
  }
}

TEST_F(Int8Kernels, WidenedBytesAreExact) {
  for (const NamedWeights& table : weight_tables())
    for (const int64_t count : {1, 15, 16, 256}) {
      Lines<int8_t> bytes(1, count, 0, true);
      Lines<float> wide(1, count, 0, true);
      bytes.fill([&] { return byte(); });
      table.kernels.widen(bytes.data(), count, wide.data());
      for (int64_t i = 0; i < count; ++i) EXPECT_EQ(wide.data()[i], bytes.data()[i]) << table.name;
    }
}

}  // namespace
}  // namespace tandem::machine::products
