#include "machine/threads/shares.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tandem::machine {
namespace {

constexpr auto kAlways = [] { return true; };

/// How often each unit is claimed when share after share is used up, `most` pieces at a time.
std::vector<int> claimed(const Cut& cut, int most) {
  Shares shares;
  const int pieces = shares.open(cut, 1);
  std::vector<int> hits(static_cast<size_t>(cut.units));
  int found = 0;
  for (int s = 0; s < cut.shares; ++s)
    for (Claim c; !(c = shares.claim(s, 1, most, kAlways)).empty();) {
      found += c.pieces();
      EXPECT_LE(c.pieces(), most);
      const auto [begin, end] = units_of(cut, s, c);
      EXPECT_GE(end - begin, cut.piece * c.pieces());
      for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
    }
  EXPECT_EQ(found, pieces);
  return hits;
}

TEST(Shares, EveryUnitIsClaimedOnce) {
  for (const int threads : {2, 3, 7, 16, 40})
    for (const int64_t grain : {1, 2, 5, 100})
      for (const int64_t units : {threads * grain, threads * grain + 1, int64_t{9973}}) {
        if (units < threads * grain) continue;
        const Cut cut = cut_for(units, grain, threads);
        EXPECT_GE(cut.piece, grain);
        for (const int most : {1, 3, kMostPieces})
          EXPECT_EQ(claimed(cut, most), std::vector<int>(static_cast<size_t>(units), 1));
      }
}

TEST(Shares, AShareIsClaimedByHalves) {
  Shares shares;
  EXPECT_EQ(shares.open(cut_for(20, 1, 2), 1), 20);
  std::vector<int> sizes;
  for (Claim c; !(c = shares.claim(0, 1, kMostPieces, kAlways)).empty();)
    sizes.push_back(c.pieces());
  EXPECT_EQ(sizes, (std::vector<int>{5, 3, 1, 1}));
}

TEST(Shares, ARegionThatIsOverHasNothingLeft) {
  Shares shares;
  const Cut cut = cut_for(20, 1, 2);
  shares.open(cut, 7);
  EXPECT_TRUE(shares.claim(0, 6, 1, kAlways).empty());
  EXPECT_TRUE(shares.claim(0, 8, 1, kAlways).empty());
  EXPECT_TRUE(shares.claim(0, 7, 1, [] { return false; }).empty());
  EXPECT_EQ(shares.claim(0, 7, 1, kAlways).pieces(), 1);
  shares.open(cut, 8);
  EXPECT_TRUE(shares.claim(0, 7, 1, kAlways).empty());
  // Where a claim is overtaken by the next region between its look and its grasp, it gets nothing.
  const auto overtaken = [&] { return shares.open(cut, 9) > 0; };
  EXPECT_TRUE(shares.claim(1, 8, 1, overtaken).empty());
}

TEST(Shares, ThreadsClaimDifferentPieces) {
  Shares shares;
  const Cut cut = cut_for(4096, 1, 16);
  for (uint32_t epoch = 1; epoch < 50; ++epoch) {
    const int pieces = shares.open(cut, epoch);
    std::atomic<int> found{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int s = 0; s < cut.shares; ++s)
          for (Claim c; !(c = shares.claim(s, epoch, 2, kAlways)).empty();) found += c.pieces();
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(found, pieces);
  }
}

}  // namespace
}  // namespace tandem::machine
