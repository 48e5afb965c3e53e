// What the partitioners that cut allow and what they charge.
#ifndef TANDEM_PARTITION_POLICIES_H
#define TANDEM_PARTITION_POLICIES_H

#include "partition/estimate.h"
#include "partition/flow/network.h"

namespace tandem::partition {

/// True bytes; contractions, costly indexing and reductions of much larger operands are not
/// recomputed, nor what backward would have to write to memory anyway.
Policy default_policy(const Analysis& analysis);

/// Estimated time: a saved value costs its write and read, a recomputed one what it costs in the
/// kernels that would be formed; every saved byte beyond the inputs costs `seconds_per_byte` more.
/// Contractions, effects and writes at indices are not recomputed unless `anything`: then only
/// effects are not.
struct TimePolicy {
  double seconds_per_byte = 0;
  bool anything = false;
};
Policy time_policy(const Analysis& analysis, const Estimate& estimate, TimePolicy options);

/// The unit of the time policy's prices: whole picoseconds, at least 1 for what is not free.
int64_t picoseconds(double seconds);

/// True bytes; everything but contractions may be recomputed: the lower bound that reports show.
Policy minimal_policy(const Analysis& analysis);

/// The rules of PyTorch's min-cut partitioner: weights grow with the distance from backward,
/// parameters are free, views cost their own bytes, randomness is saved.
Policy reference_policy(const Analysis& analysis);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_POLICIES_H
