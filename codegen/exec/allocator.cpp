// Size classes with four steps a power of two. Each class has a central stack of idle blocks,
// linked through their first bytes; blocks of up to 16 KiB pass through a small stack of their
// thread first.
#include "codegen/exec/allocator.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>

#include "codegen/exec/fork_lock.h"
#include "codegen/exec/pages.h"

namespace tandem::exec {
namespace {

constexpr size_t kThreadClassBytes = size_t{16} << 10;  // what a thread keeps of one class
constexpr int kClasses = 4 * 55;

/// The class of a request of up to SIZE_MAX / 8 bytes. Classes 0 to 3 hold blocks of 64, 128, 192
/// and 256 bytes; class 4 + 4 * e + s holds blocks of (5 + s) * 2^(e + 6) bytes.
int class_of(size_t bytes) {
  if (bytes <= 4 * kBlockAlignment)
    return static_cast<int>((std::max<size_t>(bytes, 1) - 1) / kBlockAlignment);
  const int e = std::bit_width(bytes - 1) - 9;  // 2^(e + 8) < bytes <= 2^(e + 9)
  return 4 * e + static_cast<int>((bytes - 1) >> (e + 6));
}

/// Bytes of a block of class `c`, a multiple of the alignment that its size asks for.
size_t class_bytes(int c) {
  if (c < 4) return kBlockAlignment * static_cast<size_t>(c + 1);
  const size_t raw = kBlockAlignment * static_cast<size_t>(5 + c % 4) << (c / 4 - 1);
  return raw < kHugePage ? raw : (raw + kHugePage - 1) / kHugePage * kHugePage;
}

constexpr int kThreadClasses = 28;  // those of up to 16 KiB

void* system_allocate(int c) {
  const size_t bytes = class_bytes(c);
  return bytes >= kHugePage ? map_pages(bytes) : std::aligned_alloc(kBlockAlignment, bytes);
}

void system_release(void* data, int c) {
  const size_t bytes = class_bytes(c);
  bytes >= kHugePage ? unmap_pages(data, bytes) : std::free(data);
}

/// Idle blocks of one class, linked through their first bytes.
struct Stack {
  struct Link {
    Link* next;
  };
  Link* top = nullptr;
  size_t count = 0;

  void push(void* data) {
    top = new (data) Link{top};
    ++count;
  }
  void* pop() {
    Link* const taken = top;
    if (!taken) return nullptr;
    top = taken->next;
    --count;
    return taken;
  }
};

void free_all(Stack& stack, int c) {
  while (void* data = stack.pop()) system_release(data, c);
}

/// What all threads share; guarded by lock().
struct Central {
  std::array<Stack, kClasses> stacks;
  std::array<uint64_t, kClasses> last_use{};
  uint64_t clock = 0;
  size_t idle_bytes = 0;

  void* take(int c);
  void put(void* data, int c);
  int least_recently_used() const;
};

size_t default_max_idle_bytes() {
  if (const char* text = std::getenv("TANDEM_CACHE_BYTES"); text && *text)
    return std::strtoull(text, nullptr, 10);
  struct sysinfo info;
  if (sysinfo(&info) != 0) return size_t{1} << 30;
  return static_cast<size_t>(info.totalram) * info.mem_unit / 4;
}

std::atomic<size_t>& idle_bound() {
  static std::atomic<size_t> bound{default_max_idle_bytes()};
  return bound;
}

void* Central::take(int c) {
  void* data = stacks[c].pop();
  if (data) idle_bytes -= class_bytes(c);
  last_use[c] = ++clock;
  return data;
}

int Central::least_recently_used() const {
  int oldest = -1;
  for (int c = 0; c < kClasses; ++c) {
    if (stacks[c].top && (oldest < 0 || last_use[c] < last_use[oldest])) oldest = c;
  }
  return oldest;
}

/// Keeps the block; what is then over the bound goes back to the system, a block at a time.
void Central::put(void* data, int c) {
  stacks[c].push(data);
  idle_bytes += class_bytes(c);
  last_use[c] = ++clock;
  while (idle_bytes > idle_bound()) {
    const int oldest = least_recently_used();
    system_release(stacks[oldest].pop(), oldest);
    idle_bytes -= class_bytes(oldest);
  }
}

Central& central() {
  static Central* c = new Central;
  return *c;
}

std::mutex& lock() { return fork_safe_mutex<Central>(); }

/// A thread's own idle blocks: no lock, no more than kThreadClassBytes a class.
struct ThreadCache {
  std::array<Stack, kThreadClasses> stacks;

