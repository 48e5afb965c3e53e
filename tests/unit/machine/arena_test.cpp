#include "machine/memory/arena.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "ir/base/error.h"

namespace tandem::machine {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Arena : testing::Test {
  void SetUp() override { release_idle_arenas(); }
};

TEST_F(Arena, IsAlignedAndLargeEnough) {
  const ArenaLease lease = borrow_arena(5 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.data()) % kArenaAlignment, 0u);
  EXPECT_EQ(lease.bytes(), 6 * kMiB);
  lease.data()[0] = lease.data()[5 * kMiB - 1] = 1;
}

TEST_F(Arena, NoBytesNoArena) {
  const ArenaLease lease = borrow_arena(0);
  EXPECT_EQ(lease.data(), nullptr);
  EXPECT_EQ(arena_stats().leased_bytes, 0u);
}

TEST_F(Arena, IsReused) {
  const uint8_t* first = borrow_arena(kMiB).data();
  EXPECT_EQ(arena_stats().idle_arenas, 1u);
  EXPECT_EQ(borrow_arena(2 * kMiB).data(), first);
}

TEST_F(Arena, ConcurrentLeasesDiffer) {
  const ArenaLease a = borrow_arena(kMiB), b = borrow_arena(kMiB);
  EXPECT_NE(a.data(), b.data());
  EXPECT_EQ(arena_stats().leased_bytes, 4 * kMiB);
}

TEST_F(Arena, MovingKeepsOneOwner) {
  ArenaLease a = borrow_arena(kMiB);
  const uint8_t* data = a.data();
  ArenaLease b = std::move(a);
  EXPECT_EQ(b.data(), data);
  b = ArenaLease();
  EXPECT_EQ(arena_stats().leased_bytes, 0u);
  EXPECT_EQ(arena_stats().idle_arenas, 1u);
}

TEST_F(Arena, ASmallRequestLeavesTheLargeArenaToOthers) {
  borrow_arena(200 * kMiB);
  EXPECT_EQ(borrow_arena(kMiB).bytes(), 200 * kMiB);  // there are none
  const ArenaLease other = borrow_arena(100 * kMiB);
  borrow_arena(300 * kMiB);
  const ArenaLease small = borrow_arena(kMiB);
  EXPECT_EQ(small.bytes(), 2 * kMiB);
  EXPECT_EQ(arena_stats().idle_bytes, 300 * kMiB);
}

TEST_F(Arena, CallsInTurnHoldOneArena) {
  for (const size_t mebibytes : {2, 10, 4, 100, 6, 60, 200, 8}) {
    borrow_arena(mebibytes * kMiB);
    EXPECT_EQ(arena_stats().idle_arenas, 1u) << mebibytes;
  }
  EXPECT_EQ(arena_stats().idle_bytes, 200 * kMiB);
}

TEST_F(Arena, IdleArenasAreBounded) {
  std::vector<ArenaLease> leases;
  for (size_t i = 0; i < 2 * kMaxIdleArenas; ++i) leases.push_back(borrow_arena(kMiB));
  leases.clear();
  EXPECT_EQ(arena_stats().idle_arenas, kMaxIdleArenas);
  EXPECT_EQ(arena_stats().leased_bytes, 0u);
}

TEST_F(Arena, ThreadsBorrowAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 50; ++round) {
        const ArenaLease lease = borrow_arena(kMiB * (1 + round % 3));
        lease.data()[100] = static_cast<uint8_t>(t);
        std::this_thread::yield();
        ASSERT_EQ(lease.data()[100], t);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(arena_stats().idle_arenas, kMaxIdleArenas);
}

TEST_F(Arena, TooMuchIsAnError) {
  for (const size_t bytes : {SIZE_MAX, size_t{1} << 55}) {
    try {
      borrow_arena(bytes);
      FAIL() << "no error";
    } catch (const ir::Error& e) {
      EXPECT_EQ(e.code(), ir::Errc::OutOfMemory);
    }
  }
}

}  // namespace
}  // namespace tandem::machine
