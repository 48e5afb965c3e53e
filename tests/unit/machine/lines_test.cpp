// Scans, sorts and searches of the library: long lines, many lines, any number of threads.
#include "machine/lines/lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>

#include "machine/element.h"
#include "machine/threads/thread_pool.h"
#include "tests/support/threads.h"

namespace tandem::machine {
namespace {

using ir::BufferView;
using ir::DType;

template <class T>
BufferView view(std::vector<T>& data, DType dtype, const ir::Shape& sizes) {
  return {data.data(), dtype, sizes, ir::contiguous_strides(sizes)};
}

/// Few different numbers, NaN, infinities and both zeros among them.
template <class T>
std::vector<T> numbers(size_t n) {
  std::mt19937_64 random(n);
  std::vector<T> out(n);
  for (T& v : out) v = static_cast<T>(static_cast<int64_t>(random() % 1000) - 500);
  if constexpr (std::is_floating_point_v<T>)
    for (T& v : out) {
      const uint64_t kind = random() % 50;
      v /= T{8};
      if (kind == 0) v = std::numeric_limits<T>::quiet_NaN();
      if (kind == 1) v = -std::numeric_limits<T>::infinity();
      if (kind == 2) v = -T{0};
    }
  return out;
}

template <class T>
std::vector<int64_t> stably_sorted(const T* line, int64_t n, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [](T x, T y) { return y != y ? x == x : x < y; };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return descending ? before(line[b], line[a]) : before(line[a], line[b]);
  });
  return order;
}

template <class T>
void check_sorts(DType dtype, int64_t lines, int64_t n) {
  std::vector<T> data = numbers<T>(static_cast<size_t>(lines * n));
  std::vector<int64_t> order(data.size());
  const BufferView in = view(data, dtype, {lines, n}), out = view(order, DType::I64, {lines, n});
  for (const int64_t descending : {0, 1}) {
    const int64_t attributes[] = {1, descending};
    lines::argsort({&in, 1}, attributes, out);
    for (int64_t i = 0; i < lines; ++i) {
      const auto expected = stably_sorted(data.data() + i * n, n, descending != 0);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), order.begin() + i * n))
          << ir::name(dtype) << " " << lines << " lines of " << n;
    }
  }
}

TEST(Lines, SortsOfAnyLengthAreStable) {
  for (const int64_t n : {1, 2, 255, 257, 5000, 65537, 200001}) {
    check_sorts<float>(DType::F32, 1, n);
    check_sorts<double>(DType::F64, 1, n);
    check_sorts<int64_t>(DType::I64, 1, n);
    check_sorts<int16_t>(DType::I16, 1, n);
    check_sorts<uint8_t>(DType::U8, 1, n);
  }
  check_sorts<float>(DType::F32, 300, 700);
  check_sorts<int8_t>(DType::I8, 3, 70000);
  for (const int64_t n : {1, 2, 3, 7, 15, 16, 17, 40, 100, 300, 512, 513}) {
    check_sorts<float>(DType::F32, 1000, n);
    check_sorts<double>(DType::F64, 100, n);
    check_sorts<int32_t>(DType::I32, 1000, n);
    check_sorts<uint8_t>(DType::U8, 100, n);
  }
}

/// Ascending, descending and equal numbers, and ascending ones of which the last comes first.
TEST(Lines, SortedLinesKeepTheirOrder) {
  for (const int64_t n : {1, 2, 17, 300, 5000, 200001})
    for (const int kind : {0, 1, 2, 3}) {
      std::vector<float> data(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i)
        data[static_cast<size_t>(i)] = static_cast<float>(kind == 1 ? -i / 3 : kind == 2 ? 0 : i);
      if (kind == 3) data.back() = -1;
      std::vector<int64_t> order(data.size());
      const BufferView in = view(data, DType::F32, {n}), out = view(order, DType::I64, {n});
      for (const int64_t descending : {0, 1}) {
        const int64_t attributes[] = {0, descending};
        lines::argsort({&in, 1}, attributes, out);
        ASSERT_EQ(order, stably_sorted(data.data(), n, descending != 0)) << n << ", " << kind;
      }
    }
}

