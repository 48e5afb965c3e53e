#include "machine/threads/pressure.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tandem::machine {
namespace {

/// Whether a thread on one processor with a busy one sees it within ten seconds.
bool seen() {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load(std::memory_order_relaxed)) {
    }
  });
  Pressure pressure;
  const auto start = Pressure::Clock::now();
  bool high = false;
  for (auto now = start; !high && now - start < std::chrono::seconds(10);
       now = Pressure::Clock::now())
    high = pressure.looks_high(now);
  stop = true;
  busy.join();
  return high;
}

TEST(Pressure, OfABusyThreadOnTheSameProcessor) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "the kernel does not count";
  bool high = false;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // of the busy thread too
    high = seen();
  }).join();
  EXPECT_TRUE(high);
}

TEST(Pressure, NothingIsKnownOfAThreadAtFirst) {
  Pressure pressure;
  EXPECT_FALSE(pressure.looks_high(Pressure::Clock::now()));
  std::thread([&] {
    EXPECT_FALSE(pressure.looks_high(Pressure::Clock::now() + 10 * Pressure::kApart));
  }).join();
}

}  // namespace
}  // namespace tandem::machine
