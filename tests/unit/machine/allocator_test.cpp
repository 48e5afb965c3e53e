#include "machine/memory/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "ir/base/error.h"
#include "tests/support/forked.h"

namespace tandem::machine {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr size_t kMiB = size_t{1} << 20;

struct Allocator : ::testing::Test {
  void SetUp() override {
    bound = max_idle_bytes();
    release_idle_blocks();
    live = allocator_stats().live_bytes;
  }
  void TearDown() override {
    EXPECT_EQ(allocator_stats().live_bytes, live);
    set_max_idle_bytes(bound);
  }
  size_t bound = 0, live = 0;
};

TEST_F(Allocator, BlocksAreAlignedAndUsable) {
  for (size_t bytes = 0; bytes < 5 * kMiB; bytes = bytes * 5 / 4 + 1) {
    void* data = allocate(bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kBlockAlignment, 0u) << bytes;
    std::memset(data, 1, bytes);
    release(data, bytes);
  }
}

TEST_F(Allocator, LargerBlocksAreAlignedToPagesAndHugePages) {
  for (size_t bytes = kMiB / 16 + 1; bytes < 5 * kMiB; bytes += 77'777) {
    void* data = allocate(bytes);
    const size_t alignment = bytes >= 2 * kMiB ? 2 * kMiB : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % (kSanitized ? kBlockAlignment : alignment), 0u);
    release(data, bytes);
  }
}

TEST_F(Allocator, MediumBlocksWasteLittle) {
  if (kSanitized) GTEST_SKIP() << "blocks are malloc's";
  set_max_idle_bytes(64 * kMiB);
  for (size_t bytes = kMiB / 16 + 1; bytes < 2 * kMiB; bytes += 77'777) {
    release(allocate(bytes), bytes);
    EXPECT_LE(allocator_stats().idle_bytes, bytes + bytes / 16 + 4096) << bytes;
    release_idle_blocks();
  }
}

TEST_F(Allocator, ZeroedMemoryIsZeroFreshOrRecycled) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{100'000}, kMiB,
                             2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 1}) {
    for (int round = 0; round < 3; ++round) {
      auto* data = static_cast<uint8_t*>(allocate_zeroed(bytes));
      ASSERT_NE(data, nullptr);
      ASSERT_EQ(std::count(data, data + bytes, 0), static_cast<ptrdiff_t>(bytes)) << bytes;
      std::memset(data, 0xff, bytes);
      release(data, bytes);
      if (round == 1) release_idle_blocks();
    }
  }
}

