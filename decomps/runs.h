// Reductions over any dims: a Core one runs over neighbours, others become a chain. Internal.
#ifndef TANDEM_DECOMPS_RUNS_H
#define TANDEM_DECOMPS_RUNS_H

#include <span>
#include <vector>

#include "ir/build/builder.h"

namespace tandem::decomps {

/// Whether `dims` (ascending) are neighbours.
inline bool is_one_run(std::span<const ir::Axis> dims) {
  return dims.empty() || dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
}

/// `dims` (ascending) as runs of neighbours.
inline std::vector<ir::Axes> runs_of(std::span<const ir::Axis> dims) {
  std::vector<ir::Axes> runs;
  for (const ir::Axis d : dims) {
    if (runs.empty() || runs.back().back() + 1 != d) runs.emplace_back();
    runs.back().push_back(d);
  }
  return runs;
}

/// `v` reduced over `dims` (ascending), which are kept as 1: last run first.
inline ir::ValueId reduce_run_by_run(ir::Builder& b, ir::Op op, ir::ValueId v,
                                     std::span<const ir::Axis> dims) {
  const std::vector<ir::Axes> runs = runs_of(dims);
  for (size_t i = runs.size(); i-- > 0;) v = b.reduce(op, v, runs[i], true);
  return v;
}

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_RUNS_H
