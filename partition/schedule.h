// The order of a half's equations.
#ifndef TANDEM_PARTITION_SCHEDULE_H
#define TANDEM_PARTITION_SCHEDULE_H

#include "ir/cost.h"
#include "ir/graph.h"

namespace tandem::partition {

/// `half` in the order that it has or, if its memory plan then needs less, in one where an equation
/// that frees more than it makes comes first. Values and results stay the same.
ir::Graph low_peak_order(const ir::Graph& half, const ir::CostModel& costs);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_SCHEDULE_H
