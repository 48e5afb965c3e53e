// A loader's workers: passes that end, are left, and fail, with operations in every thread.
#include <gtest/gtest.h>
#include <tandem/data.h>
#include <tandem/tandem.h>

#include <stdexcept>

namespace tandem {
namespace {

/// Item 40 cannot be made.
auto items(int64_t n) {
  return data::MapDataset(data::TensorDataset(arange(n), randn({n, 5})),
                          [](const std::pair<Tensor, Tensor>& item, data::Random& random) {
                            if (item.first.item<int64_t>() == 40) throw std::range_error("forty");
                            return std::pair(item.first, item.second * random.uniform());
                          });
}

TEST(LoaderThreads, PassesEndAreLeftAndFail) {
  for (const int workers : {1, 4}) {
    for (const int64_t left_after : {0, 1, 7, 1000}) {
      data::DataLoader loader(items(left_after == 7 ? 60 : 40),
                              {.batch_size = 3, .num_workers = workers, .prefetch_factor = 3});
      int64_t given = 0;
      try {
        auto it = loader.begin();
        for (; it != nullptr && given < left_after; ++it) {
          EXPECT_EQ(it->first[0].item<int64_t>(), 3 * given);
          ++given;
        }
        it = loader.begin();  // while workers of the pass before it are at work
        for (; it != nullptr; ++it) EXPECT_EQ(it->second.size(1), 5);
        EXPECT_NE(left_after, 7);
      } catch (const std::range_error&) {
        EXPECT_EQ(left_after, 7);
      }
    }
  }
}

TEST(LoaderThreads, SeveralLoadersShareADataSet) {
  const auto dataset = items(30);
  data::DataLoader a(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2});
  data::DataLoader b(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2});
  auto other = b.begin();
  for (const auto& [x, y] : a) {
    EXPECT_TRUE(equal(x, other->first));
    EXPECT_TRUE(equal(y, other->second));
    ++other;
  }
  EXPECT_TRUE(other == nullptr);
}

}  // namespace
}  // namespace tandem
