// The interface of partitioners: what to save and what to recompute.
#ifndef TANDEM_IR_PARTITIONER_H
#define TANDEM_IR_PARTITIONER_H

#include <memory>
#include <string>
#include <vector>

#include "export.h"
#include "graph.h"

namespace tandem::ir {

/// Why one value is saved.
struct SavedValue {
  std::string name;  // as the Core joint graph prints it
  Type type;
  int64_t bytes = 0;   // 0 if it is an input (which lives anyway)
  std::string reason;  // e.g. "contraction: not recomputed", "cheaper to save than to recompute"
};

struct PartitionReport {
  std::string partitioner;
  std::vector<SavedValue> saved;
  int64_t saved_bytes = 0;  // beyond the graph's inputs
  int64_t minimal_bytes =
      0;  // the byte-minimal cut of the same graph (contractions may not be recomputed)
  int64_t recomputed_equations = 0;
  double seconds = 0;
};

struct Partition {
  Graph forward;   // Level::Forward: primals -> (outputs, saved)
  Graph backward;  // Level::Backward: (saved, tangents) -> gradients
  PartitionReport report;
};

class TANDEM_API Partitioner {
 public:
  virtual ~Partitioner() = default;
  virtual std::string name() const = 0;
  /// `core` is a Core graph with tangents. Error{Partition} if the request is infeasible.
  virtual Partition partition(const Graph& core) const = 0;
  /// The same, knowing how many bytes an eager tape would hold for this graph beyond its inputs: a
  /// partitioner that can saves no more than that.
  virtual Partition partition_within(const Graph& core, int64_t /*tape_bytes*/) const {
    return partition(core);
  }
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_PARTITIONER_H