/// Checks sorts of lines of the last of three dimensions that lie by these strides.
void check_lying_sorts(const ir::Shape& sizes, const ir::Strides& strides) {
  const int64_t n = sizes[2], columns = sizes[1], count = sizes[0] * columns;
  std::vector<float> data = numbers<float>(static_cast<size_t>(count * n));
  std::vector<int64_t> order(data.size());
  const BufferView in{data.data(), DType::F32, sizes, strides};
  const int64_t attributes[] = {2, 0};
  lines::argsort({&in, 1}, attributes, view(order, DType::I64, sizes));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i / columns * strides[0] + i % columns * strides[1];
    std::vector<float> line;
    for (int64_t k = 0; k < n; ++k)
      line.push_back(data[static_cast<size_t>(first + k * int64_t{strides[2]})]);
    const auto expected = stably_sorted(line.data(), n, false);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), order.begin() + i * n)) << i;
  }
}

/// In any order of the dimensions in memory, and repeated.
TEST(Lines, LieInAnyOrder) {
  for (const ir::Shape& sizes :
       std::initializer_list<ir::Shape>{{7, 5, 9}, {2, 2, 9}, {2, 3, 2}, {3, 40, 5}, {40, 3, 5}}) {
    const int64_t a = sizes[0], b = sizes[1], c = sizes[2];
    for (const ir::Strides& strides : std::initializer_list<ir::Strides>{{b * c, c, 1},
                                                                         {c, a * c, 1},
                                                                         {1, a, a * b},
                                                                         {b, 1, a * b},
                                                                         {b * c, 1, b},
                                                                         {1, a * c, a},
                                                                         {0, c, 1},
                                                                         {c, 0, 1},
                                                                         {0, 1, b},
                                                                         {1, 0, a}})
      check_lying_sorts(sizes, strides);
  }
}

/// Keys whose first bits most have in common.
TEST(Lines, SortsOfLongKeysLookAtAllOfThem) {
  for (const int64_t n : {300, 3000, 70000})
    for (const int shared : {0, 20, 40}) {
      std::mt19937_64 random(static_cast<uint64_t>(n));
      std::vector<int64_t> data(static_cast<size_t>(n)), order(data.size());
      for (int64_t& v : data)
        v = static_cast<int64_t>((random() % 3 << 62) + (random() % 5 << 40) +
                                 (random() >> shared >> 24));
      const BufferView in = view(data, DType::I64, {n}), out = view(order, DType::I64, {n});
      const int64_t attributes[] = {0, 0};
      lines::argsort({&in, 1}, attributes, out);
      ASSERT_EQ(order, stably_sorted(data.data(), n, false)) << n << ", " << shared;
    }
}

/// All but a few lie in one part of the range of keys, and most of those in one part of that.
template <class T>
std::vector<T> crowded(size_t n) {
  std::mt19937_64 random(n);
  std::vector<T> out(n);
  for (T& v : out) {
    const uint64_t kind = random() % 1000;
    v = T{1} + static_cast<T>(random() % 30000) * std::numeric_limits<T>::epsilon();
    if (kind == 0) v = std::numeric_limits<T>::quiet_NaN();
    if (kind == 1) v = -std::numeric_limits<T>::max() / static_cast<T>(random() % 7 + 1);
    if (kind > 900) v += static_cast<T>(random() % 1000);
  }
  return out;
}

template <class T>
void check_crowded_sort(DType dtype, int64_t n) {
  std::vector<T> data = crowded<T>(static_cast<size_t>(n));
  std::vector<int64_t> order(data.size());
  const BufferView in = view(data, dtype, {n}), out = view(order, DType::I64, {n});
  for (const int64_t descending : {0, 1}) {
    const int64_t attributes[] = {0, descending};
    for (const int threads : {1, 3}) {
      const tandem::testing::Threads some(threads);
      lines::argsort({&in, 1}, attributes, out);
      ASSERT_EQ(order, stably_sorted(data.data(), n, descending != 0))
          << ir::name(dtype) << " " << n;
    }
  }
}

TEST(Lines, SortsOfCrowdedKeysAreStable) {
  for (const int64_t n : {30, 200, 450, 512, 500000}) {
    check_crowded_sort<float>(DType::F32, n);
    check_crowded_sort<double>(DType::F64, n);
  }
}

