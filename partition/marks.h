// What the user asked for: marks on values, and checkpoint regions.
#ifndef TANDEM_PARTITION_MARKS_H
#define TANDEM_PARTITION_MARKS_H

#include "partition/flow/network.h"

namespace tandem::partition {

/// `policy` with the user's requests over it. A value marked `save` is not recomputed. One marked
/// `recompute` is not saved, nor is what holds as many bytes and is computed from it element by
/// element: that would hold the same memory. In a checkpoint region nothing is saved but what is
/// marked so, what has effects and what the region hands to equations outside of it (which
/// constants are not), and anything may be recomputed that has no effects. A mark on a view is one
/// on what it shows.
Policy heeding_marks(const Analysis& analysis, Policy policy);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_MARKS_H
