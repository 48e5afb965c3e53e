// The thread pool: persistent workers, each with its own cache line to wait on, and one shared
// description of the region.
#include "codegen/exec/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "ir/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::exec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPauseMicroseconds = 5;  // how long a waiting thread keeps its processor to itself

#if defined(__x86_64__)
void pause() { _mm_pause(); }
unsigned float_mode() { return _mm_getcsr(); }
void set_float_mode(unsigned mode) {
  if (mode != _mm_getcsr()) _mm_setcsr(mode);
}
#else
void pause() {}
unsigned float_mode() { return 0; }
void set_float_mode(unsigned) {}
#endif

/// Processors that this process may run on.
int affinity_size() {
  for (int cpus = 1024; cpus <= 1 << 16; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// The number at the start of environment variable `name` (OMP_NUM_THREADS may be a list), or 0.
int env_threads(const char* name) {
  const char* text = std::getenv(name);
  const long n = text ? std::strtol(text, nullptr, 10) : 0;
  return n >= 1 ? static_cast<int>(std::min<long>(n, kMaxThreads)) : 0;
}

int default_threads() {
  for (const char* name : {"TANDEM_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (const int n = env_threads(name)) return n;
  }
  return std::min(affinity_size(), kMaxThreads);
}

/// Units [begin, end) of thread `t` of `threads`: the first `units % threads` ranges are one unit
/// longer.
std::pair<int64_t, int64_t> range_of(int64_t units, int threads, int t) {
  const int64_t each = units / threads, longer = units % threads;
  const int64_t begin = each * t + std::min<int64_t>(t, longer);
  return {begin, begin + each + (t < longer ? 1 : 0)};
}

struct Region {
  RangeFunction fn = nullptr;
  void* context = nullptr;
  int64_t units = 0;
  int threads = 0;
  unsigned float_mode =
      0;  // the caller's rounding and denormal modes, so that every range computes the same
  bool stop = false;

  void run(int t) const {
    const auto [begin, end] = range_of(units, threads, t);
    fn(context, begin, end, t);
  }
};

thread_local bool t_in_region = false;

class Pool {
 public:
  bool try_acquire() {
    return !busy_.load(std::memory_order_relaxed) &&
           !busy_.exchange(true, std::memory_order_acquire);
  }

  /// Runs the region on up to `threads` threads; the pool has been acquired, and is released at the
  /// end.
  void run(RangeFunction fn, void* context, int64_t units, int threads) {
    start_workers(threads - 1);
    threads = std::min(threads, started_ + 1);
    region_ = {fn, context, units, threads, float_mode(), false};
    post(threads - 1);
    t_in_region = true;
    region_.run(0);
    t_in_region = false;
    wait_for_workers();
    busy_.store(false, std::memory_order_release);
  }

  /// Ends and joins the workers. A pool that stays busy (exit was called inside a region) is left
  /// as it is.
  void stop() {
    for (const auto deadline = Clock::now() + std::chrono::milliseconds(100); !try_acquire();) {
      if (Clock::now() > deadline) return;
      sched_yield();
    }
    region_ = {.stop = true};
    post(started_);
    for (int i = 0; i < started_; ++i) workers_[i]->thread.join();
  }

 private:
  struct alignas(128) Worker {
    std::atomic<uint32_t> posted{0};
    std::atomic<bool> asleep{false};
    std::atomic<int> cpu{-1};  // where it fell asleep
    std::thread thread;
  };

  void start_workers(int count) {
    if (started_ >= count) return;
    sigset_t all, before;  // the application's signals stay on its own threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (; started_ < count; ++started_) start_worker(started_);
    } catch (const std::exception&) {
      // The system has no more threads or memory to give: regions use the workers that exist.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void start_worker(int index) {
    auto worker = std::make_unique<Worker>();
    workers_[index] = std::move(worker);
    Worker* w = workers_[index].get();
    w->thread = std::thread([this, w, index] { work(*w, index + 1); });
  }

  void post(int workers) {
    pending_.store(workers, std::memory_order_relaxed);
    for (int i = 0; i < workers; ++i) {
      Worker& w = *workers_[i];
      if (w.asleep.load(std::memory_order_relaxed) && started_ < cores_ && w.cpu == sched_getcpu())
        move_away(w);
      w.posted.fetch_add(1, std::memory_order_seq_cst);
      w.posted.notify_one();
    }
  }

  /// Keeps a sleeping worker off the caller's processor. Some kernels (seen in virtual machines)
  /// wake a thread where it last ran even when other processors are idle, and then the two ranges
  /// run one after the other.
  static void move_away(Worker& w) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    CPU_CLR(w.cpu, &set);
    if (CPU_COUNT(&set) > 0) pthread_setaffinity_np(w.thread.native_handle(), sizeof set, &set);
  }

  void work(Worker& self, int t) {
    t_in_region = true;
    for (uint32_t seen = 0;;) {
      if (!spin_until_changed(self.posted, seen)) sleep_until_changed(self, seen);
      seen = self.posted.load(std::memory_order_acquire);
      if (region_.stop) return;
      set_float_mode(region_.float_mode);
      region_.run(t);
      if (pending_.fetch_sub(1, std::memory_order_seq_cst) == 1) pending_.notify_one();
    }
  }

  void wait_for_workers() {
    for (uint32_t left; (left = pending_.load(std::memory_order_acquire)) != 0;) {
      if (!spin_until_changed(pending_, left)) pending_.wait(left, std::memory_order_acquire);
    }
  }

  static void sleep_until_changed(Worker& self, uint32_t seen) {
    self.cpu.store(sched_getcpu(), std::memory_order_relaxed);
    self.asleep.store(true, std::memory_order_relaxed);
    self.posted.wait(seen, std::memory_order_acquire);
    self.asleep.store(false, std::memory_order_relaxed);
  }

  /// True when `word` is no longer `old`, false when that did not happen within kSpinMicroseconds.
  /// It soon lets other threads run between looks: the thread waited for may be queued behind this
  /// one on the same processor.
  bool spin_until_changed(const std::atomic<uint32_t>& word, uint32_t old) const {
    const bool crowded = started_.load(std::memory_order_relaxed) >= cores_;
    const auto start = Clock::now();
    const auto yield_at = start + std::chrono::microseconds(crowded ? 0 : kPauseMicroseconds);
    const auto sleep_at = start + std::chrono::microseconds(kSpinMicroseconds);
    for (auto now = start; now < sleep_at; now = Clock::now()) {
      for (int i = 0; i < 32; ++i) {
        if (word.load(std::memory_order_acquire) != old) return true;
        pause();
      }
      if (now >= yield_at) sched_yield();
    }
    return false;
  }

  std::atomic<bool> busy_{false};
  std::atomic<int> started_{0};
  const int cores_ = affinity_size();
  Region region_;
  alignas(128) std::atomic<uint32_t> pending_{0};
  std::array<std::unique_ptr<Worker>, kMaxThreads - 1> workers_;
};

// Constant-initialised and never destroyed, so they can be used at any point of the process's life.
std::atomic<int> g_threads{0};
std::atomic<Pool*> g_pool{nullptr};
std::atomic<Pool*> g_abandoned{nullptr};  // only so that leak checkers still see it
std::atomic<bool> g_closed{false};

/// In the child of a fork the workers do not exist: the old pool is abandoned, not destroyed.
void forget_pool() {
  g_abandoned = g_pool.exchange(nullptr);
  t_in_region = false;
}

/// Joins the workers at exit or when the library is unloaded; regions that start later run on their
/// caller.
struct Closer {
  Closer() { pthread_atfork(nullptr, nullptr, forget_pool); }
  ~Closer() {
    g_closed.store(true);
    if (Pool* pool = g_pool.load()) pool->stop();
  }
};

Pool* make_pool() {
  static Closer closer;
  auto fresh = std::make_unique<Pool>();
  Pool* expected = nullptr;
  return g_pool.compare_exchange_strong(expected, fresh.get()) ? fresh.release() : expected;
}

/// The pool, or null once the process is ending.
Pool* pool() {
  if (g_closed.load(std::memory_order_relaxed)) return nullptr;
  Pool* p = g_pool.load(std::memory_order_acquire);
  return p ? p : make_pool();
}

}  // namespace

int num_threads() {
  int n = g_threads.load(std::memory_order_relaxed);
  if (n > 0) return n;
  int unset = 0;
  n = default_threads();
  return g_threads.compare_exchange_strong(unset, n) ? n : unset;
}

void set_num_threads(int n) {
  if (n < 1 || n > kMaxThreads) {
    ir::fail(ir::Errc::Argument, "set_num_threads: number of threads out of range; expected 1 to " +
                                     std::to_string(kMaxThreads) + ", got " + std::to_string(n));
  }
  g_threads.store(n, std::memory_order_relaxed);
}

void parallel_for(int64_t units, int64_t grain, RangeFunction fn, void* context,
                  int most_threads) noexcept {
  if (units <= 0) return;
  const int threads = static_cast<int>(std::min<int64_t>(std::min(num_threads(), most_threads),
                                                         units / std::max<int64_t>(grain, 1)));
  Pool* p = threads > 1 && !t_in_region ? pool() : nullptr;
  if (p && p->try_acquire()) {
    p->run(fn, context, units, threads);
  } else {
    fn(context, 0, units, 0);
  }
}

void parallel_for(int64_t units, int64_t grain,
                  ir::FunctionRef<void(int64_t, int64_t, int)> fn) noexcept {
  const RangeFunction call = [](void* context, int64_t begin, int64_t end, int worker) {
    (*static_cast<ir::FunctionRef<void(int64_t, int64_t, int)>*>(context))(begin, end, worker);
  };
  parallel_for(units, grain, call, &fn);
}

}  // namespace tandem::exec
