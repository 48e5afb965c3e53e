// Blocks between guard pages: what is written beside one ends the process.
#include "machine/memory/guarded.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace tandem::machine {
namespace {

/// This process does not run in the mode: then a block begins behind a guard page.
volatile uint8_t* block(size_t bytes) { return static_cast<uint8_t*>(allocate_guarded(bytes)); }

TEST(Guarded, BlocksAreUsable) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{100'000}}) {
    void* const data = allocate_guarded(bytes);
    ASSERT_NE(data, nullptr);
    std::memset(data, 1, bytes);
    release_guarded(data, bytes);
  }
}

TEST(GuardedDeathTest, TouchingAGuardPageEndsTheProcess) {
  volatile uint8_t* const data = block(100);
  EXPECT_DEATH(data[-1] = 1, "");
  EXPECT_DEATH(data[4096] = 1, "");
}

TEST(GuardedDeathTest, WritingBesideABlockIsFoundWhenItIsReleased) {
  volatile uint8_t* const data = block(100);
  EXPECT_DEATH((data[100] = 1, release_guarded(const_cast<uint8_t*>(data), 100)), "behind a block");
}

TEST(GuardedDeathTest, PagesOfAnArenaAreProtected) {
  auto* const arena = static_cast<volatile uint8_t*>(allocate_guarded_arena(3 * 4096));
  protect_pages(const_cast<uint8_t*>(arena), std::array<int64_t, 1>{4096});
  arena[4095] = 1;
  arena[2 * 4096] = 1;
  EXPECT_DEATH(arena[4096] = 1, "");
  release_guarded_arena(const_cast<uint8_t*>(arena), size_t{3} * 4096);
}

}  // namespace
}  // namespace tandem::machine
