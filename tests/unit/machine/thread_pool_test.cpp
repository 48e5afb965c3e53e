#include "machine/threads/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "machine/threads/processors.h"
#include "tests/support/forked.h"
#include "tests/support/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::machine {
namespace {

using testing::status_in_child;
using testing::Threads;

/// Runs regions until `done()` says so or ten seconds are over, and returns what it says.
template <class Done>
bool eventually(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done())
    if (std::chrono::steady_clock::now() > deadline) return false;
  return true;
}

/// Takes some microseconds.
void work() {
  for (int i = 0; i < 5000; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// Whether so many threads take part in regions, if not all in the same one.
bool runs_on(int threads) {
  std::vector<std::atomic<bool>> took_part(static_cast<size_t>(threads));
  return eventually([&] {
    parallel_for(40 * threads, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) work();
      took_part[static_cast<size_t>(worker)] = true;
    });
    return std::ranges::all_of(took_part, [](const auto& t) { return t.load(); });
  });
}

/// How often each unit ran.
std::vector<int> count_units(int64_t units, int64_t grain) {
  std::vector<std::atomic<int>> hits(units);
  parallel_for(units, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) ++hits[i];
  });
  return {hits.begin(), hits.end()};
}

TEST(ThreadPool, EveryUnitRunsOnce) {
  for (const int threads : {1, 2, 3, 5, 16}) {
    const Threads set(threads);
    for (const int64_t units : {0, 1, 2, 3, 7, 16, 1000}) {
      EXPECT_EQ(count_units(units, 1), std::vector<int>(units, 1))
          << threads << " threads, " << units << " units";
    }
  }
}

TEST(ThreadPool, AllThreadsTakePart) {
  for (const int threads : {2, 3, 5}) {
    const Threads set(threads);
    EXPECT_TRUE(runs_on(threads)) << threads;
  }
}

// Nobody gets on in the region before all have come: those who sleep are woken, by whomever.
TEST(ThreadPool, AllWhoSleepAreWoken) {
  for (const int threads : {2, 3, 5, 16, 40}) {
    const Threads set(threads);
    for (int round = 0; round < 5; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::atomic<int> here{0};
      std::atomic<bool> all_came{true};
      parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
        here += static_cast<int>(end - begin);
        if (!eventually([&] { return std::this_thread::yield(), here == threads; }))
          all_came = false;
      });
      EXPECT_TRUE(all_came) << threads << " threads";
    }
  }
}

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    const Threads set(threads);
    for (const int64_t count : {0, 1, 2, 7, 40}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      parallel_tasks(count, [&](int64_t task) { ++hits[static_cast<size_t>(task)]; });
      EXPECT_EQ(std::vector<int>(hits.begin(), hits.end()),
                std::vector<int>(static_cast<size_t>(count), 1))
          << threads << " threads, " << count << " tasks";
    }
  }
}

/// Two tasks, of which the worker's, should it have taken one, goes on for `time` alone.
void run_tasks_of_unlike_length(std::chrono::milliseconds time) {
  std::atomic<bool> begun{false};
  parallel_tasks(2, [&](int64_t task) {
    if (task == 0) {
      eventually([&] { return begun.load(); });
    } else {
      begun = true;
      std::this_thread::sleep_for(time);
    }
  });
}

// Who has waited for a worker that the system put aside keeps the next regions to itself for eight
// times as long; who has waited for a long task does not.
TEST(ThreadPool, ALongTaskKeepsNoWorkersFromLaterRegions) {
  if (available_processors() < 2) return;
  const Threads set(2);
  assume_processors(0);
  for (int i = 0; i < 2; ++i)  // a first wait would be forgiven
    run_tasks_of_unlike_length(std::chrono::milliseconds(1300));
  EXPECT_TRUE(runs_on(2));
}

TEST(ThreadPool, NoMoreThreadsThanProcessors) {
  const Threads set(8);
  assume_processors(2);
  for (int round = 0; round < 100; ++round)
    parallel_for(100, 1, [](int64_t, int64_t, int worker) { EXPECT_LT(worker, 2); });
}

TEST(ThreadPool, RangesOfAWorkerDoNotOverlapInTime) {
  const Threads set(4);
  std::vector<std::atomic<bool>> busy(4);
  for (int round = 0; round < 200; ++round)
    parallel_for(64, 1, [&](int64_t, int64_t, int worker) {
      EXPECT_FALSE(busy[static_cast<size_t>(worker)].exchange(true));
      work();
      busy[static_cast<size_t>(worker)] = false;
    });
}

