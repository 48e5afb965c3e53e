// The thread pool: persistent workers that look at one number, that of the newest region, and one
// description of a region, which stays readable for workers that come late.
#include "machine/threads/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#include "machine/library/exit_gate.h"
#include "machine/threads/pressure.h"
#include "machine/threads/shares.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::machine {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds kPause{5};   // how long a waiting thread keeps its processor to itself
constexpr microseconds kClaim{50};  // what is claimed at a time takes about as long
// A worker gives way by itself after so long, between claims: what the system then runs in its
// place does not interrupt it in the middle of one.
constexpr microseconds kTurn{1000};
// A wait for workers that is longer than the region's work on the caller by this is a stall.
constexpr microseconds kStall{100};
// After a stall regions stay on their callers for so many times as long, by each worker that then
// has nothing to do, unless they ran in parallel for longer before.
constexpr int kStallShare = 8;
// Regions of fewer grains are over before a sleeping worker would be there.
constexpr int64_t kWakeGrains = 8;
// How many sleeping workers a region's caller wakes, and how many each worker before it begins. To
// wake one takes some 25 us in a virtual machine, as long as a small region on many threads.
constexpr int kOwnWakes = 1, kWakes = 2;

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

/// Looks at `done()` again and again, true once it holds, false when that did not happen for
/// kSpinMicroseconds; after kPause it lets other threads run between looks.
template <class Done>
bool spin(Done done) {
  const auto start = Clock::now();
  for (auto now = start; now - start < microseconds(kSpinMicroseconds); now = Clock::now()) {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause();
    }
    if (now - start >= kPause) sched_yield();
  }
  return false;
}

/// What a region's units are: parts of one computation, about as long as each other, or tasks that
/// may take any time.
enum class Units : uint8_t { Alike, Tasks };

/// One region.
struct Work {
  RangeFunction fn = nullptr;
  void* context = nullptr;
  Cut cut;
  int threads = 0;
  unsigned float_mode =
      0;  // the caller's rounding and denormal modes, so that all compute the same
};

/// The newest region. A late worker may read while the next one is written, and then must not use
/// what it read: Shares tells.
class Board {
 public:
  void write(const Work& w) {
    fn_.store(w.fn, std::memory_order_relaxed);
    context_.store(w.context, std::memory_order_relaxed);
    units_.store(w.cut.units, std::memory_order_relaxed);
    piece_.store(w.cut.piece, std::memory_order_relaxed);
    shares_.store(w.cut.shares, std::memory_order_relaxed);
    threads_.store(w.threads, std::memory_order_relaxed);
    float_mode_.store(w.float_mode, std::memory_order_relaxed);
  }

  Work read() const {
    return {
        fn_.load(std::memory_order_relaxed),
        context_.load(std::memory_order_relaxed),
        {units_.load(std::memory_order_relaxed), piece_.load(std::memory_order_relaxed), shares()},
        threads_.load(std::memory_order_relaxed),
        float_mode_.load(std::memory_order_relaxed)};
  }

  int shares() const { return shares_.load(std::memory_order_relaxed); }

 private:
  std::atomic<RangeFunction> fn_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int64_t> units_{0}, piece_{1};
  std::atomic<int> shares_{1}, threads_{0};
  std::atomic<unsigned> float_mode_{0};
};

/// Keeps regions on their callers after stalls, so that stalls cost a bounded share of the time. Of
/// the thread that owns the pool.
class Retreat {
 public:
  bool over(Clock::time_point now) const { return now >= until_; }

  /// A region worked from `start` to `worked` on its caller, which then waited for some of
  /// `workers` to `end`.
  void waited(int workers, Clock::time_point start, Clock::time_point worked,
              Clock::time_point end) {
    const auto lost = end - worked;
    if (lost < kStall + (worked - start)) return;
    const auto price = kStallShare * lost / workers;
    const bool paid = worked - since_ >= price;
    since_ = until_ = paid ? end : end + price;
  }

 private:
  Clock::time_point until_;
  Clock::time_point since_;  // regions have been in parallel
};

thread_local bool t_in_region = false;

class Pool {
 public:
  bool try_acquire() {
    return !busy_.load(std::memory_order_relaxed) &&
           !busy_.exchange(true, std::memory_order_acquire);
  }

