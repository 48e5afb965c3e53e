// What the partitioners that cut allow and what they charge.
#ifndef TANDEM_PARTITION_POLICIES_H
#define TANDEM_PARTITION_POLICIES_H

#include "partition/network.h"

namespace tandem::partition {

/// True bytes; contractions, costly indexing and reductions of much larger operands are not
/// recomputed, nor what backward would have to write to memory anyway.
Policy default_policy(const Analysis& analysis);

/// True bytes; everything but contractions may be recomputed: the lower bound that reports show.
Policy minimal_policy(const Analysis& analysis);

/// The rules of PyTorch's min-cut partitioner: weights grow with the distance from backward,
/// parameters are free, views cost their own bytes, randomness is saved.
Policy reference_policy(const Analysis& analysis);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_POLICIES_H
