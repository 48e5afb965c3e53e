// Autograd's view of a rewritten value. Eager keeps a tensor's history when its data is changed
// under no_grad or through a detached alias; a functional graph must say so with equations.
#ifndef TANDEM_FUNCTIONALIZE_HISTORY_H
#define TANDEM_FUNCTIONALIZE_HISTORY_H

#include <vector>

#include "ir/build/builder.h"

namespace tandem::functionalize {

class History {
 public:
  /// `builder` writes `graph`.
  History(ir::Graph& graph, ir::Builder& builder) : graph_(graph), b_(builder) {}

  /// Whether gradients flow through `v` to an input that requires grad.
  bool carries_gradient(ir::ValueId v);

  /// `v` for autograd a constant.
  ir::ValueId detached(ir::ValueId v);

  /// The data of `data` with the history of `old` (of the same type): gradients pass to `old` as if
  /// nothing had happened.
  ir::ValueId hidden_write(ir::ValueId old, ir::ValueId data);

 private:
  struct Pair {
    ir::Type type;
    ir::SubgraphId forward, backward;
  };
  const Pair& subgraphs(const ir::Type& type);

  ir::Graph& graph_;
  ir::Builder& b_;
  std::vector<bool> carries_;  // by value, as far as known
  size_t inputs_seen_ = 0, equations_seen_ = 0;
  std::vector<Pair> pairs_;  // one per type met
};

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_HISTORY_H