  /// Runs the region; the pool has been acquired, and is released at the end.
  void run(RangeFunction fn, void* context, int64_t units, int64_t grain, int threads, Units kind) {
    start_workers(threads - 1);
    const Work work{fn, context, cut_for(units, grain, threads), threads, float_mode()};
    board_.write(work);
    finished_.store(0, std::memory_order_relaxed);
    const int pieces = shares_.open(work.cut, ++epoch_);
    const int sleepers = grain == 1 || units >= kWakeGrains * grain ? threads - 1 : 0;
    const auto start = Clock::now();
    auto end = start;
    const bool insists = kind == Units::Tasks || assumed_processors() > 0;
    const bool crowded = !insists && pressure_.looks_high(start);
    bool posted = insists || (!crowded && retreat_.over(start));
    if (posted) post(sleepers, kOwnWakes);
    t_in_region = true;
    const int own = run_pieces(epoch_, 0, start, [&](Clock::time_point now, int) {
      end = now;
      if (!posted && !crowded && retreat_.over(now)) posted = true, post(sleepers, kOwnWakes);
    });
    t_in_region = false;
    if (wait_for_workers(static_cast<uint32_t>(pieces - own)) && kind == Units::Alike)
      retreat_.waited(threads - 1, start, end, Clock::now());
    busy_.store(false, std::memory_order_release);
  }

  /// Ends and joins the workers. A pool that stays busy (exit was called inside a region) is left
  /// as it is.
  void stop() {
    for (const auto deadline = Clock::now() + std::chrono::milliseconds(100); !try_acquire();) {
      if (Clock::now() > deadline) return;
      sched_yield();
    }
    stop_.store(true, std::memory_order_relaxed);
    ++epoch_;
    post(started_, started_);
    for (int i = 0; i < started_; ++i) workers_[static_cast<size_t>(i)]->thread.join();
  }

 private:
  struct alignas(128) Worker {
    std::atomic<uint32_t> asleep{0};
    std::atomic<int> cpu{-1};  // where it fell asleep
    std::thread thread;
    Clock::time_point turn_ends;
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
    auto& worker = workers_[static_cast<size_t>(index)];
    worker = std::make_unique<Worker>();
    worker->thread = std::thread([this, w = worker.get(), index] { serve(*w, index + 1); });
  }

  /// Shows the newest region to workers. Of the first `workers` those who sleep shall be woken;
  /// the caller wakes `own` of them.
  void post(int workers, int own) {
    posted_.store(epoch_, std::memory_order_seq_cst);
    const int all = std::min(workers, started_);
    int first = 0;
    while (first < all && !is_asleep(first)) ++first;
    if (first == all) return;
    to_wake_.open(epoch_, {first, all});
    wake(epoch_, own);
  }

  bool is_asleep(int worker) const {
    return workers_[static_cast<size_t>(worker)]->asleep.load(std::memory_order_seq_cst) != 0;
  }

  /// Wakes `most` of those who sleep and shall take part in region `epoch`.
  void wake(uint32_t epoch, int most) {
    while (most > 0) {
      const Claim worker = to_wake_.claim(epoch, 1, [] { return true; });
      if (worker.empty()) return;
      if (!is_asleep(worker.begin)) continue;
      wake(*workers_[static_cast<size_t>(worker.begin)]);
      --most;
    }
  }

  static void wake(Worker& w) {
    if (w.cpu.load(std::memory_order_relaxed) == sched_getcpu()) move_away(w);
    w.asleep.store(0, std::memory_order_seq_cst);
    w.asleep.notify_one();
  }

