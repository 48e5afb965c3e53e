// The levels of a thread.
#include "runtime/levels/levels.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace tandem::runtime {
namespace {

std::atomic<uint64_t> g_next_level{1};
thread_local std::vector<Level> t_levels;
thread_local size_t t_depth = 0;
thread_local std::vector<Level> t_aside;

}  // namespace

size_t level_depth() { return t_depth; }
Level& level_at(size_t depth) { return t_levels[depth - 1]; }

size_t depth_of(uint64_t id) {
  size_t depth = t_levels.size();
  while (depth > 0 && t_levels[depth - 1].id != id) --depth;
  return depth;
}

LevelDepth::LevelDepth(size_t depth) : previous_(std::exchange(t_depth, depth)) {}
LevelDepth::~LevelDepth() { t_depth = previous_; }

LevelsAside::LevelsAside(size_t kept)
    : levels_(std::move(t_levels)), depth_(t_depth), aside_before_(t_aside.size()) {
  const auto seen = levels_.begin() + static_cast<ptrdiff_t>(depth_);
  t_levels.clear();
  if (kept != 0)
    t_levels.push_back(levels_[kept - 1]);
  else
    t_aside.insert(t_aside.end(), levels_.begin(), seen);
  t_depth = t_levels.size();
}

LevelsAside::~LevelsAside() {
  t_levels = std::move(levels_);
  t_depth = depth_;
  t_aside.resize(aside_before_);
}

bool is_aside(uint64_t id) { return std::ranges::find(t_aside, id, &Level::id) != t_aside.end(); }
std::span<const Level> levels_aside() { return t_aside; }

void enter_level(std::optional<Batch> batch) {
  t_levels.push_back({g_next_level.fetch_add(1, std::memory_order_relaxed), batch});
  t_depth = t_levels.size();
}

void leave_level() {
  const Level ended = std::move(t_levels.back());
  t_levels.pop_back();
  t_depth = t_levels.size();
  for (const auto& weak : ended.slots)
    if (const auto slot = weak.lock()) slot->tangent = Tensor();
}

}  // namespace tandem::runtime
