#include "machine/memory/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>

namespace tandem::machine {
namespace {

bool all(const void* data, size_t bytes, uint8_t value) {
  const auto* p = static_cast<const uint8_t*>(data);
  return std::all_of(p, p + bytes, [value](uint8_t b) { return b == value; });
}

TEST(Slabs, BlocksLieSideBySideAndBeginAsZeros) {
  Slabs slabs;
  auto* a = static_cast<uint8_t*>(slabs.take(5 * kSlabUnit));
  auto* b = static_cast<uint8_t*>(slabs.take(3 * kSlabUnit));
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(b, a + 5 * kSlabUnit);
  EXPECT_TRUE(all(a, 8 * kSlabUnit, 0));
  EXPECT_EQ(slabs.count(), 1u);
  slabs.give_back(a, 5 * kSlabUnit);
  slabs.give_back(b, 3 * kSlabUnit);
}

TEST(Slabs, ABlockGivenBackIsZeroWhenTakenAgain) {
  Slabs slabs;
  void* stays = slabs.take(kSlabUnit);
  void* first = slabs.take(100 * kSlabUnit);
  std::memset(first, 1, 100 * kSlabUnit);
  slabs.give_back(first, 100 * kSlabUnit);
  void* again = slabs.take(60 * kSlabUnit);
  EXPECT_EQ(again, first);
  EXPECT_TRUE(all(again, 60 * kSlabUnit, 0));
  slabs.give_back(again, 60 * kSlabUnit);
  slabs.give_back(stays, kSlabUnit);
}

TEST(Slabs, ASlabWithoutBlocksGoesBackToTheSystem) {
  Slabs slabs;
  void* a = slabs.take(kSlabBytes);
  void* b = slabs.take(kSlabBytes);
  EXPECT_EQ(slabs.count(), 2u);
  slabs.give_back(a, kSlabBytes);
  EXPECT_EQ(slabs.count(), 1u);
  EXPECT_FALSE(slabs.owns(a));
  EXPECT_TRUE(slabs.owns(b));
  slabs.give_back(b, kSlabBytes);
  EXPECT_EQ(slabs.count(), 0u);
}

TEST(Slabs, OwnsNothingElse) {
  Slabs slabs;
  auto* a = static_cast<uint8_t*>(slabs.take(kSlabUnit));
  const int outside = 0;
  EXPECT_TRUE(slabs.owns(a));
  EXPECT_FALSE(slabs.owns(&outside));
  EXPECT_FALSE(slabs.owns(a + kSlabBytes));
  slabs.give_back(a, kSlabUnit);
}

TEST(Slabs, RandomBlocksNeverOverlapAndAlwaysBeginAsZeros) {
  Slabs slabs;
  std::mt19937 random(7);
  std::map<uint8_t*, size_t> held;
  for (int round = 0; round < 2000; ++round) {
    if (held.size() < 40 || random() % 2 == 0) {
      const size_t bytes = (1 + random() % (round % 10 == 0 ? 512 : 40)) * kSlabUnit;
      auto* data = static_cast<uint8_t*>(slabs.take(bytes));
      ASSERT_NE(data, nullptr);
      ASSERT_TRUE(all(data, bytes, 0)) << round;
      const auto after = held.lower_bound(data);
      ASSERT_TRUE(after == held.end() || data + bytes <= after->first);
      ASSERT_TRUE(after == held.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= data);
      std::memset(data, 0xff, bytes);
      held.emplace(data, bytes);
    } else {
      const auto old = std::next(held.begin(), random() % held.size());
      slabs.give_back(old->first, old->second);
      held.erase(old);
    }
  }
  for (const auto& [data, bytes] : held) slabs.give_back(data, bytes);
  EXPECT_EQ(slabs.count(), 0u);
}

}  // namespace
}  // namespace tandem::machine
