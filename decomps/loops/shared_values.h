// What two bodies both compute, and what of it the second is best given by the first.
#ifndef TANDEM_DECOMPS_LOOPS_SHARED_VALUES_H
#define TANDEM_DECOMPS_LOOPS_SHARED_VALUES_H

#include <vector>

#include "ir/graph.h"

namespace tandem::decomps {

/// A body that runs after another one, where `second` may compute again what `first` did.
struct BodyPair {
  const ir::Graph& first;
  const ir::Graph& second;
  std::vector<ir::ValueId> inputs;  // by input of second: what it is in the first; or invalid
  std::vector<bool> varies;         // by input of second: false if it is the same in all steps
};

struct SharedValue {
  ir::ValueId given, taken;  // of the first; of the second
};

/// What the second takes so that it computes no product again: as little as that needs, as late as
/// it takes no more memory. Nothing if it were more than `most_bytes`.
std::vector<SharedValue> choose_shared_values(const BodyPair& bodies, int64_t most_bytes);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_LOOPS_SHARED_VALUES_H
