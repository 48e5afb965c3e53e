// Runs of halves: the bits of single elements, by every instruction set and at every length.
#include "machine/halves/halves.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "tests/unit/machine/instruction_sets.h"

namespace tandem::machine {
namespace {

template <class T>
class HalvesTest : public testing::Test {
 protected:
  static std::vector<const Halves*> those() {
    if (!cpu_features().f16c) return {&kHalvesBase};
    return those_that_run(kHalvesBase, kHalvesAvx2, kHalvesAvx512);
  }
  static void expect_narrowed(const std::vector<float>& x) {
    const auto n = static_cast<int64_t>(x.size());
    for (const Halves* set : those()) {
      std::vector<T> got(x.size() + 1, T{0x1234});
      std::get<HalfRuns<T>>(*set).narrow(x.data(), n, got.data());
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(got[i].bits, store<T>(x[i]).bits) << std::bit_cast<uint32_t>(x[i]);
      ASSERT_EQ(got[x.size()].bits, 0x1234);
    }
  }
  static void expect_widened(const std::vector<T>& x) {
    const auto n = static_cast<int64_t>(x.size());
    for (const Halves* set : those()) {
      std::vector<float> got(x.size() + 1, 7);
      std::get<HalfRuns<T>>(*set).widen(x.data(), n, got.data());
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(load(x[i])))
            << x[i].bits;
      ASSERT_EQ(got[x.size()], 7);
    }
  }
};

using Types = testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(HalvesTest, Types);

TYPED_TEST(HalvesTest, EveryPattern) {
  std::vector<TypeParam> x;
  for (int bits = 0; bits <= 0xffff; ++bits) x.push_back({static_cast<uint16_t>(bits)});
  this->expect_widened(x);
}

TYPED_TEST(HalvesTest, EveryLength) {
  std::mt19937 random(3);
  for (size_t n = 0; n <= 70; ++n) {
    std::vector<TypeParam> halves(n);
    std::vector<float> wide(n);
    for (auto& h : halves) h.bits = static_cast<uint16_t>(random());
    for (float& f : wide) f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    this->expect_widened(halves);
    this->expect_narrowed(wide);
  }
}

/// Around every pattern, its neighbours and the middles between them: what rounding depends on.
TYPED_TEST(HalvesTest, NarrowsAroundEveryPattern) {
  std::vector<float> x;
  for (int pattern = 0; pattern <= 0xffff; ++pattern) {
    const auto bits = std::bit_cast<uint32_t>(load(TypeParam{static_cast<uint16_t>(pattern)}));
    for (const uint32_t off : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
      x.push_back(std::bit_cast<float>(bits + off));
      x.push_back(std::bit_cast<float>(bits - off));
    }
  }
  this->expect_narrowed(x);
}

}  // namespace
}  // namespace tandem::machine
