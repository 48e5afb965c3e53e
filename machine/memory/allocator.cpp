// Size classes, four to a power of two. Each class has a central stack of idle blocks, linked
// through their first bytes; blocks of up to 16 KiB pass through a small stack of their thread
// first. Fresh blocks come from malloc, from slabs (more than 64 KiB) or are mapped (more than 16
// MiB). Where a class has none idle, those that were not used since the last time that happened
// give theirs back: to the slabs, where they serve any size, or to the system. So a program that
// does the same again and again soon has all it needs, and one of ever new sizes holds about what
// it needs at once.
#include "machine/memory/allocator.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "machine/memory/guarded.h"
#include "machine/memory/pages.h"
#include "machine/memory/slabs.h"
#include "machine/threads/fork_lock.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

constexpr size_t kThreadClassBytes = size_t{16} << 10;  // what a thread keeps of one class
constexpr size_t kSlabsFrom = size_t{64} << 10;

/// Sizes that cut every power of two from 2^`least` on into `steps` (a power of two).
struct Steps {
  int steps, least;

  int shift() const { return least - std::countr_zero(static_cast<unsigned>(steps)); }
  size_t bytes(int i) const {
    return static_cast<size_t>(steps + 1 + i % steps) << (i / steps + shift());
  }
  /// The number of the smallest size that holds `bytes`, which are more than 2^least.
  int number(size_t bytes) const {
    const int e = std::bit_width(bytes - 1) - 1 - least;
    return e * steps + static_cast<int>((bytes - 1) >> (e + shift())) - steps;
  }
};

constexpr int kTinyClasses = 4;   // 64, 128, 192 and 256 bytes
constexpr Steps kSmall{4, 8};     // from malloc
constexpr Steps kMedium{16, 16};  // in slabs, where rounding takes memory: sixteen
constexpr Steps kLarge{4, 24};    // more than 16 MiB, mapped one by one
constexpr size_t kMappedFrom = size_t{1} << kLarge.least;
constexpr int kFirstMedium = kTinyClasses + 8 * 4, kFirstLarge = kFirstMedium + 8 * 16;
constexpr int kClasses = kFirstLarge + 4 * 37;
constexpr int kThreadClasses = 28;  // those of up to 16 KiB

// AddressSanitizer sees what is written beyond a block of malloc, not of a slab.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kUseSlabs = false;
#else
constexpr bool kUseSlabs = true;
#endif

/// The class of a request of up to SIZE_MAX / 8 bytes.
int class_of(size_t bytes) {
  if (bytes <= kTinyClasses * kBlockAlignment)
    return static_cast<int>((std::max<size_t>(bytes, 1) - 1) / kBlockAlignment);
  if (bytes <= kSlabsFrom) return kTinyClasses + kSmall.number(bytes);
  if (bytes <= kMappedFrom) return kFirstMedium + kMedium.number(bytes);
  return kFirstLarge + kLarge.number(bytes);
}

