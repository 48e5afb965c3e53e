#include "codegen/exec/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "ir/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::exec {
namespace {

/// Sets the number of threads for a test.
struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

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

TEST(ThreadPool, RangesAreContiguousAndBalanced) {
  const Threads set(4);
  std::vector<std::pair<int64_t, int64_t>> ranges(4, {-1, -1});
  parallel_for(10, 1,
               [&](int64_t begin, int64_t end, int worker) { ranges[worker] = {begin, end}; });
  const std::vector<std::pair<int64_t, int64_t>> expected = {{0, 3}, {3, 6}, {6, 8}, {8, 10}};
  EXPECT_EQ(ranges, expected);
}

TEST(ThreadPool, ShortWorkStaysOnTheCaller) {
  const Threads set(4);
  const auto caller = std::this_thread::get_id();
  parallel_for(100, 51, [&](int64_t begin, int64_t end, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 100);
    EXPECT_EQ(worker, 0);
  });
}

TEST(ThreadPool, GrainBoundsTheThreads) {
  const Threads set(8);
  std::atomic<int> ranges{0};
  parallel_for(100, 40, [&](int64_t begin, int64_t end, int) {
    ++ranges;
    EXPECT_GE(end - begin, 40);
  });
  EXPECT_EQ(ranges, 2);
}

TEST(ThreadPool, PlainFunctionForm) {
  const Threads set(3);
  std::atomic<int64_t> sum{0};
  const auto add = [](void* context, int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) *static_cast<std::atomic<int64_t>*>(context) += i;
  };
  parallel_for(101, 1, add, &sum);
  EXPECT_EQ(sum, 5050);
}

TEST(ThreadPool, NestedRegionsRunOnTheirOwnThread) {
  const Threads set(4);
  std::atomic<int> inner_units{0};
  parallel_for(4, 1, [&](int64_t, int64_t, int) {
    const auto self = std::this_thread::get_id();
    parallel_for(8, 1, [&](int64_t begin, int64_t end, int worker) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(worker, 0);
      inner_units += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(inner_units, 32);
}

TEST(ThreadPool, ConcurrentCallersBothFinish) {
  const Threads set(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        parallel_for(12, 1, [&](int64_t begin, int64_t end, int) { total += end - begin; });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(total, 4 * 500 * 12);
}

TEST(ThreadPool, WorksAfterWorkersFellAsleep) {
  const Threads set(3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(count_units(9, 1), std::vector<int>(9, 1));
    usleep(3000);
  }
}

TEST(ThreadPool, ThreadCountIsChecked) {
  EXPECT_THROW(set_num_threads(0), ir::Error);
  EXPECT_THROW(set_num_threads(kMaxThreads + 1), ir::Error);
}

#if defined(__x86_64__)
TEST(ThreadPool, WorkersTakeTheCallersFloatMode) {
  const Threads set(3);
  const unsigned before = _mm_getcsr();
  for (const unsigned mode : {before | _MM_FLUSH_ZERO_ON, before}) {
    _mm_setcsr(mode);
    std::vector<unsigned> seen(3);
    parallel_for(3, 1, [&](int64_t, int64_t, int worker) {
      seen[worker] = _mm_getcsr() & _MM_FLUSH_ZERO_MASK;
    });
    EXPECT_EQ(seen, std::vector<unsigned>(3, mode & _MM_FLUSH_ZERO_MASK));
  }
  _mm_setcsr(before);
}
#endif

#if !defined(__SANITIZE_THREAD__)  // its runtime does not follow threads that start after a fork
/// The exit status of `body` run in a forked child, which is killed after ten seconds.
template <typename F>
int status_in_child(F body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(ThreadPool, AForkedChildMakesItsOwnWorkers) {
  const Threads set(3);
  count_units(30, 1);
  const auto works = [] {
    std::atomic<int> ranges{0};
    parallel_for(30, 1, [&](int64_t, int64_t, int) { ++ranges; });
    return ranges == 3;
  };
  EXPECT_EQ(status_in_child(works), 0);
  EXPECT_EQ(status_in_child([&] { return works() && status_in_child(works) == 0; }), 0)
      << "a child of a child";
  EXPECT_TRUE(works());
}

#if !defined(__SANITIZE_ADDRESS__)  // the child's leak check would miss what only the parent's
                                    // threads refer to
TEST(ThreadPool, AForkedChildMayRunExitHandlers) {
  const Threads set(3);
  count_units(30, 1);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    std::exit(0);  // the pool's destructor must not wait for workers that are not there
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif
#endif

}  // namespace
}  // namespace tandem::exec
