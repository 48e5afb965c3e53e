// Budgets: sets between the fastest and the smallest, and which of them a budget allows.
#ifndef TANDEM_PARTITION_CANDIDATES_H
#define TANDEM_PARTITION_CANDIDATES_H

#include "partition/choices.h"

namespace tandem::partition {

/// The fastest of all sets tried whose simulated peak is at most
/// P_min + fraction * (P_default - P_min). Error{Argument} without a cost model.
ir::Partition partition_by_peak(const Problem& problem, double fraction);

/// The fastest set whose saved bytes are at most `fraction` of the default set's.
ir::Partition partition_by_fraction(const Problem& problem, double fraction);
/// The fastest set of at most `bytes` saved bytes.
ir::Partition partition_by_bytes(const Problem& problem, double bytes);

/// The split at `choices`, with its report.
ir::Partition partition_at(const Problem& problem, const Choices& choices);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_CANDIDATES_H