  ~ThreadCache() { flush(); }
  void flush();
};

void ThreadCache::flush() {
  const std::lock_guard guard(lock());
  for (int c = 0; c < kThreadClasses; ++c) {
    while (void* data = stacks[c].pop()) central().put(data, c);
  }
}

enum class CacheState : uint8_t { Unborn, Alive, Dead };
thread_local CacheState t_cache_state = CacheState::Unborn;

struct CacheOwner {
  ThreadCache cache;
  CacheOwner() { t_cache_state = CacheState::Alive; }
  ~CacheOwner() {
    t_cache_state = CacheState::Dead;
  }  // before the cache: what comes later goes to the central stacks
};

/// This thread's cache, or null while the thread is ending.
ThreadCache* thread_cache() {
  if (t_cache_state == CacheState::Dead) return nullptr;
  thread_local CacheOwner owner;
  return &owner.cache;
}

std::atomic<size_t> g_live{0};
std::atomic<size_t> g_peak{0};

void count_allocation(size_t bytes) {
  const size_t live = g_live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  size_t peak = g_peak.load(std::memory_order_relaxed);
  while (live > peak && !g_peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void* take_idle(int c) {
  if (c < kThreadClasses) {
    ThreadCache* cache = thread_cache();
    if (void* data = cache ? cache->stacks[c].pop() : nullptr) return data;
  }
  const std::lock_guard guard(lock());
  return central().take(c);
}

bool keep_in_thread(void* data, int c) {
  if (c >= kThreadClasses || idle_bound().load(std::memory_order_relaxed) == 0) return false;
  ThreadCache* cache = thread_cache();
  if (!cache || (cache->stacks[c].count + 1) * class_bytes(c) > kThreadClassBytes) return false;
  cache->stacks[c].push(data);
  return true;
}

}  // namespace

void* allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 8) fail_out_of_memory("allocate", bytes);
  const int c = class_of(bytes);
  void* data = take_idle(c);
  if (!data) data = system_allocate(c);
  if (!data) {
    release_idle_blocks();
    data = system_allocate(c);
  }
  if (!data) fail_out_of_memory("allocate", bytes);
  count_allocation(bytes);
  return data;
}

void release(void* data, size_t bytes) noexcept {
  if (!data) return;
  g_live.fetch_sub(bytes, std::memory_order_relaxed);
  const int c = class_of(bytes);
  if (keep_in_thread(data, c)) return;
  const std::lock_guard guard(lock());
  central().put(data, c);
}

AllocatorStats allocator_stats() {
  const std::lock_guard guard(lock());
  return {g_live.load(), g_peak.load(), central().idle_bytes};
}

void reset_peak_live_bytes() { g_peak.store(g_live.load()); }

size_t max_idle_bytes() { return idle_bound().load(); }

void set_max_idle_bytes(size_t bytes) {
  release_idle_blocks();
  idle_bound().store(bytes);
}

void release_idle_blocks() {
  if (ThreadCache* cache = thread_cache()) cache->flush();
  const std::lock_guard guard(lock());
  for (int c = 0; c < kClasses; ++c) free_all(central().stacks[c], c);
  central().idle_bytes = 0;
}

}  // namespace tandem::exec