  /// Keeps a sleeping worker off the processor of who wakes it. Some kernels (seen in virtual
  /// machines) wake a thread where it last ran even when other processors are idle, and then the
  /// two take turns.
  static void move_away(Worker& w) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    CPU_CLR(w.cpu, &set);
    if (CPU_COUNT(&set) > 0) pthread_setaffinity_np(w.thread.native_handle(), sizeof set, &set);
  }

  /// Claims and runs pieces of region `epoch` as thread `t` until none is left; returns how many.
  /// Calls between(now, pieces so far) after each claim.
  template <class Between>
  int run_pieces(uint32_t epoch, int t, Clock::time_point now, Between between) {
    Work work;
    const auto is_ours = [&] {
      work = board_.read();
      return t < work.threads;
    };
    int done = 0, most = 1;
    for (int i = 0, shares = board_.shares(); i < shares;) {
      const int share = (t + i) % shares;
      const Claim claim = shares_.claim(share, epoch, most, is_ours);
      if (claim.empty()) {
        ++i;
        continue;
      }
      set_float_mode(work.float_mode);
      const auto [begin, end] = units_of(work.cut, share, claim);
      work.fn(work.context, begin, end, t);
      done += claim.pieces();
      const auto before = std::exchange(now, Clock::now());
      most = pieces_in(kClaim, claim.pieces(), now - before);
      between(now, done);
    }
    return done;
  }

  /// How many pieces to claim at once where `pieces` took `took`.
  static int pieces_in(Clock::duration time, int pieces, Clock::duration took) {
    const auto fit = time * pieces / std::max(took, Clock::duration(1));
    return static_cast<int>(std::clamp<Clock::rep>(fit, 1, kMostPieces));
  }

  void serve(Worker& self, int t) {
    t_in_region = true;
    self.turn_ends = Clock::now() + kTurn;
    for (uint32_t seen = 0;;) {
      wait_for_region(self, seen);
      seen = posted_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      help(self, seen, t);
    }
  }

  void help(Worker& self, uint32_t epoch, int t) {
    if (to_wake_.is_left(epoch) && shares_.is_left(epoch, board_.shares())) wake(epoch, kWakes);
    int reported = 0;
    const auto report = [&](int done) {
      if (done == reported) return;
      finished_.fetch_add(static_cast<uint32_t>(done - reported), std::memory_order_acq_rel);
      finished_.notify_one();
      reported = done;
    };
    report(run_pieces(epoch, t, Clock::now(), [&](Clock::time_point now, int done) {
      if (now < self.turn_ends) return;
      report(done);
      sched_yield();
      self.turn_ends = Clock::now() + kTurn;
    }));
  }

  void wait_for_region(Worker& self, uint32_t seen) {
    const auto there_is_one = [&] { return posted_.load(std::memory_order_acquire) != seen; };
    if (spin(there_is_one)) return;
    self.cpu.store(sched_getcpu(), std::memory_order_relaxed);
    self.asleep.store(1, std::memory_order_seq_cst);
    if (posted_.load(std::memory_order_seq_cst) == seen)
      self.asleep.wait(1, std::memory_order_acquire);
    self.asleep.store(0, std::memory_order_relaxed);
    self.turn_ends = Clock::now() + kTurn;
  }

  /// Waits until workers have finished `pieces`; says whether the caller slept meanwhile.
  bool wait_for_workers(uint32_t pieces) {
    const auto all_finished = [&] { return finished_.load(std::memory_order_acquire) == pieces; };
    if (all_finished() || spin(all_finished)) return false;
    for (uint32_t now; (now = finished_.load(std::memory_order_acquire)) != pieces;)
      finished_.wait(now, std::memory_order_acquire);
    return true;
  }

  std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};
  int started_ = 0;     // this and the next two are the owner's
  uint32_t epoch_ = 0;  // number of the newest region
  Pressure pressure_;
  Retreat retreat_;
  Board board_;
  Shares shares_;
  alignas(128) std::atomic<uint32_t> posted_{0};  // the newest region that workers shall see
  Share to_wake_;  // workers that nobody has woken for it yet; read where posted_ has changed
  alignas(128) std::atomic<uint32_t> finished_{0};  // pieces of it, by workers
  std::array<std::unique_ptr<Worker>, kMaxThreads - 1> workers_;
};

// Constant-initialised and never destroyed, so they can be used at any point of the process's life.
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

/// Null if there is no memory for one.
Pool* make_pool() {
  static Closer closer;
  [[maybe_unused]] static const bool guarded = (close_gate_at_exit(), true);
  std::unique_ptr<Pool> fresh(new (std::nothrow) Pool);
  Pool* expected = nullptr;
  return g_pool.compare_exchange_strong(expected, fresh.get()) ? fresh.release() : expected;
}

/// The pool, or null once the process is ending, or if there is no memory for one.
Pool* pool() {
  if (g_closed.load(std::memory_order_relaxed) || is_ending()) return nullptr;
  Pool* p = g_pool.load(std::memory_order_acquire);
  return p ? p : make_pool();
}

void run_region(int64_t units, int64_t grain, RangeFunction fn, void* context, int most_threads,
                Units kind) noexcept {
  if (units <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const auto threads =
      static_cast<int>(std::min<int64_t>({threads_of_region(), most_threads, units / grain}));
  Pool* p = threads > 1 && !t_in_region ? pool() : nullptr;
  if (p && p->try_acquire()) {
    p->run(fn, context, units, grain, threads, kind);
  } else {
    fn(context, 0, units, 0);
  }
}

}  // namespace

void parallel_for(int64_t units, int64_t grain, RangeFunction fn, void* context,
                  int most_threads) noexcept {
  run_region(units, grain, fn, context, most_threads, Units::Alike);
}

void parallel_for(int64_t units, int64_t grain,
                  ir::FunctionRef<void(int64_t, int64_t, int)> fn) noexcept {
  const RangeFunction call = [](void* context, int64_t begin, int64_t end, int worker) {
    (*static_cast<ir::FunctionRef<void(int64_t, int64_t, int)>*>(context))(begin, end, worker);
  };
  parallel_for(units, grain, call, &fn);
}

void parallel_tasks(int64_t count, ir::FunctionRef<void(int64_t)> fn) noexcept {
  const RangeFunction call = [](void* context, int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task)
      (*static_cast<ir::FunctionRef<void(int64_t)>*>(context))(task);
  };
  run_region(count, 1, call, &fn, kMaxThreads, Units::Tasks);
}

}  // namespace tandem::machine
