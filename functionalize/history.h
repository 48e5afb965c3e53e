// Autograd's view of a rewritten value. Eager keeps a tensor's history when its data is changed
// under no_grad or through a detached alias; a functional graph must say so with equations.
#ifndef TANDEM_FUNCTIONALIZE_HISTORY_H
#define TANDEM_FUNCTIONALIZE_HISTORY_H

#include <vector>

#include "ir/build/builder.h"

namespace tandem::functionalize {

/// What a value does not take over from what it is made of, each including those before it.
enum class Cut : uint8_t {
  Nothing,
  Gradients,  // under no_grad: tangents it has
  History,    // through detach: neither
};

/// Whether equations of tangents will be added to the graph.
enum class Tangents : uint8_t { Traced, Follow };

class History {
 public:
  /// `builder` writes `graph`.
  History(ir::Graph& graph, ir::Builder& builder, Tangents tangents)
      : graph_(graph), b_(builder), tangents_(tangents) {}

  /// Whether gradients flow through `v` to an input that requires grad.
  bool carries_gradient(ir::ValueId v);

  /// `v` without what `cut` takes.
  ir::ValueId without(Cut cut, ir::ValueId v);

  /// What holds `old` (of the same type) after a write of `data` from which it does not take over
  /// what `cut` says: that stays as it was.
  ir::ValueId hidden_write(Cut cut, ir::ValueId old, ir::ValueId data);

 private:
  /// Whether a tangent that comes later may reach `v`.
  bool may_move(ir::ValueId v) const {
    return tangents_ == Tangents::Follow && ir::is_differentiable(graph_.type(v));
  }

  ir::Graph& graph_;
  ir::Builder& b_;
  const Tangents tangents_;
  std::vector<bool> carries_;  // by value, as far as known
  size_t inputs_seen_ = 0, equations_seen_ = 0;
};

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_HISTORY_H
