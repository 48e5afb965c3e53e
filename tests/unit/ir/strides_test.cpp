#include "ir/strides.h"

#include <gtest/gtest.h>

namespace tandem::ir {
namespace {

TEST(Strides, MemoryOrder) {
  EXPECT_EQ(memory_order({3, 1}), Dims({0, 1}));
  EXPECT_EQ(memory_order({1, 12, 4}), Dims({1, 2, 0}));
  EXPECT_EQ(memory_order({0, 1, 0}), Dims({1, 0, 2}));
  EXPECT_EQ(memory_order({}), Dims());
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

}  // namespace
}  // namespace tandem::ir
