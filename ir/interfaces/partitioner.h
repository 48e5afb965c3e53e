// The interface of partitioners: what to save and what to recompute, and why.
#ifndef TANDEM_IR_INTERFACES_PARTITIONER_H
#define TANDEM_IR_INTERFACES_PARTITIONER_H

#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cost.h"

namespace tandem::ir {

/// Why one value is saved.
struct SavedValue {
  std::string name;  // as the Core joint graph prints it
  std::string op;    // what made it; "input" for what the graph is given
  Type type;
  int64_t bytes = 0;  // 0 if it is an input (which lives anyway)
  std::string
      reason;  // e.g. "contraction: not recomputed", "cheaper to save than to compute again"
  std::vector<std::string> needed_by;  // the ops of backward that read it, each once
  double save_seconds = 0;             // what writing and reading it costs
  /// What backward would take longer if this alone were not saved: all that it would then compute
  /// again, down to what is saved or computed there anyway. Inputs: 0.
  double recompute_seconds = 0;
};

/// A value of forward that backward computes again.
struct RecomputedValue {
  std::string name;
  std::string op;
  Type type;
  double seconds = 0;
};

/// One set of saved values that was tried: a point of the trade between memory and time.
struct Candidate {
  std::string name;
  int64_t saved_bytes = 0;
  int64_t peak_bytes = 0;  // simulated, forward and backward: saved, arena, outputs; 0: not asked
  double seconds = 0;      // estimated, what saving and recomputing cost
  bool on_front = false;   // no other one is as good in both peak (or saved bytes) and time
  bool chosen = false;
};

struct PartitionReport {
  std::string partitioner;
  std::vector<SavedValue> saved;
  std::vector<RecomputedValue> recomputed;
  int64_t saved_bytes = 0;  // beyond the graph's inputs
  int64_t minimal_bytes =
      0;  // the byte-minimal cut of the same graph (contractions may not be recomputed)
  int64_t eager_bytes = -1;  // what an eager tape would hold beyond its inputs; -1: not known
  int64_t peak_bytes = 0;    // simulated, of the chosen set; 0: not asked
  int64_t limit_bytes = -1;  // what a budget allowed; -1: no budget
  int64_t recomputed_equations = 0;
  double save_seconds = 0;       // estimated: all saved values written and read
  double recompute_seconds = 0;  // estimated: all that is computed again
  double least_seconds = 0;      // no set of saved values within the limit can be cheaper than this
  std::vector<Candidate> candidates;  // what a budget chose from, by saved bytes
  double seconds = 0;                 // that the partitioner took
};

/// The report for people: totals, then every saved and every recomputed value.
TANDEM_API std::string to_text(const PartitionReport& report);
/// The same as JSON: {"schema": "tandem.partition/1", ...}.
TANDEM_API std::string to_json(const PartitionReport& report);

struct Partition {
  Graph forward;   // Level::Forward: primals -> (outputs, saved)
  Graph backward;  // Level::Backward: (saved, tangents) -> gradients; a Saved input's target is the
                   // output of forward that it is: a Saved one, or a Result
  PartitionReport report;
};

/// What the pipeline knows beside the graph.
struct PartitionContext {
  /// What an eager tape would hold for this graph beyond its inputs, in bytes: a partitioner that
  /// can saves no more than that.
  int64_t tape_bytes = std::numeric_limits<int64_t>::max();
  /// By output of the graph: whether an eager tape would hold the memory that it lies in. Saving
  /// such a result takes no memory but its own; changing it before backward is an error eagerly
  /// too.
  std::vector<bool> held_outputs;
  const CostModel* costs = nullptr;  // null: bytes alone count
};

class TANDEM_API Partitioner {
 public:
  virtual ~Partitioner() = default;
  virtual std::string name() const = 0;
  /// Whether it is to save less than what is fastest: loops are then recorded so that they can keep
  /// less for backward.
  virtual bool bounds_memory() const { return false; }
  /// `core` is a Core graph with tangents. Error{Partition} if the request is infeasible.
  virtual Partition partition(const Graph& core) const = 0;
  /// The same for one that heeds the context.
  virtual Partition partition_within(const Graph& core, const PartitionContext& /*context*/) const {
    return partition(core);
  }
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_INTERFACES_PARTITIONER_H
