// What partition.h's `split` does, for who knows the analysis of the graph already.
#ifndef TANDEM_PARTITION_SPLIT_H
#define TANDEM_PARTITION_SPLIT_H

#include <span>

#include "ir/interfaces/partitioner.h"
#include "partition/analysis.h"

namespace tandem::partition {

ir::Partition split(const Analysis& analysis, std::span<const ir::ValueId> saved);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_SPLIT_H
