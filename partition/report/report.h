// The report of a partition: every saved and recomputed value with its reason and its price.
#ifndef TANDEM_PARTITION_REPORT_REPORT_H
#define TANDEM_PARTITION_REPORT_REPORT_H

#include "ir/interfaces/partitioner.h"
#include "partition/estimate.h"
#include "partition/flow/network.h"

namespace tandem::partition {

/// A set of values to save, and why each.
struct Choice {
  ir::ValueId value;
  std::string reason;
};
using Choices = std::vector<Choice>;

std::vector<ir::ValueId> values_of(const Choices& choices);

/// What a set of saved values costs: bytes beyond the inputs, seconds of saving and recomputing.
struct Cost {
  int64_t saved_bytes = 0;
  double save_seconds = 0, recompute_seconds = 0;
  double seconds() const { return save_seconds + recompute_seconds; }
};
Cost cost_of(const Analysis& analysis, const Estimate& estimate,
             std::span<const ir::ValueId> saved);

/// Everything but the partitioner's name, the plans and the time.
ir::PartitionReport report_of(const Analysis& analysis, const Estimate& estimate,
                              const Choices& choices);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_REPORT_REPORT_H