TEST_F(Allocator, MemoryOfASlabGoesBackWithTheBound) {
  set_max_idle_bytes(kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate(400'000));
  for (void* b : blocks) {
    std::memset(b, 1, 400'000);
    release(b, 400'000);
  }
  EXPECT_LE(allocator_stats().idle_bytes, kMiB);
  for (int i = 0; i < 100; ++i) {  // what came back is the system's, so it is zero again
    blocks[i] = allocate_zeroed(400'000);
    const auto* p = static_cast<const uint8_t*>(blocks[i]);
    ASSERT_EQ(std::count(p, p + 400'000, 0), 400'000);
  }
  for (void* b : blocks) release(b, 400'000);
}

TEST_F(Allocator, BlocksOutliveAChangeOfTheBound) {
  std::vector<void*> blocks;
  for (const size_t bound : {0 * kMiB, 64 * kMiB, 0 * kMiB, 64 * kMiB}) {
    set_max_idle_bytes(bound);
    for (int i = 0; i < 10; ++i) blocks.push_back(allocate(100'000));
    if (blocks.size() < 20) continue;
    for (int i = 0; i < 10; ++i) {  // some made under the one bound, some under the other
      release(blocks.front(), 100'000);
      blocks.erase(blocks.begin());
    }
  }
  set_max_idle_bytes(0);
  for (void* b : blocks) release(b, 100'000);
  EXPECT_EQ(allocator_stats().idle_bytes, 0u);
}

TEST_F(Allocator, AForkedChildHasItsOwnMemory) {
  constexpr ptrdiff_t kBytes = 200'000;  // no threads in the child, which tsan would not have
  void* before = allocate_zeroed(kBytes);
  const auto has_its_own = [&] {
    std::memset(before, 1, kBytes);
    release(before, kBytes);
    auto* mine = static_cast<uint8_t*>(allocate_zeroed(kBytes));
    return std::count(mine, mine + kBytes, 0) == kBytes;
  };
  EXPECT_EQ(testing::status_in_child(has_its_own), 0);
  const auto* p = static_cast<const uint8_t*>(before);
  EXPECT_EQ(std::count(p, p + kBytes, 0), kBytes);
  release(before, kBytes);
}

TEST_F(Allocator, EverySizeGetsABlockThatHoldsIt) {
  for (size_t bytes = 1; bytes < 3000; ++bytes) {
    void* data = allocate(bytes);
    std::memset(data, 0xff, bytes);  // AddressSanitizer checks the class's size
    release(data, bytes);
  }
}

TEST_F(Allocator, ReusesWhatWasReleased) {
  for (const size_t bytes : {size_t{100}, size_t{100'000}, 3 * kMiB}) {
    void* first = allocate(bytes);
    release(first, bytes);
    void* second = allocate(bytes);
    EXPECT_EQ(second, first);
    release(second, bytes);
  }
}

TEST_F(Allocator, NullIsIgnored) { release(nullptr, 0); }

TEST_F(Allocator, CountsLiveAndPeak) {
  reset_peak_live_bytes();
  void* a = allocate(1000);
  void* b = allocate(kMiB);
  EXPECT_EQ(allocator_stats().live_bytes, live + 1000 + kMiB);
  release(b, kMiB);
  release(a, 1000);
  EXPECT_EQ(allocator_stats().peak_live_bytes, live + 1000 + kMiB);
  reset_peak_live_bytes();
  EXPECT_EQ(allocator_stats().peak_live_bytes, live);
}

TEST_F(Allocator, IdleBytesAreBounded) {
  set_max_idle_bytes(10 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocate(4 * kMiB));
  for (void* b : blocks) release(b, 4 * kMiB);
  EXPECT_EQ(allocator_stats().idle_bytes, 8 * kMiB);
}

TEST_F(Allocator, TheLeastRecentlyUsedClassGoesFirst) {
  set_max_idle_bytes(10 * kMiB);
  void* old = allocate(4 * kMiB);
  release(old, 4 * kMiB);
  void* fresh = allocate(8 * kMiB);
  release(fresh, 8 * kMiB);
  EXPECT_EQ(allocator_stats().idle_bytes, 8 * kMiB);
  void* again = allocate(8 * kMiB);
  EXPECT_EQ(again, fresh);
  release(again, 8 * kMiB);
}

// As a program of ever new sizes does, each step with several blocks of about one size.
TEST_F(Allocator, IdleMemoryOfOldSizesServesNewOnes) {
  if (kSanitized) GTEST_SKIP() << "blocks are malloc's";
  set_max_idle_bytes(4096 * kMiB);
  for (const size_t least : {100'000, 1'000'000, 20'000'000}) {
    size_t most = 0;
    for (size_t step = 0; step < 60; ++step) {
      const size_t bytes = least + step * 37 % 60 * (least / 30);
      for (int call = 0; call < 2; ++call) {
        std::vector<void*> blocks;
        for (int i = 0; i < 4; ++i) blocks.push_back(allocate(bytes));
        for (void* b : blocks) release(b, bytes);
      }
      most = std::max(most, allocator_stats().idle_bytes);
    }
    EXPECT_LE(most, 2 * 4 * 3 * least + 8 * kMiB) << least;  // the largest are 3 times the least
    release_idle_blocks();
  }
}

TEST_F(Allocator, AProgramThatRepeatsItselfTakesNoFreshMemory) {
  if (kSanitized) GTEST_SKIP() << "blocks are malloc's";
  set_max_idle_bytes(4096 * kMiB);
  const auto step = [] {
    std::vector<void*> found;
    for (const size_t bytes : {70'000, 20'000'000, 300'000, 3'000'000, 70'000, 40'000'000}) {
      found.push_back(allocate(bytes));
      release(found.back(), bytes);
    }
    return found;
  };
  step();
  const std::vector<void*> second = step();
  EXPECT_EQ(step(), second);
  EXPECT_EQ(step(), second);
}

TEST_F(Allocator, ABoundOfZeroTurnsCachingOff) {
  set_max_idle_bytes(0);
  for (const size_t bytes : {size_t{100}, size_t{100'000}, kMiB, 4 * kMiB})
    release(allocate(bytes), bytes);
  EXPECT_EQ(allocator_stats().idle_bytes, 0u);
}

TEST_F(Allocator, BlocksMayBeReleasedByAnotherThread) {
  void* data = allocate(100);
  std::thread([data] { release(data, 100); }).join();
  EXPECT_GE(allocator_stats().idle_bytes, 128u);  // the ending thread's cache became common
}

TEST_F(Allocator, ThreadsNeverShareABlock) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::mt19937 random(t);
      std::vector<std::pair<uint8_t*, size_t>> held;
      for (int round = 0; round < 3000; ++round) {
        const size_t bytes = 1 + random() % (round % 50 == 0 ? 300'000 : 2000);
        auto* data = static_cast<uint8_t*>(allocate(bytes));
        data[0] = data[bytes - 1] = static_cast<uint8_t>(t);
        held.emplace_back(data, bytes);
        if (held.size() < 20) continue;
        const auto [old, size] = held[random() % held.size()];
        ASSERT_EQ(old[0], t);
        ASSERT_EQ(old[size - 1], t);
        std::erase(held, std::pair(old, size));
        release(old, size);
      }
      for (const auto& [data, size] : held) release(data, size);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(Allocator, TooMuchIsAnError) {
  for (const size_t bytes : {SIZE_MAX, size_t{1} << 55}) {
    try {
      allocate(bytes);
      FAIL() << "no error";
    } catch (const ir::Error& e) {
      EXPECT_EQ(e.code(), ir::Errc::OutOfMemory);
    }
  }
}

}  // namespace
}  // namespace tandem::machine
