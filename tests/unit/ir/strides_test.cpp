#include "ir/strides.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/support/expect_error.h"

namespace tandem::ir {
namespace {

TEST(Strides, MemoryOrder) {
  EXPECT_EQ(memory_order({3, 1}), Axes({0, 1}));
  EXPECT_EQ(memory_order({1, 12, 4}), Axes({1, 2, 0}));
  EXPECT_EQ(memory_order({0, 1, 0}), Axes({1, 0, 2}));
  EXPECT_EQ(memory_order({-3, 1}), Axes({0, 1}));
  EXPECT_EQ(memory_order({1, -12, 4}), Axes({1, 2, 0}));
  EXPECT_EQ(memory_order({}), Axes());
}

TEST(Strides, SelfOverlap) {
  EXPECT_FALSE(self_overlaps({2, 3}, {3, 1}));
  EXPECT_FALSE(self_overlaps({2, 3}, {1, 2}));
  EXPECT_FALSE(self_overlaps({2, 3}, {100, 7}));
  EXPECT_FALSE(self_overlaps({1, 3}, {0, 1}));
  EXPECT_FALSE(self_overlaps({}, {}));
  EXPECT_FALSE(self_overlaps({0, 3}, {0, 0}));
  EXPECT_TRUE(self_overlaps({2, 3}, {0, 1}));
  EXPECT_TRUE(self_overlaps({3, 4}, {1, 2}));
  EXPECT_TRUE(self_overlaps({2, 3}, {2, 1}));
}

TEST(Strides, Dense) {
  EXPECT_TRUE(is_dense({2, 3}, {3, 1}));
  EXPECT_TRUE(is_dense({2, 3}, {1, 2}));
  EXPECT_TRUE(is_dense({2, 1, 3}, {3, 77, 1}));
  EXPECT_TRUE(is_dense({}, {}));
  EXPECT_TRUE(is_dense({0, 3}, {5, 5}));
  EXPECT_FALSE(is_dense({2, 3}, {4, 1}));
  EXPECT_FALSE(is_dense({2, 3}, {0, 1}));
}

TEST(Strides, ExtentAndEnd) {
  EXPECT_EQ(extent({}, {}), 1);
  EXPECT_EQ(extent({2, 3}, {10, 2}), 15);
  EXPECT_EQ(extent({4}, {0}), 1);
  EXPECT_EQ(extent({2, 0}, {INT64_MAX, INT64_MAX}), 0);
  EXPECT_EQ(end_of({{2, 3}, {10, 2}, 5}), 20);
  EXPECT_EQ(end_of({{2, 0}, {10, 2}, 5}), 5);
  testing::expect_error(Errc::Argument, "here: 2 * 9223372036854775807 overflows 64 bits",
                        [] { extent({3}, {INT64_MAX}, "here"); });
  testing::expect_error(Errc::Argument, "overflows 64 bits",
                        [] { end_of({{2}, {INT64_MAX - 1}, 5}); });
}

// Against lists of all places, for every small pair of which the first has no overlap.
std::set<int64_t> places_of(const Placed& t) {
  std::set<int64_t> places{t.offset};
  if (numel(t.sizes) == 0) return {};
  for (int d = 0; d < t.sizes.rank(); ++d) {
    std::set<int64_t> next;
    for (const int64_t place : places)
      for (int64_t i = 0; i < t.sizes[d]; ++i) next.insert(place + i * int64_t{t.strides[d]});
    places = next;
  }
  return places;
}

TEST(Strides, HoldsWhatIsAmongItsPlaces) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % below); };
  int held = 0, compared = 0;
  while (compared < 20'000) {
    const Shape sizes[2] = {{1 + draw(4), 1 + draw(3), draw(4)}, {1 + draw(3), draw(4)}};
    const Strides strides[2] = {{draw(20), draw(8), draw(3)}, {draw(20), draw(5)}};
    if (self_overlaps(sizes[0], strides[0])) continue;
    const Placed whole{sizes[0], strides[0], draw(4)}, part{sizes[1], strides[1], draw(12)};
    const std::set<int64_t> all = places_of(whole), some = places_of(part);
    const bool expected = std::ranges::includes(all, some);
    EXPECT_EQ(holds(whole, part), expected) << to_string(sizes[0]) << to_string(strides[0])
                                            << to_string(sizes[1]) << to_string(strides[1]);
    held += expected;
    ++compared;
  }
  EXPECT_GT(held, 2'000);
}

}  // namespace
}  // namespace tandem::ir
