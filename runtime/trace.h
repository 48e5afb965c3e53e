// Trace: the recording of one call of a user's function into a Traced graph. It belongs to the
// thread that started it and ends by RAII.
#ifndef TANDEM_RUNTIME_TRACE_H
#define TANDEM_RUNTIME_TRACE_H

#include <tandem/tensor.h>

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "runtime/tensor_impl.h"

namespace tandem::runtime {

class Trace : public std::enable_shared_from_this<Trace> {
 public:
  explicit Trace(std::string name);

  /// The trace that this thread is recording into, or null.
  static Trace* current();

  /// Makes `real` an input; returns the traced tensor that stands for it. The same tensor twice is
  /// the same input; a tensor that shares storage with an earlier input becomes an alias_of input.
  Tensor add_input(const Tensor& real, std::string name, ir::Role role);
  /// The traced stand-in for a real tensor that fn reached through a capture (added as an input on
  /// first use).
  Tensor capture(const Tensor& real);
  /// Appends an equation; results are traced tensors with the given geometry. View results share
  /// operand 0's storage.
  std::vector<Tensor> record(ir::Op op, std::span<const Tensor> operands,
                             std::vector<ir::AttrValue> attrs, bool in_place,
                             std::span<const ir::Type> types);
  /// The rng input (added on first use) and the offset for `draws` blocks of four 32-bit words.
  Tensor rng();
  Dim take_draws(Dim blocks);

  ir::Graph& graph() { return graph_; }
  /// The real tensors behind the graph's inputs, in input order: arguments first, then captures.
  const std::vector<Tensor>& real_inputs() const { return real_inputs_; }

 private:
  friend class TraceScope;
  ir::Graph graph_;
  std::vector<Tensor> real_inputs_;
  std::unordered_map<const TensorImpl*, Tensor> stand_ins_;
  ir::ValueId rng_value_;
  Dim draws_ = 0;
};

/// Makes `trace` this thread's current one while it lives (traces nest: a compiled function called
/// in a trace is traced through).
class TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<Trace> trace);
  ~TraceScope();

 private:
  std::shared_ptr<Trace> previous_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRACE_H
