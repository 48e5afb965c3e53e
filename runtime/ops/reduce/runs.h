// Runs of equal elements, whose number depends on data.
#ifndef TANDEM_RUNTIME_OPS_REDUCE_RUNS_H
#define TANDEM_RUNTIME_OPS_REDUCE_RUNS_H

#include <tandem/results.h>

namespace tandem::runtime {

/// Of a vector: the first element of each run, the run of each element, and how long runs are. No
/// NaN equals another.
Unique runs_of(const Tensor& vector);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_REDUCE_RUNS_H
