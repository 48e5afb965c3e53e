// Sets of dims, and runs of them: a Core reduction runs over neighbours, others become a chain.
// Internal.
#ifndef TANDEM_DECOMPS_DIMS_H
#define TANDEM_DECOMPS_DIMS_H

#include <span>
#include <vector>

#include "ir/build/builder.h"

namespace tandem::decomps {

/// A set of dims, by bits.
using DimSet = uint64_t;
static_assert(ir::kMaxRank <= 64);
constexpr DimSet only(int64_t dim) { return DimSet{1} << dim; }

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

/// `v` reduced over the dims of `runs`, which are kept as 1: those of the last first.
inline ir::ValueId reduce_in_turn(ir::Builder& b, ir::Op op, ir::ValueId v,
                                  std::span<const ir::Axes> runs) {
  for (size_t i = runs.size(); i-- > 0;) v = b.reduce(op, v, runs[i], true);
  return v;
}

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_DIMS_H