TEST(ThreadPool, LateWorkersTouchNothingOfARegionThatIsOver) {
  const Threads set(6);
  for (int round = 0; round < 20000; ++round) {
    const auto hits = std::make_unique<std::vector<std::atomic<int>>>(12);
    const auto count = [](void* context, int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        ++(*static_cast<std::vector<std::atomic<int>>*>(context))[static_cast<size_t>(i)];
    };
    parallel_for(static_cast<int64_t>(hits->size()), 1 + round % 3, count, hits.get());
    ASSERT_TRUE(std::ranges::all_of(*hits, [](const auto& n) { return n == 1; }));
  }
}

/// What a fresh process says of TANDEM_NUM_THREADS=`value` inside an operation: exits with the
/// number, or prints why not and exits with 0, a parallel region having run.
[[noreturn]] void try_variable(const char* value) {
  setenv("TANDEM_NUM_THREADS", value, 1);
  unsetenv("OMP_NUM_THREADS");
  const bool all_run = count_units(100, 1) == std::vector<int>(100, 1);
  const ir::ErrorScope operation(std::source_location::current(), "randn");
  try {
    std::exit(all_run ? num_threads() : 255);
  } catch (const ir::Error& e) {
    std::fputs(e.what(), stderr);
    std::exit(e.code() == ir::Errc::Argument ? 0 : 255);
  }
}

TEST(ThreadPoolDeathTest, TheVariableIsANumberOfThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(try_variable("1"), ::testing::ExitedWithCode(1), "");
  EXPECT_EXIT(try_variable("7"), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(try_variable(""), ::testing::ExitedWithCode(available_processors()), "");
  for (const char* wrong : {"0", "-1", "257", "2x", " 2", "two", "1e3", "99999999999999999999"})
    EXPECT_EXIT(
        try_variable(wrong), ::testing::ExitedWithCode(0),
        std::string("randn: TANDEM_NUM_THREADS: not a number of threads; expected 1 to 256, got ") +
            wrong)
        << wrong;
}

#if defined(__x86_64__)
TEST(ThreadPool, WorkersTakeTheCallersFloatMode) {
  const Threads set(3);
  const unsigned before = _mm_getcsr();
  for (const unsigned mode : {before | _MM_FLUSH_ZERO_ON, before}) {
    _mm_setcsr(mode);
    std::array<std::atomic<int>, 3> ranges{}, equal{};
    EXPECT_TRUE(eventually([&] {
      parallel_for(60, 1, [&](int64_t, int64_t, int worker) {
        work();
        ++ranges[static_cast<size_t>(worker)];
        equal[static_cast<size_t>(worker)] +=
            (_mm_getcsr() & _MM_FLUSH_ZERO_MASK) == (mode & _MM_FLUSH_ZERO_MASK);
      });
      return std::ranges::all_of(ranges, [](const auto& n) { return n > 0; });
    }));
    for (size_t w = 0; w < 3; ++w) EXPECT_EQ(equal[w], ranges[w]);
  }
  _mm_setcsr(before);
}
#endif

#if !defined(__SANITIZE_THREAD__)  // its runtime does not follow threads that start after a fork
TEST(ThreadPool, AForkedChildMakesItsOwnWorkers) {
  const Threads set(3);
  count_units(30, 1);
  const auto works = [] { return runs_on(3); };
  EXPECT_EQ(status_in_child(works), 0);
  EXPECT_EQ(status_in_child([&] { return works() && status_in_child(works) == 0; }), 0)
      << "a child of a child";
  EXPECT_TRUE(works());
}

/// Seconds that 200 regions of some microseconds a unit take beside `others` busy threads.
double seconds_beside(int others) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < others; ++i)
    busy.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 200; ++round)
    parallel_for(64, 1, [](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) work();
    });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  stop = true;
  for (std::thread& t : busy) t.join();
  return seconds.count();
}

TEST(ThreadPool, OnABusyProcessorRegionsTakeAboutAsLongAsOnOneThread) {
  const auto works = [] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);  // of the workers too, which do not exist yet
    const auto seconds_on = [](int threads) {
      const Threads set(threads);
      return seconds_beside(2);
    };
    for (int attempt = 0; attempt < 5; ++attempt) {  // other processes come and go between the two
      const double alone = seconds_on(1), together = seconds_on(3);
      std::printf("one thread %.3f s, three %.3f s\n", alone, together);
      if (together < 3 * alone) return true;
    }
    return false;
  };
  EXPECT_EQ(status_in_child(works, 60), 0);
}

#if !defined(__SANITIZE_ADDRESS__)  // the child's leak check would miss what only the parent's
                                    // threads refer to
TEST(ThreadPool, AForkedChildMayRunExitHandlers) {
  const Threads set(3);
  count_units(30, 1);
  // The pool's destructor must not wait for workers that are not there.
  EXPECT_EQ(status_in_child([]() -> bool { std::exit(0); }), 0);
}
#endif
#endif

}  // namespace
}  // namespace tandem::machine
