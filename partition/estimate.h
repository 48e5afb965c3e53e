// Estimated time of what a cut decides: saving a value, and computing it again. The prices come
// from a cost model; what has to pass through memory is asked of it (what fuses), not guessed.
#ifndef TANDEM_PARTITION_ESTIMATE_H
#define TANDEM_PARTITION_ESTIMATE_H

#include "ir/interfaces/cost.h"
#include "partition/analysis.h"

namespace tandem::partition {

class Estimate {
 public:
  /// Without a cost model all times are 0.
  Estimate(const Analysis& analysis, const ir::CostModel* costs);

  /// Seconds to write `v` in forward, unless it is written there anyway, and to read it in
  /// backward; of an input, to read it there.
  double save_seconds(ir::ValueId v) const { return save_[v]; }
  /// Seconds to compute `v` again in backward from its operands, and to bring it through memory
  /// where kernels that run at different times read it. 0 for what backward must compute in any
  /// case. Both ways a value is charged for the cache level that it lies in.
  double recompute_seconds(ir::ValueId v) const { return recompute_[v]; }
  bool known() const { return costs_ != nullptr; }

 private:
  const ir::CostModel* costs_;
  ir::ValueMap<double> save_, recompute_;
};

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_ESTIMATE_H
