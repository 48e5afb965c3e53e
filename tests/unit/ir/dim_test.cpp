#include "ir/dim.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

std::vector<int64_t> counted(int rank) {
  std::vector<int64_t> numbers(static_cast<size_t>(rank));
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

std::vector<int64_t> numbers_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// A few numbers lie inline, more do not: each operation is tried on either side and across.
class PerDimOfRank : public ::testing::TestWithParam<int> {};

TEST_P(PerDimOfRank, IsCopiedMovedAndAssigned) {
  const std::vector<int64_t> numbers = counted(GetParam());
  for (int other = 0; other <= kMaxRank; ++other) {
    Shape shape = numbers, copy = shape, target = counted(other);
    target = copy;
    EXPECT_EQ(numbers_of(target), numbers);
    target = counted(other);
    target = std::move(copy);
    EXPECT_EQ(numbers_of(target), numbers);
    const Shape& self = target;
    target = self;
    EXPECT_EQ(target, shape);
    copy = Shape(counted(other));  // what was moved from can be assigned to
    EXPECT_EQ(numbers_of(copy), counted(other));
    std::swap(copy, shape);
    EXPECT_EQ(numbers_of(copy), numbers);
    EXPECT_EQ(numbers_of(shape), counted(other));
  }
}

TEST_P(PerDimOfRank, GrowsAndShrinksAtEachPlace) {
  const std::vector<int64_t> numbers = counted(GetParam());
  for (int at = 0; at <= GetParam() && GetParam() < kMaxRank; ++at) {
    Shape shape = numbers;
    shape.insert(at, 77);
    std::vector<int64_t> expected = numbers;
    expected.insert(expected.begin() + at, 77);
    EXPECT_EQ(numbers_of(shape), expected);
    shape.erase(at);
    EXPECT_EQ(numbers_of(shape), numbers);
    const Shape copy = shape;
    shape.push_back(78);
    EXPECT_EQ(shape.back(), 78);
    shape.back() = 79;
    shape.back() += 1;
    EXPECT_EQ(numbers_of(shape).back(), 80);
    EXPECT_EQ(numbers_of(copy), numbers);
  }
}

TEST_P(PerDimOfRank, IsFilled) {
  EXPECT_EQ(numbers_of(Shape::filled(GetParam(), 3)),
            std::vector<int64_t>(static_cast<size_t>(GetParam()), 3));
}

INSTANTIATE_TEST_SUITE_P(Ranks, PerDimOfRank, ::testing::Range(0, kMaxRank + 1));

TEST(PerDim, OfTooManyDimensionsIsAnErrorThatChangesNothing) {
  Shape shape = counted(kMaxRank);
  EXPECT_THROW(shape.push_back(1), Error);
  EXPECT_THROW(shape.insert(0, 1), Error);
  EXPECT_EQ(numbers_of(shape), counted(kMaxRank));
  EXPECT_THROW(Shape(counted(kMaxRank + 1)), Error);
  EXPECT_THROW(Shape::filled(kMaxRank + 1, 1), Error);
}

}  // namespace
}  // namespace tandem::ir
