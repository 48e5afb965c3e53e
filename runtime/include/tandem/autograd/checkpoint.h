// What the user asks of the partitioner inside a compiled function: values to save, values to
// compute again, regions whose inside is computed again. Outside of a trace all of this does
// nothing.
#ifndef TANDEM_AUTOGRAD_CHECKPOINT_H
#define TANDEM_AUTOGRAD_CHECKPOINT_H

#include <tandem/tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem {

/// Asks that `t` be saved for backward if backward needs it; returns `t`.
TANDEM_API Tensor save_for_backward(const Tensor& t, SourceLocation at = SourceLocation::current());
/// Asks that backward compute `t` again, and that its memory not be held: nor is what is computed
/// from it element by element and is as large, unless that is asked for. Returns `t`.
TANDEM_API Tensor recompute_in_backward(const Tensor& t,
                                        SourceLocation at = SourceLocation::current());
/// Names `t` in graphs and reports, and for `CheckpointPolicy::save_names`; returns `t`.
TANDEM_API Tensor name_value(const Tensor& t, const std::string& name,
                             SourceLocation at = SourceLocation::current());

/// What a checkpoint region saves beside what it hands out; all else in it is computed again.
struct CheckpointPolicy {
  std::vector<std::string> save_ops;    // results of these operators, as graphs name them: "mm"
  std::vector<std::string> save_names;  // values called so by name_value
};

/// While it lives, what this thread's trace records belongs to one checkpoint region. A region
/// inside of another is a part of that: only what the outermost hands out is saved, and what a
/// policy of either names.
class TANDEM_API CheckpointRegion {
 public:
  explicit CheckpointRegion(CheckpointPolicy policy = {});
  ~CheckpointRegion();
  CheckpointRegion(const CheckpointRegion&) = delete;
  CheckpointRegion& operator=(const CheckpointRegion&) = delete;

 private:
  friend struct RegionAccess;
  CheckpointPolicy policy_;
  CheckpointRegion* enclosing_;
  unsigned number_ = 0;
};

/// `fn` as a checkpoint region: backward computes its inside again from what goes in.
template <class Fn>
auto checkpoint(Fn fn, CheckpointPolicy policy = {}) {
  return [fn = std::move(fn), policy = std::move(policy)]<class... Args>(Args&&... args) {
    const CheckpointRegion region(policy);
    return fn(std::forward<Args>(args)...);
  };
}

}  // namespace tandem

#endif  // TANDEM_AUTOGRAD_CHECKPOINT_H
