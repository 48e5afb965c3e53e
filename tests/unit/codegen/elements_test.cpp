// Which elements have places apart: against the places one by one.
#include "codegen/nodes/elements.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tandem::codegen {
namespace {

std::set<int64_t> places(const Elements& e, size_t run = 0) {
  if (run == e.runs.size()) return {e.offset};
  std::set<int64_t> all;
  for (int64_t i = 0; i < e.runs[run].size; ++i) {
    Elements at = e;
    at.offset += i * e.runs[run].stride;
    all.merge(places(at, run + 1));
  }
  return all;
}

bool meet(const Elements& a, const Elements& b) {
  const std::set<int64_t> x = places(a), y = places(b);
  return std::ranges::any_of(x, [&](int64_t place) { return y.contains(place); });
}

TEST(Elements, ThatMeetAreNotApart) {
  std::mt19937 random(7);
  const auto number = [&](int low, int high) {
    return static_cast<int64_t>(low +
                                static_cast<int>(random() % static_cast<uint32_t>(high - low)));
  };
  const auto some = [&] {
    Elements e{number(0, 60), {}};
    for (int64_t i = number(0, 4); i > 0; --i) e.runs.push_back({number(1, 4), number(-13, 13)});
    return e;
  };
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const Elements a = some(), b = some();
    if (!are_apart(a, b)) continue;
    ++apart;
    EXPECT_FALSE(meet(a, b));
  }
  EXPECT_GT(apart, 2000);
}

/// Parts of a tensor [5, 6, 7], each from `first` on, of `sizes`.
Elements part(const std::array<int64_t, 3>& first, const std::array<int64_t, 3>& sizes) {
  return {first[0] * 42 + first[1] * 7 + first[2], {{sizes[0], 42}, {sizes[1], 7}, {sizes[2], 1}}};
}

TEST(Elements, OfPartsThatDifferInACoordinateAreApart) {
  EXPECT_TRUE(are_apart(part({1, 0, 0}, {1, 6, 7}), part({2, 0, 0}, {3, 6, 7})));
  EXPECT_TRUE(are_apart(part({0, 1, 0}, {5, 2, 7}), part({0, 3, 0}, {5, 3, 7})));
  EXPECT_TRUE(are_apart(part({0, 0, 2}, {5, 6, 1}), part({0, 0, 3}, {5, 6, 4})));
  EXPECT_TRUE(are_apart(part({1, 2, 3}, {3, 2, 2}), part({0, 4, 0}, {5, 1, 7})));
  EXPECT_FALSE(are_apart(part({1, 2, 3}, {3, 2, 2}), part({0, 3, 0}, {5, 1, 7})));
}

}  // namespace
}  // namespace tandem::codegen
