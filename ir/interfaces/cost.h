// What the partitioner asks of codegen, as an interface that codegen implements and runtime hands
// over.
#ifndef TANDEM_IR_INTERFACES_COST_H
#define TANDEM_IR_INTERFACES_COST_H

#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <span>

namespace tandem::ir {

class TANDEM_API CostModel {
 public:
  virtual ~CostModel() = default;
  /// Estimated seconds to compute these equations of `graph` as one group, reading from memory what
  /// comes from outside.
  virtual double seconds(const Graph& graph, std::span<const EquationId> equations) const = 0;
  /// Estimated seconds of the arithmetic of `e` alone, its operands at hand.
  virtual double compute_seconds(const Graph& graph, EquationId e) const = 0;
  /// Estimated seconds to write `bytes`, or to read them, where `reach` bytes are touched between
  /// the one and the other (their own included): that says which cache they still lie in.
  virtual double transfer_seconds(double bytes, double reach) const = 0;
  /// Whether `consumer` can run in the same kernel as `producer`, so that the value between them
  /// need not go through memory.
  virtual bool may_fuse(const Graph& graph, EquationId producer, EquationId consumer) const = 0;
  /// Bytes that `half` (a Forward or Backward graph) needs beyond its inputs and outputs while it
  /// runs, by its real memory plan.
  virtual int64_t arena_bytes(const Graph& half) const = 0;
  /// Estimated seconds that `half` takes on one core, by the kernels that it is lowered to.
  virtual double run_seconds(const Graph& half) const = 0;
};

/// Sets the `algorithm` attribute of every contraction, from its shape and the graph alone, before
/// the partition.
class ContractionPlanner {
 public:
  virtual ~ContractionPlanner() = default;
  virtual Graph plan(Graph core) const = 0;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_INTERFACES_COST_H
