// Whole steps: one graph of loss, backward and updates, which nobody differentiates any more.
#ifndef TANDEM_PARTITION_STEP_H
#define TANDEM_PARTITION_STEP_H

#include <optional>

#include "ir/interfaces/partitioner.h"

namespace tandem::partition {

struct Step {
  ir::Graph graph;  // Level::Forward; is_backward is what stands behind its turn
  ir::PartitionReport report;
};

/// `core`, a Core graph without tangents, with what `partitioner` would compute again in backward
/// computed again behind its turn: the place at which the most is held for later. Outputs that are
/// computed there count as gradients. The same bits in less memory. None if nothing is to be
/// computed again.
std::optional<Step> recompute_in_step(const ir::Graph& core, const ir::Partitioner& partitioner,
                                      const ir::PartitionContext& context);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_STEP_H
