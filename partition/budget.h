// The fastest set of saved values within a number of bytes: an exact search where the graph is
// small, a Lagrangian bound and what can be found near it where it is large.
#ifndef TANDEM_PARTITION_BUDGET_H
#define TANDEM_PARTITION_BUDGET_H

#include "partition/estimate.h"
#include "partition/flow/network.h"
#include "partition/report/report.h"

namespace tandem::partition {

struct BudgetedSet {
  std::vector<ir::ValueId> saved;
  Cost cost;
  double least_seconds = 0;  // no set within the limit can cost less
  bool exact = false;        // `saved` is as cheap as that, up to rounding
};

/// The cheapest set of at most `max_bytes` beyond the inputs when everything without effects may be
/// recomputed. Error{Partition} if there is none: it names the values that must be saved.
BudgetedSet cheapest_within(const Analysis& analysis, const Estimate& estimate, int64_t max_bytes);

/// The fewest bytes that can be saved when everything without effects may be recomputed; of equal
/// sets the fastest.
std::vector<ir::ValueId> fewest_bytes(const Analysis& analysis, const Estimate& estimate);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_BUDGET_H
