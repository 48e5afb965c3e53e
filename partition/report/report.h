// The report of a partition: every saved and recomputed value with its reason and its price.
#ifndef TANDEM_PARTITION_REPORT_REPORT_H
#define TANDEM_PARTITION_REPORT_REPORT_H

#include <functional>
#include <string>
#include <vector>

#include "ir/interfaces/partitioner.h"
#include "partition/estimate.h"
#include "partition/report/explain.h"

namespace tandem::partition {

/// Why a value is saved, by what would have to be done instead.
using Reason = std::function<std::string(const Alternative&)>;

/// A set of values to save, and why each.
struct Choices {
  std::vector<ir::ValueId> values;
  Reason reason;
};

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