/// The first `kept` of [n] numbers, and of as many that lie apart.
template <class T>
void check_first(DType dtype, int64_t n, int64_t kept) {
  constexpr int64_t kApart = 3;
  std::vector<T> data = numbers<T>(static_cast<size_t>(n * kApart));
  for (const int64_t apart : {int64_t{1}, kApart})
    for (const int64_t descending : {0, 1}) {
      std::vector<T> line;
      for (int64_t i = 0; i < n; ++i) line.push_back(data[static_cast<size_t>(i * apart)]);
      std::vector<int64_t> found(static_cast<size_t>(kept));
      const BufferView in{data.data(), dtype, {n}, {apart}};
      const int64_t attributes[] = {0, kept, descending};
      lines::topk_indices({&in, 1}, attributes, view(found, DType::I64, {kept}));
      const auto expected = stably_sorted(line.data(), n, descending != 0);
      ASSERT_TRUE(std::ranges::equal(found, std::span(expected).first(found.size())))
          << ir::name(dtype) << " " << kept << " of " << n << ", " << apart << " apart";
    }
}

TEST(Lines, TheFirstFewAreThoseOfTheSort) {
  for (const auto& [n, kept] : std::initializer_list<std::pair<int64_t, int64_t>>{{1, 1},
                                                                                  {9, 4},
                                                                                  {15, 1},
                                                                                  {16, 1},
                                                                                  {16, 16},
                                                                                  {17, 3},
                                                                                  {129, 1},
                                                                                  {1000, 5},
                                                                                  {1000, 62},
                                                                                  {1000, 63},
                                                                                  {5003, 300}}) {
    check_first<float>(DType::F32, n, kept);
    check_first<double>(DType::F64, n, kept);
    check_first<int64_t>(DType::I64, n, kept);
    check_first<int16_t>(DType::I16, n, kept);
    check_first<uint8_t>(DType::U8, n, kept);
  }
}

/// cummax's positions, or cummin's, in each line of the middle dimension of [outer, n, inner].
template <class T>
void check_extrema(DType dtype, int64_t outer, int64_t n, int64_t inner, bool is_max) {
  std::vector<T> data(static_cast<size_t>(outer * n * inner));
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<T>(static_cast<int>(i * 7 % 11) - 5);  // with many equals
    if constexpr (std::is_floating_point_v<T>) {
      if (i % 13 == 5) data[i] = -T(0);
      if (i % 61 == 60) data[i] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  std::vector<int64_t> found(data.size()), wanted(data.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i)
      for (int64_t k = 0, best = 0; k < n; ++k) {
        const auto at = [&](int64_t j) { return static_cast<size_t>((o * n + j) * inner + i); };
        const T v = data[at(k)], held = data[at(best)];
        if (v != v || (held == held && (is_max ? v >= held : v <= held))) best = k;
        wanted[at(k)] = best;
      }
  const ir::Shape sizes{outer, n, inner};
  const BufferView in = view(data, dtype, sizes);
  const std::array<int64_t, 1> dim{1};
  (is_max ? lines::cummax_indices : lines::cummin_indices)({&in, 1}, dim,
                                                           view(found, DType::I64, sizes));
  EXPECT_EQ(found, wanted) << ir::name(dtype) << " [" << outer << ", " << n << ", " << inner << "]";
}

TEST(Lines, ExtremaSoFarAreTheLastOfEqualsOrTheLastNaN) {
  for (const auto& [outer, n, inner] : std::initializer_list<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 200, 1}, {7, 90, 1}, {2, 65, 3}, {2, 65, 16}, {3, 40, 37}, {4, 0, 5}})
    for (const bool is_max : {true, false}) {
      check_extrema<float>(DType::F32, outer, n, inner, is_max);
      check_extrema<double>(DType::F64, outer, n, inner, is_max);
      check_extrema<int64_t>(DType::I64, outer, n, inner, is_max);
      check_extrema<int8_t>(DType::I8, outer, n, inner, is_max);
    }
}

