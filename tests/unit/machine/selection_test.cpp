// Ranks of elements, and what selections find in lines of every dtype, with the loops of every
// instruction set.
#include "machine/lines/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <valarray>
#include <vector>

#include "machine/lines/lines.h"
#include "tests/support/threads.h"
#include "tests/unit/machine/instruction_sets.h"

namespace tandem::machine::lines {
namespace {

template <class T>
class Elements : public ::testing::Test {};
using Types =
    ::testing::Types<float, double, Bf16, F16, int64_t, int32_t, int16_t, int8_t, uint8_t, bool>;
TYPED_TEST_SUITE(Elements, Types);

/// Any bits, and often those that are something special: zeros, infinities, NaN, the extremes.
template <class T>
T any_element(std::mt19937_64& random) {
  using Bits = std::make_unsigned_t<Rank<T>>;
  auto bits = static_cast<Bits>(random());
  if constexpr (std::is_same_v<T, bool>) return bits % 2 != 0;
  const Bits special[] = {0,
                          static_cast<Bits>(kLeastRank<T>),
                          static_cast<Bits>(kInfinite<T>),
                          static_cast<Bits>(kInfinite<T> | kLeastRank<T>),
                          static_cast<Bits>(kInfinite<T> + 1),
                          static_cast<Bits>(kLastRank<T>),
                          static_cast<Bits>(~Bits{0}),
                          1};
  if (random() % 4 == 0) bits = special[random() % std::size(special)];
  return __builtin_bit_cast(T, bits);
}

/// (Not a vector: that of bool has no elements in memory.)
template <class T>
std::valarray<T> any_elements(int64_t n, std::mt19937_64& random) {
  std::valarray<T> out(static_cast<size_t>(n));
  for (T& x : out) x = any_element<T>(random);
  return out;
}

/// By comparisons of numbers: NaN behind all others.
template <class T>
bool is_less(T a, T b) {
  const auto x = load(a), y = load(b);
  return y != y ? x == x : x < y;
}

TYPED_TEST(Elements, RanksAndKeysHaveTheOrderOfNumbers) {
  using T = TypeParam;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const T a = any_element<T>(random), b = any_element<T>(random);
    ASSERT_EQ(rank_of(a) < rank_of(b), is_less(a, b)) << +load(a) << " " << +load(b);
    ASSERT_EQ(key_of(a, false) < key_of(b, false), is_less(a, b));
    ASSERT_EQ(key_of(a, true) < key_of(b, true), is_less(b, a));
  }
}

template <class T>
bool comes_later(Rank<T> a, Rank<T> b, bool descending) {
  return descending ? a < b : a > b;
}

TYPED_TEST(Elements, LoopsOfEachInstructionSetFindTheSame) {
  using T = TypeParam;
  std::mt19937_64 random(2);
  for (int i = 0; i < 400; ++i) {
    const auto n = static_cast<int64_t>(random() % 300 + 1);
    const int64_t size = int64_t{8} << random() % 6;
    const bool descending = random() % 2 != 0;
    const std::valarray<T> x = any_elements<T>(n, random);
    const Rank<T> bound = rank_of(x[random() % x.size()]);
    std::vector<Rank<T>> first;
    std::vector<int32_t> places;
    for (int64_t e = 0; e < n; ++e) {
      const Rank<T> rank = rank_of(x[static_cast<size_t>(e)]);
      if (e % size == 0)
        first.push_back(rank);
      else if (comes_later<T>(first.back(), rank, descending))
        first.back() = rank;
      if (!comes_later<T>(rank, bound, descending)) places.push_back(static_cast<int32_t>(e));
    }
    for (const Selections* kernels :
         those_that_run(kSelectionsBase, kSelectionsAvx2, kSelectionsAvx512)) {
      const auto& kernel = std::get<Selection<T>>(*kernels);
      std::vector<Rank<T>> found(first.size());
      kernel.first_of_groups(&x[0], n, size, descending, found.data());
      EXPECT_EQ(found, first) << n << " by " << size;
      std::vector<int32_t> up_to(x.size());
      up_to.resize(static_cast<size_t>(kernel.up_to(&x[0], n, bound, descending, up_to.data())));
      EXPECT_EQ(up_to, places) << n;
    }
  }
}

template <class T>
DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::F32;
  if constexpr (std::is_same_v<T, double>) return DType::F64;
  if constexpr (std::is_same_v<T, Bf16>) return DType::BF16;
  if constexpr (std::is_same_v<T, F16>) return DType::F16;
  if constexpr (std::is_same_v<T, int64_t>) return DType::I64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::I32;
  if constexpr (std::is_same_v<T, int16_t>) return DType::I16;
  if constexpr (std::is_same_v<T, int8_t>) return DType::I8;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::U8;
  return DType::Bool;
}

/// The first `kept` of lines of n elements, `apart` from each other.
template <class T>
void check_first(const std::valarray<T>& data, int64_t lines, int64_t n, int64_t apart,
                 int64_t kept, bool descending) {
  std::vector<int64_t> found(static_cast<size_t>(lines * kept));
  const ir::BufferView in{const_cast<T*>(&data[0]), dtype_of<T>(), {lines, n}, {n * apart, apart}},
      out{found.data(), DType::I64, {lines, kept}, {kept, 1}};
  const int64_t attributes[] = {1, kept, descending ? 1 : 0};
  topk_indices({&in, 1}, attributes, out);
  for (int64_t l = 0; l < lines; ++l) {
    const auto at = [&](int64_t i) { return data[static_cast<size_t>((l * n + i) * apart)]; };
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
      return descending ? is_less(at(b), at(a)) : is_less(at(a), at(b));
    });
    order.resize(static_cast<size_t>(kept));
    ASSERT_TRUE(std::equal(order.begin(), order.end(), found.begin() + l * kept))
        << kept << " of " << n << ", " << apart << " apart, descending " << descending;
  }
}

TYPED_TEST(Elements, TheFirstFewOfAnyLines) {
  using T = TypeParam;
  std::mt19937_64 random(3);
  for (int i = 0; i < 60; ++i) {
    const auto n = static_cast<int64_t>(random() % (i % 10 == 0 ? 9000 : 700) + 1);
    const auto lines = static_cast<int64_t>(random() % 4 + 1);
    const auto apart = static_cast<int64_t>(random() % 3 + 1);
    const auto kept =
        static_cast<int64_t>(random() % static_cast<uint64_t>(std::min(n, n / 8 + 2)));
    const std::valarray<T> data = any_elements<T>(lines * n * apart, random);
    for (const bool descending : {false, true})
      check_first(data, lines, n, apart, kept, descending);
  }
}

TYPED_TEST(Elements, TheFirstFewOfALongLineByAnyNumberOfThreads) {
  using T = TypeParam;
  std::mt19937_64 random(4);
  constexpr int64_t kLong = 150'001;
  const std::valarray<T> data = any_elements<T>(kLong, random);
  for (const int threads : {1, 4}) {
    const tandem::testing::Threads some(threads);
    for (const int64_t kept : {1, 40, 9000}) check_first(data, 1, kLong, 1, kept, true);
  }
}

}  // namespace
}  // namespace tandem::machine::lines
