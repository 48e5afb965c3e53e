// The levels of a thread.
#include "runtime/levels/levels.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "machine/threads/of_thread.h"

namespace tandem::runtime {
namespace {

std::atomic<uint64_t> g_next_level{1};
thread_local size_t t_depth = 0;

struct Levels {
  std::vector<Level> all, aside;
};
Levels& levels() { return machine::of_thread<Levels>(); }

}  // namespace

size_t level_depth() { return t_depth; }
Level& level_at(size_t depth) { return levels().all[depth - 1]; }

size_t depth_of(uint64_t id) {
  const std::vector<Level>& all = levels().all;
  size_t depth = all.size();
  while (depth > 0 && all[depth - 1].id != id) --depth;
  return depth;
}

LevelDepth::LevelDepth(size_t depth) : previous_(std::exchange(t_depth, depth)) {}
LevelDepth::~LevelDepth() { t_depth = previous_; }

LevelsAside::LevelsAside(size_t kept)
    : levels_(std::exchange(levels().all, {})),
      depth_(t_depth),
      aside_before_(levels().aside.size()) {
  const auto seen = levels_.begin() + static_cast<ptrdiff_t>(depth_);
  auto& [all, aside] = levels();
  if (kept != 0)
    all.push_back(levels_[kept - 1]);
  else
    aside.insert(aside.end(), levels_.begin(), seen);
  t_depth = all.size();
}

LevelsAside::~LevelsAside() {
  auto& [all, aside] = levels();
  all = std::move(levels_);
  t_depth = depth_;
  aside.resize(aside_before_);
}

std::span<const Level> levels_aside() { return levels().aside; }
bool is_aside(uint64_t id) { return std::ranges::count(levels_aside(), id, &Level::id) != 0; }

void enter_level(std::optional<Batch> batch) {
  std::vector<Level>& all = levels().all;
  all.push_back({g_next_level.fetch_add(1, std::memory_order_relaxed), batch});
  t_depth = all.size();
}

void leave_level() {
  std::vector<Level>& all = levels().all;
  const Level ended = std::move(all.back());
  all.pop_back();
  t_depth = all.size();
  for (const auto& weak : ended.slots)
    if (const auto slot = weak.lock()) slot->tangent = Tensor();
}

}  // namespace tandem::runtime