/// The positions that each selection finds in [40, 3000] numbers, along either dimension.
std::vector<std::vector<int64_t>> selections() {
  std::vector<float> data = numbers<float>(120000);
  const BufferView in = view(data, DType::F32, {40, 3000});
  std::vector<std::vector<int64_t>> found;
  const auto run = [&](LineFunction function, std::vector<int64_t> attributes, int64_t kept) {
    const auto dim = static_cast<int>(attributes[0]);
    ir::Shape sizes{40, 3000};
    sizes[dim] = kept;
    found.emplace_back(static_cast<size_t>(int64_t{ir::numel(sizes)}));
    function({&in, 1}, attributes, view(found.back(), DType::I64, sizes));
  };
  for (const int64_t dim : {0, 1}) {
    run(lines::argsort, {dim, 0}, dim == 0 ? 40 : 3000);
    run(lines::topk_indices, {dim, 17, 1}, 17);
    run(lines::kth_index, {dim, 21}, 1);
    run(lines::median_index, {dim, 1}, 1);
    run(lines::mode_index, {dim}, 1);
    run(lines::cummax_indices, {dim}, dim == 0 ? 40 : 3000);
  }
  return found;
}

/// Elements [outer, line, inner] of a larger tensor: the line's elements lie `apart` from each
/// other, neighbouring lines one or more, and `gap` others behind the inner dimensions.
struct Scanned {
  int64_t outer, line, inner, apart, gap = 3;

  ir::Shape sizes() const { return {outer, line, inner}; }
  ir::Strides strides() const { return {line * inner * apart + gap, inner * apart, apart}; }
  size_t at(int64_t o, int64_t k, int64_t i) const {
    return static_cast<size_t>(o * (line * inner * apart + gap) + (k * inner + i) * apart);
  }
  size_t elements() const { return at(outer - 1, line - 1, inner - 1) + 1; }
};

/// (Which of two NaNs an operation gives is the compiler's choice.)
template <class T>
bool have_equal_bits(T a, T b) {
  const bool are_nan = load(a) != load(a) && load(b) != load(b);
  return are_nan || std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// numbers() as they are stored.
template <class T>
std::vector<T> stored_numbers(size_t n) {
  std::vector<T> out;
  for (const Compute<T> v : numbers<Compute<T>>(n)) out.push_back(store<T>(v));
  return out;
}

template <class T, class S>
void check_scans(DType dtype, const Scanned& s) {
  std::vector<T> x = stored_numbers<T>(s.elements()), factors = x, y(x.size()), expected(x.size());
  std::ranges::reverse(factors);
  const auto view_of = [&](std::vector<T>& v) {
    return BufferView{v.data(), dtype, s.sizes(), s.strides()};
  };
  const BufferView in[] = {view_of(x), view_of(factors)};
  const auto check = [&](LineFunction function, size_t operands, auto first, auto next) {
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i = 0; i < s.inner; ++i) {
        S state{};
        for (int64_t k = 0; k < s.line; ++k) {
          const size_t at = s.at(o, k, i);
          const S term = static_cast<S>(load(x[at])), factor = static_cast<S>(load(factors[at]));
          state = k == 0 ? first(term) : next(state, term, factor);
          expected[at] = store<T>(static_cast<Compute<T>>(state));
        }
      }
    const int64_t dim = 1;
    function({in, operands}, {&dim, 1}, view_of(y));
    EXPECT_TRUE(std::ranges::equal(y, expected, have_equal_bits<T>))
        << ir::name(dtype) << " " << ir::to_string(s.sizes()) << ", " << s.apart << " apart";
  };
  check(lines::cumsum, 1, [](S v) { return S{0} + v; }, [](S sum, S v, S) { return sum + v; });
  check(
      lines::cumprod, 1, [](S v) { return S{1} * v; },
      [](S product, S v, S) { return product * v; });
  check(
      lines::linear_scan, 2, [](S v) { return v; },
      [](S state, S v, S factor) { return factor * state + v; });
}

TEST(Lines, ScansOfAnyLinesAreStepByStep) {
  for (const Scanned& s : std::initializer_list<Scanned>{
           {1, 1, 1, 1},     {1, 700, 1, 1},     {3, 50, 1, 1},     {67, 30, 1, 2},
           {37, 1, 1, 1},    {23, 5, 1, 1},      {7, 32, 3, 1},     {45, 33, 1, 1},
           {2, 300, 3, 2},   {2, 40, 16, 1},     {2, 40, 16, 2},    {2, 300, 16, 1},
           {35, 257, 1, 1},  {3, 9, 37, 1},      {1, 3, 5000, 1},   {5000, 3, 1, 1},
           {5001, 1, 1, 1},  {39, 1, 1, 3},      {1, 1, 5003, 1},   {1, 1, 35, 2},
           {1001, 16, 1, 2}, {5000, 3, 1, 1, 0}, {67, 31, 1, 1, 0}, {67, 32, 1, 1, 0}}) {
    check_scans<float, double>(DType::F32, s);
    check_scans<double, double>(DType::F64, s);
    check_scans<Bf16, double>(DType::BF16, s);
    check_scans<F16, double>(DType::F16, s);
    check_scans<int64_t, uint64_t>(DType::I64, s);
    check_scans<int16_t, uint64_t>(DType::I16, s);
  }
}

