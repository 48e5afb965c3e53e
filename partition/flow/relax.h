// Meeting a limit on saved bytes: bans are lifted, one kind of equation at a time.
#ifndef TANDEM_PARTITION_FLOW_RELAX_H
#define TANDEM_PARTITION_FLOW_RELAX_H

#include "partition/flow/network.h"

namespace tandem::partition {

/// `policy` with as few bans lifted as bring its cheapest saved set to at most `max_bytes`: first
/// of what passes over memory, then of reductions, then of contractions; effects stay banned. If
/// even that does not reach the limit, everything that may be lifted is.
Policy relaxed_to(const Analysis& analysis, const Policy& policy, int64_t max_bytes);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_FLOW_RELAX_H
