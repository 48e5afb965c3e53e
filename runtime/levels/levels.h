// Levels: the functions of functions that this thread is inside of. A level of forward-mode
// differentiation lets tensors carry tangents (dual.h), one of vmap lets a tensor stand for one of
// many examples (batched.h). They nest in any order: what a level makes of an operation are
// operations of the levels around it.
#ifndef TANDEM_RUNTIME_LEVELS_LEVELS_H
#define TANDEM_RUNTIME_LEVELS_LEVELS_H

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/tensor/tensor_impl.h"

namespace tandem {
enum class Randomness : uint8_t;
}

namespace tandem::runtime {

/// What one of vmap is about.
struct Batch {
  Dim size;
  Randomness randomness;
};

struct Level {
  uint64_t id;
  std::optional<Batch> batch = {};                     // of vmap; else of tangents
  std::vector<std::weak_ptr<TangentSlot>> slots = {};  // that carry a tangent of this level
};

/// How many levels operations of this thread see, the outermost first.
size_t level_depth();
/// Level `depth`, from 1.
Level& level_at(size_t depth);
/// The depth of the level `id`, seen or not; 0 if it has ended.
size_t depth_of(uint64_t id);

/// Operations see only the outermost `depth` levels while it lives.
class LevelDepth {
 public:
  explicit LevelDepth(size_t depth);
  ~LevelDepth();
  LevelDepth(const LevelDepth&) = delete;
  LevelDepth& operator=(const LevelDepth&) = delete;

 private:
  size_t previous_;
};

/// There are no levels while it lives, or only level `kept`, as level 1: what is traced as the body
/// of a branch or loop is what one example does, without tangents.
class LevelsAside {
 public:
  explicit LevelsAside(size_t kept = 0);
  ~LevelsAside();
  LevelsAside(const LevelsAside&) = delete;
  LevelsAside& operator=(const LevelsAside&) = delete;

 private:
  std::vector<Level> levels_;
  size_t depth_, aside_before_;
};
/// Whether the level `id` is put aside.
bool is_aside(uint64_t id);
/// The levels that are put aside.
std::span<const Level> levels_aside();

/// Begins a level, of vmap if `batch`; ends the last one, whose tangents go.
void enter_level(std::optional<Batch> batch = {});
void leave_level();

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_LEVELS_LEVELS_H