TEST(Lines, DoNotDependOnThreads) {
  std::vector<std::vector<int64_t>> alone;
  {
    const tandem::testing::Threads one(1);
    alone = selections();
  }
  const tandem::testing::Threads four(4);
  EXPECT_EQ(selections(), alone);
}

TEST(Lines, SelectionsAreOfTheSort) {
  const auto found = selections();
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t* sorted = found[6].data() + i * 3000;
    EXPECT_EQ(found[8][static_cast<size_t>(i)], sorted[21]);
  }
}

/// Two lines side by side, so that elements of each lie apart: what is found in `places` of the
/// sorted lines, and their medians.
template <class T>
void check_places(DType dtype, std::vector<T> data) {
  const auto n = static_cast<int64_t>(data.size() / 2);
  const BufferView in = view(data, dtype, {n, 2});
  std::vector<int64_t> found(2);
  const BufferView out = view(found, DType::I64, {1, 2});
  for (const int64_t line : {0, 1}) {
    std::vector<T> one;
    for (int64_t i = 0; i < n; ++i) one.push_back(data[static_cast<size_t>(2 * i + line)]);
    const std::vector<int64_t> order = stably_sorted(one.data(), n, false);
    const int64_t nans = std::ranges::count_if(one, [](T x) { return x != x; });
    const auto check = [&](LineFunction function, std::vector<int64_t> attributes, int64_t place) {
      function({&in, 1}, attributes, out);
      EXPECT_EQ(found[static_cast<size_t>(line)], order[static_cast<size_t>(place)])
          << ir::name(dtype) << " " << n << ", place " << place;
    };
    for (const int64_t k : {int64_t{0}, int64_t{1}, n / 3, n / 2, n - 2, n - 1})
      check(lines::kth_index, {0, k}, k);
    check(lines::median_index, {0, 0}, nans > 0 ? n - nans : (n - 1) / 2);
    check(lines::median_index, {0, 1}, nans < n ? (n - nans - 1) / 2 : 0);
  }
}

template <class T>
void check_long_places(DType dtype) {
  for (const size_t n : {8191, 8192, 20000, 150001}) {
    std::vector<T> data = numbers<T>(2 * n);
    check_places(dtype, data);
    std::vector<T> rising = data;
    std::ranges::sort(rising, [](T x, T y) { return y != y ? x == x : x < y; });
    check_places(dtype, rising);
    for (size_t i = 0; i < data.size(); ++i)  // what a sample in steps sees is not what there is
      if (i / 2 % (n / 1024) == 0) data[i] = static_cast<T>(99);
    check_places(dtype, data);
    check_places(dtype, std::vector<T>(2 * n, static_cast<T>(3)));
    if constexpr (std::is_floating_point_v<T>) {
      for (size_t i = 0; i < data.size(); ++i)
        if (i % 5 != 0) data[i] = std::numeric_limits<T>::quiet_NaN();
      check_places(dtype, data);
      check_places(dtype, std::vector<T>(2 * n, std::numeric_limits<T>::quiet_NaN()));
    }
  }
}

TEST(Lines, PlacesOfFewElementsAreThoseOfTheSort) {
  for (size_t n = 2; n <= 20; ++n) {
    check_places(DType::F32, numbers<float>(2 * n));
    check_places(DType::F64, numbers<double>(2 * n));
    check_places(DType::I64, numbers<int64_t>(2 * n));
    check_places(DType::U8, numbers<uint8_t>(2 * n));
    check_places(DType::F32, std::vector<float>(2 * n, std::numeric_limits<float>::quiet_NaN()));
  }
}

