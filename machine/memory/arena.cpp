// The pool of arenas: a short list of idle ones, the last returned at its end.
#include "machine/memory/arena.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "machine/memory/guarded.h"
#include "machine/threads/fork_lock.h"

namespace tandem::machine {
namespace {

/// While another call runs, a small request takes no larger idle arena than this, so that it leaves
/// the large ones to the calls that need them.
constexpr size_t kSmallArena = size_t{64} << 20;

struct Arena {
  uint8_t* data;
  size_t bytes;
};

struct State {
  std::vector<Arena> idle;
  size_t idle_bytes = 0;
  size_t leased_bytes = 0;

  State() { idle.reserve(kMaxIdleArenas + 1); }  // give_back must not allocate
};

State& state() {
  static State* s = new State;
  return *s;
}

std::mutex& lock() { return fork_safe_mutex<State>(); }

Arena take(State& s, size_t index) {
  const Arena a = s.idle[index];
  s.idle.erase(s.idle.begin() + static_cast<ptrdiff_t>(index));
  s.idle_bytes -= a.bytes;
  return a;
}

/// The smallest idle arena that serves `bytes`, while others run without much waste, or one without
/// data.
Arena take_fitting(State& s, size_t bytes) {
  const size_t most = s.leased_bytes == 0 ? SIZE_MAX : std::max(kSmallArena, 4 * bytes);
  size_t best = s.idle.size();
  for (size_t i = 0; i < s.idle.size(); ++i) {
    const size_t size = s.idle[i].bytes;
    if (size >= bytes && size <= most && (best == s.idle.size() || size < s.idle[best].bytes))
      best = i;
  }
  return best == s.idle.size() ? Arena{nullptr, 0} : take(s, best);
}

/// The largest idle arena of less than `bytes`, or one without data.
Arena take_outgrown(State& s, size_t bytes) {
  size_t best = s.idle.size();
  for (size_t i = 0; i < s.idle.size(); ++i) {
    const size_t size = s.idle[i].bytes;
    if (size < bytes && (best == s.idle.size() || size > s.idle[best].bytes)) best = i;
  }
  return best == s.idle.size() ? Arena{nullptr, 0} : take(s, best);
}

Arena make_arena(size_t bytes) {
  auto* data = static_cast<uint8_t*>(map_pages(bytes));
  if (!data) {
    release_idle_arenas();
    data = static_cast<uint8_t*>(map_pages(bytes));
  }
  if (!data) fail_out_of_memory("arena", bytes);
  touch_pages(data, bytes);
  return {data, bytes};
}

uint8_t* make_guarded(size_t bytes) {
  auto* const data = static_cast<uint8_t*>(allocate_guarded_arena(bytes));
  if (!data) fail_out_of_memory("arena", bytes);
  return data;
}

size_t round_up(size_t bytes) {
  const size_t rounded = (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  if (rounded < bytes || rounded > SIZE_MAX / 8) fail_out_of_memory("arena", bytes);
  return rounded;
}

/// Puts `a` among the idle ones, and frees the oldest of those beyond the bounds.
void give_back(Arena a) {
  Arena excess[kMaxIdleArenas + 1];
  size_t count = 0;
  {
    const std::lock_guard guard(lock());
    State& s = state();
    s.leased_bytes -= a.bytes;
    s.idle.push_back(a);
    s.idle_bytes += a.bytes;
    while (s.idle.size() > 1 &&
           (s.idle.size() > kMaxIdleArenas || s.idle_bytes > kMaxIdleArenaBytes))
      excess[count++] = take(s, 0);
  }
  for (size_t i = 0; i < count; ++i) unmap_pages(excess[i].data, excess[i].bytes);
}

}  // namespace

ArenaLease borrow_arena(size_t bytes) {
  if (bytes == 0) return {};
  if (is_guarded()) return ArenaLease(make_guarded(bytes), bytes);
  bytes = round_up(bytes);
  Arena a, outgrown{nullptr, 0};
  {
    const std::lock_guard guard(lock());
    a = take_fitting(state(), bytes);
    state().leased_bytes += a.bytes;
    if (!a.data) outgrown = take_outgrown(state(), bytes);
  }
  if (outgrown.data) unmap_pages(outgrown.data, outgrown.bytes);
  if (!a.data) {
    a = make_arena(bytes);
    const std::lock_guard guard(lock());
    state().leased_bytes += a.bytes;
  }
  return ArenaLease(a.data, a.bytes);
}

ArenaLease::~ArenaLease() {
  if (!data_) return;
  is_guarded() ? release_guarded_arena(data_, bytes_) : give_back({data_, bytes_});
}

ArenaStats arena_stats() {
  const std::lock_guard guard(lock());
  const State& s = state();
  return {s.idle.size(), s.idle_bytes, s.leased_bytes};
}

void release_idle_arenas() {
  std::vector<Arena> idle;
  idle.reserve(kMaxIdleArenas + 1);
  {
    const std::lock_guard guard(lock());
    idle.swap(state().idle);
    state().idle_bytes = 0;
  }
  for (const Arena& a : idle) unmap_pages(a.data, a.bytes);
}

}  // namespace tandem::machine
