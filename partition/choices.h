// The sets of saved values that the partitioners choose from, with the reason for each value.
#ifndef TANDEM_PARTITION_CHOICES_H
#define TANDEM_PARTITION_CHOICES_H

#include "ir/interfaces/partitioner.h"
#include "partition/report/report.h"

namespace tandem::partition {

/// What a partitioner decides from.
struct Problem {
  Problem(const ir::Graph& core, const ir::PartitionContext& given)
      : analysis(core, given.held_outputs), context(given), estimate(analysis, given.costs) {}

  Analysis analysis;
  ir::PartitionContext context;
  Estimate estimate;
};

/// The least estimated time, with at most the bytes of the tape and of save-all; with more bytes
/// than the reference only where its kernels are predicted to take at least 3% less time. Without a
/// cost model the fewest bytes under rough bans.
Choices choose_default(const Problem& problem);
/// PyTorch's rules.
Choices choose_reference(const Problem& problem);
/// What the backward half reads of the forward half, as a tape holds it.
Choices choose_everything(const Problem& problem);
Choices choose_inputs(const Problem& problem);
/// As few bytes as the user's marks allow.
Choices choose_fewest(const Problem& problem);
/// The fastest set of at most `max_bytes`; `least_seconds` gets what no such set can undercut.
Choices choose_within(const Problem& problem, int64_t max_bytes, double& least_seconds);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_CHOICES_H