TEST(Lines, PlacesOfLongLinesAreThoseOfTheSort) {
  check_long_places<float>(DType::F32);
  check_long_places<double>(DType::F64);
  check_long_places<int64_t>(DType::I64);
  check_long_places<int16_t>(DType::I16);
  check_long_places<uint8_t>(DType::U8);
}

TEST(Lines, SearchesFindBothEndsOfEqualElements) {
  std::vector<double> sorted = {1, 2, 2, 3, std::nan("")}, values(40000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 5);
  std::vector<int64_t> found(values.size());
  const BufferView in[] = {view(sorted, DType::F64, {5}), view(values, DType::F64, {40000})};
  const std::vector<int64_t> lower = {0, 0, 1, 3, 4}, upper = {0, 1, 3, 4, 4};
  for (const int64_t right : {0, 1}) {
    const std::vector<int64_t>& expected = right != 0 ? upper : lower;
    lines::searchsorted(in, {&right, 1}, view(found, DType::I64, {40000}));
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i % 5]) << i;
  }
}

/// Of values [3, count] in sorted lines [3, n] (or one, [n]), whose elements lie `apart`.
template <class T>
void check_searches(DType dtype, int64_t n, int64_t count, int64_t apart, bool is_one_line) {
  const auto lines = int64_t{is_one_line ? 1 : 3};
  std::vector<T> sorted(static_cast<size_t>(lines * n * apart)), values = numbers<T>(3 * count);
  const auto before = [](T x, T y) { return y != y ? x == x : x < y; };
  std::vector<int64_t> found(values.size());
  for (int64_t l = 0; l < lines; ++l) {
    std::vector<T> line = numbers<T>(static_cast<size_t>(n + l));
    std::ranges::sort(line, before);
    for (int64_t i = 0; i < n; ++i) sorted[(l * n + i) * apart] = line[static_cast<size_t>(i)];
  }
  const ir::Shape sizes = is_one_line ? ir::Shape{n} : ir::Shape{lines, n};
  const ir::Strides strides = is_one_line ? ir::Strides{apart} : ir::Strides{n * apart, apart};
  const BufferView in[] = {{sorted.data(), dtype, sizes, strides}, view(values, dtype, {3, count})};
  for (const int64_t right : {0, 1}) {
    lines::searchsorted(in, {&right, 1}, view(found, DType::I64, {3, count}));
    for (size_t i = 0; i < found.size(); ++i) {
      int64_t expected = 0;
      const size_t line = is_one_line ? 0 : i / static_cast<size_t>(count);
      for (int64_t k = 0; k < n; ++k) {
        const T v = sorted[(static_cast<int64_t>(line) * n + k) * apart];
        expected += right != 0 ? !before(values[i], v) : before(v, values[i]);
      }
      ASSERT_EQ(found[i], expected) << ir::name(dtype) << " " << n << " " << right;
    }
  }
}

TEST(Lines, SearchesCountWhatComesBefore) {
  for (const int64_t n : {0, 1, 2, 3, 7, 8, 100, 1023, 1025})
    for (const int64_t count : {1, 8, 101, 1027})
      for (const bool is_one_line : {false, true}) {
        check_searches<float>(DType::F32, n, count, 1, is_one_line);
        check_searches<double>(DType::F64, n, count, 3, is_one_line);
        check_searches<int64_t>(DType::I64, n, count, 1, is_one_line);
        check_searches<uint8_t>(DType::U8, n, count, 2, is_one_line);
      }
}

// On a line that is not sorted too, it does not matter how many values are looked for.
TEST(Lines, SearchesOfOneValueAreThoseOfMany) {
  std::vector<float> line = numbers<float>(100), values = numbers<float>(500);
  std::vector<int64_t> found(500), alone(1);
  const BufferView in[] = {view(line, DType::F32, {100}), view(values, DType::F32, {500})};
  for (const int64_t right : {0, 1}) {
    lines::searchsorted(in, {&right, 1}, view(found, DType::I64, {500}));
    for (size_t i = 0; i < values.size(); ++i) {
      const BufferView one[] = {in[0], {&values[i], DType::F32, {1}, {1}}};
      lines::searchsorted(one, {&right, 1}, view(alone, DType::I64, {1}));
      ASSERT_EQ(found[i], alone[0]) << i << " " << right;
    }
  }
}

}  // namespace
}  // namespace tandem::machine
