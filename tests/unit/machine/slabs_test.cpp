#include "machine/memory/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>

#include "machine/memory/pages.h"

namespace tandem::machine {
namespace {

bool all(const void* data, size_t bytes, uint8_t value) {
  const auto* p = static_cast<const uint8_t*>(data);
  return std::all_of(p, p + bytes, [value](uint8_t b) { return b == value; });
}

uint8_t* take(Slabs& slabs, size_t bytes) { return static_cast<uint8_t*>(slabs.take(bytes).data); }

TEST(Slabs, BlocksLieSideBySideAndBeginAsZeros) {
  Slabs slabs;
  auto* a = take(slabs, 5 * kSlabUnit);
  auto* b = take(slabs, 3 * kSlabUnit);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(b, a + 5 * kSlabUnit);
  EXPECT_TRUE(all(a, 8 * kSlabUnit, 0));
  EXPECT_EQ(slabs.count(), 1u);
  slabs.give_back(a, 5 * kSlabUnit);
  slabs.give_back(b, 3 * kSlabUnit);
}

TEST(Slabs, WhatWasGivenBackServesOtherSizesWithItsPages) {
  Slabs slabs;
  uint8_t* stays = take(slabs, kSlabUnit);
  uint8_t* first = take(slabs, 100 * kSlabUnit);
  std::memset(first, 1, 100 * kSlabUnit);
  slabs.give_back(first, 100 * kSlabUnit);
  EXPECT_EQ(slabs.free_bytes(), 100 * kSlabUnit);
  const SlabBlock again = slabs.take(60 * kSlabUnit);
  EXPECT_EQ(again.data, first);
  EXPECT_FALSE(again.zero);
  const SlabBlock beyond = slabs.take(50 * kSlabUnit);  // ten units of it were never touched
  EXPECT_EQ(beyond.data, first + 60 * kSlabUnit);
  EXPECT_FALSE(beyond.zero);
  EXPECT_EQ(slabs.free_bytes(), 0u);
  slabs.give_back(again.data, 60 * kSlabUnit);
  slabs.give_back(beyond.data, 50 * kSlabUnit);
  EXPECT_EQ(slabs.free_bytes(), 110 * kSlabUnit);
  slabs.drop_free();
  EXPECT_EQ(slabs.free_bytes(), 0u);
  EXPECT_EQ(slabs.take(110 * kSlabUnit).data, first);
  EXPECT_TRUE(all(first, 110 * kSlabUnit, 0));
  slabs.give_back(first, 110 * kSlabUnit);
  slabs.give_back(stays, kSlabUnit);
}

TEST(Slabs, LargeBlocksBeginAtHugePages) {
  Slabs slabs;
  uint8_t* small = take(slabs, kSlabUnit);
  uint8_t* large = take(slabs, kHugePage);
  uint8_t* between = take(slabs, kSlabUnit);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % kHugePage, 0u);
  EXPECT_EQ(between, small + kSlabUnit);
  slabs.give_back(small, kSlabUnit);
  slabs.give_back(large, kHugePage);
  slabs.give_back(between, kSlabUnit);
}

TEST(Slabs, SlabsWithoutBlocksGoBackToTheSystem) {
  Slabs slabs;
  void* a = take(slabs, kSlabBytes);
  void* b = take(slabs, kSlabBytes);
  EXPECT_EQ(slabs.count(), 2u);
  slabs.give_back(a, kSlabBytes);
  EXPECT_EQ(slabs.count(), 2u);
  slabs.drop_free();
  EXPECT_EQ(slabs.count(), 1u);
  EXPECT_FALSE(slabs.owns(a));
  EXPECT_TRUE(slabs.owns(b));
  slabs.give_back(b, kSlabBytes);
  slabs.drop_free();
  EXPECT_EQ(slabs.count(), 0u);
}

TEST(Slabs, OwnsNothingElse) {
  Slabs slabs;
  auto* a = take(slabs, kSlabUnit);
  const int outside = 0;
  EXPECT_TRUE(slabs.owns(a));
  EXPECT_FALSE(slabs.owns(&outside));
  EXPECT_FALSE(slabs.owns(a + kSlabBytes));
  slabs.give_back(a, kSlabUnit);
}

TEST(Slabs, RandomBlocksNeverOverlapAndAreZeroIfTheySaySo) {
  Slabs slabs;
  std::mt19937 random(7);
  std::map<uint8_t*, size_t> held;
  for (int round = 0; round < 2000; ++round) {
    if (held.size() < 40 || random() % 2 == 0) {
      const size_t bytes = (1 + random() % (round % 10 == 0 ? 512 : 40)) * kSlabUnit;
      const SlabBlock block = slabs.take(bytes);
      auto* data = static_cast<uint8_t*>(block.data);
      ASSERT_NE(data, nullptr);
      ASSERT_TRUE(!block.zero || all(data, bytes, 0)) << round;
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
      if (round % 50 == 0) slabs.drop_free();
    }
  }
  for (const auto& [data, bytes] : held) slabs.give_back(data, bytes);
  slabs.drop_free();
  EXPECT_EQ(slabs.count(), 0u);
}

}  // namespace
}  // namespace tandem::machine
