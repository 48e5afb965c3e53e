#include "ir/base/inline_vector.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::ir {
namespace {

/// Counts the objects that live; the copy after `copies_left` others throws.
struct Fragile {
  static inline int alive = 0, copies_left = 0;
  std::string text = std::string(40, 'x');  // memory, which the sanitizer would miss

  Fragile() { ++alive; }
  Fragile(const Fragile& other) : text(other.text) {
    if (copies_left-- == 0) throw std::runtime_error("copy");
    ++alive;
  }
  Fragile(Fragile&& other) noexcept : text(std::move(other.text)) { ++alive; }
  Fragile& operator=(const Fragile&) = delete;
  Fragile& operator=(Fragile&&) = delete;
  ~Fragile() { --alive; }
};

TEST(InlineVector, LeavesNothingBehindWhenACopyThrows) {
  for (const size_t size : {2u, 3u, 9u}) {
    std::vector<Fragile> items(size);
    Fragile::copies_left = static_cast<int>(size);
    const InlineVector<Fragile, 2> whole(items);
    for (size_t good = 0; good < size; ++good) {
      const auto expect_throw = [&](const auto& make) {
        Fragile::copies_left = static_cast<int>(good);
        EXPECT_THROW(make(), std::runtime_error) << good << " of " << size;
        EXPECT_EQ(Fragile::alive, static_cast<int>(2 * size));
      };
      expect_throw([&] { const InlineVector<Fragile, 2> copy(whole); });
      expect_throw([&] { const InlineVector<Fragile, 2> copy(items); });
    }
  }
}

TEST(InlineVector, FilledLeavesNothingBehindEither) {
  const Fragile item;
  for (const int good : {0, 1, 4}) {
    Fragile::copies_left = good;
    EXPECT_THROW((InlineVector<Fragile, 2>(5, item)), std::runtime_error);
    EXPECT_EQ(Fragile::alive, 1);
  }
}

TEST(InlineVector, IsWhatItWasWhenAnAppendThrows) {
  InlineVector<Fragile, 2> list;
  list.push_back(Fragile());
  const std::vector<Fragile> more(4);
  Fragile::copies_left = 2;
  EXPECT_THROW(list.append(more), std::runtime_error);
  EXPECT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].text, std::string(40, 'x'));
}

}  // namespace
}  // namespace tandem::ir