/// Bytes of a block of class `c`, a multiple of the alignment that its size asks for.
size_t class_bytes(int c) {
  if (c < kTinyClasses) return kBlockAlignment * static_cast<size_t>(c + 1);
  if (c < kFirstMedium) return kSmall.bytes(c - kTinyClasses);
  if (c < kFirstLarge) return kMedium.bytes(c - kFirstMedium);
  return (kLarge.bytes(c - kFirstLarge) + kHugePage - 1) / kHugePage * kHugePage;
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

/// What all threads share; guarded by lock().
struct Central {
  std::array<Stack, kClasses> stacks;
  std::array<uint64_t, kClasses> last_use{};
  uint64_t clock = 0, last_miss = 0;
  size_t stacked_bytes = 0;
  Slabs slabs;

  size_t idle_bytes() const { return stacked_bytes + slabs.free_bytes(); }
  void* take(int c);
  void put(void* data, int c);
  void free_top(int c);
  void free_all(int c);
  void make_room(int c);
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
  if (data) stacked_bytes -= class_bytes(c);
  last_use[c] = ++clock;
  return data;
}

/// For a fresh block of class `c`.
void Central::make_room(int c) {
  if (c < kFirstMedium) return;
  for (int other = kFirstMedium; other < kClasses; ++other)
    if (last_use[other] < last_miss) free_all(other);
  last_miss = clock;
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
  stacked_bytes += class_bytes(c);
  last_use[c] = ++clock;
  while (idle_bytes() > idle_bound()) {
    if (slabs.free_bytes() == 0) free_top(least_recently_used());
    slabs.drop_free();
  }
}

/// Gives the first idle block of class `c` back to where it is from.
void Central::free_top(int c) {
  void* const data = stacks[c].pop();
  const size_t bytes = class_bytes(c);
  stacked_bytes -= bytes;
  if (c >= kFirstLarge)
    unmap_pages(data, bytes);
  else if (c >= kFirstMedium && slabs.owns(data))
    slabs.give_back(data, bytes);
  else
    std::free(data);
}

void Central::free_all(int c) {
  while (stacks[c].top) free_top(c);
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

struct Block {
  void* data;
  bool zero;  // known to be filled with zeros
};

Block take_idle(int c) {
  if (c < kThreadClasses) {
    ThreadCache* cache = thread_cache();
    if (void* data = cache ? cache->stacks[c].pop() : nullptr) return {data, false};
  }
  const std::lock_guard guard(lock());
  void* const data = central().take(c);
  if (!data) central().make_room(c);
  return {data, false};
}

/// A program that already holds so many slabs gets the pages of a further large block at once, on
/// all threads.
constexpr size_t kSlabsAtOnce = 4;

Block take_from_slabs(int c) {
  const size_t bytes = class_bytes(c);
  SlabBlock block;
  bool many;
  {
    const std::lock_guard guard(lock());
    Slabs& slabs = central().slabs;
    block = slabs.take(bytes);
    many = slabs.count() > kSlabsAtOnce;
  }
  if (many && block.zero && bytes >= kHugePage) populate_pages(block.data, bytes);
  return {block.data, block.zero};
}

/// Blocks of malloc are aligned as others of their size.
size_t alignment_of(size_t bytes) {
  if (bytes < kSlabsFrom) return kBlockAlignment;
  return bytes < kHugePage ? kSlabUnit : kHugePage;
}

/// Of malloc, or null. (aligned_alloc wants whole multiples of the alignment.)
void* allocate_aligned(size_t bytes) {
  void* data = nullptr;
  return posix_memalign(&data, alignment_of(bytes), bytes) == 0 ? data : nullptr;
}

Block take_fresh(int c) {
  const size_t bytes = class_bytes(c);
  if (c >= kFirstLarge) return {map_pages(bytes), true};
  if (!kUseSlabs || c < kFirstMedium || idle_bound().load(std::memory_order_relaxed) == 0)
    return {allocate_aligned(bytes), false};
  return take_from_slabs(c);
}

Block take_guarded(size_t bytes) {
  void* const data = allocate_guarded(bytes);
  if (!data) fail_out_of_memory("allocate", bytes);
  count_allocation(bytes);
  return {data, false};
}

Block take_block(size_t bytes) {
  if (bytes > SIZE_MAX / 8) fail_out_of_memory("allocate", bytes);
  if (is_guarded()) return take_guarded(bytes);
  const int c = class_of(bytes);
  Block block = take_idle(c);
  if (!block.data) block = take_fresh(c);
  if (!block.data) {
    release_idle_blocks();
    block = take_fresh(c);
  }
  if (!block.data) fail_out_of_memory("allocate", bytes);
  count_allocation(bytes);
  return block;
}

constexpr size_t kClearBytes = size_t{256} << 10;  // the least that is worth a thread

void clear(void* data, size_t bytes) {
  const auto parts = static_cast<int64_t>((bytes + kClearBytes - 1) / kClearBytes);
  parallel_for(parts, 1, [&](int64_t begin, int64_t end, int) {
    const size_t first = static_cast<size_t>(begin) * kClearBytes,
                 last = std::min(bytes, static_cast<size_t>(end) * kClearBytes);
    std::memset(static_cast<uint8_t*>(data) + first, 0, last - first);
  });
}

bool keep_in_thread(void* data, int c) {
  if (c >= kThreadClasses || idle_bound().load(std::memory_order_relaxed) == 0) return false;
  ThreadCache* cache = thread_cache();
  if (!cache || (cache->stacks[c].count + 1) * class_bytes(c) > kThreadClassBytes) return false;
  cache->stacks[c].push(data);
  return true;
}

}  // namespace

void* allocate(size_t bytes) { return take_block(bytes).data; }

void* allocate_zeroed(size_t bytes) {
  const Block block = take_block(bytes);
  block.zero ? populate_pages(block.data, class_bytes(class_of(bytes))) : clear(block.data, bytes);
  return block.data;
}

void release(void* data, size_t bytes) noexcept {
  if (!data) return;
  g_live.fetch_sub(bytes, std::memory_order_relaxed);
  if (is_guarded()) return release_guarded(data, bytes);
  const int c = class_of(bytes);
  if (keep_in_thread(data, c)) return;
  const std::lock_guard guard(lock());
  central().put(data, c);
}

AllocatorStats allocator_stats() {
  const std::lock_guard guard(lock());
  return {g_live.load(), g_peak.load(), central().idle_bytes()};
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
  for (int c = 0; c < kClasses; ++c) central().free_all(c);
  central().slabs.drop_free();
}

}  // namespace tandem::machine
