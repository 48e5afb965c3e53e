// What functions of several results return: structures, so that compiled functions may return them
// too, and `auto [values, indices] = max(x, 0);` takes them apart.
#ifndef TANDEM_RESULTS_H
#define TANDEM_RESULTS_H

#include <tandem/structure.h>

namespace tandem {

/// Of max and min along a dimension, where the first of several extremes counts; of sorts and
/// selections.
struct ValuesAndIndices {
  Tensor values, indices;
  TANDEM_FIELDS(ValuesAndIndices, values, indices)
};

/// inverse: where among the values each element is; counts: how often each value appears.
struct Unique {
  Tensor values, inverse, counts;
  TANDEM_FIELDS(Unique, values, inverse, counts)
};

struct MinMax {
  Tensor min, max;
  TANDEM_FIELDS(MinMax, min, max)
};

struct VarMean {
  Tensor var, mean;
  TANDEM_FIELDS(VarMean, var, mean)
};

struct StdMean {
  Tensor std, mean;
  TANDEM_FIELDS(StdMean, std, mean)
};

/// rstd: one over the standard deviation. It and mean are f32 for bf16 and f16.
struct NormAndStatistics {
  Tensor result, mean, rstd;
  TANDEM_FIELDS(NormAndStatistics, result, mean, rstd)
};

}  // namespace tandem

#endif  // TANDEM_RESULTS_H
