// Ops that leave leading dimensions alone: pointwise ops, reductions and scans over dimensions that
// they name, and matrices.
#include "batching/rules.h"

namespace tandem::batching {

#define TANDEM_RULE_Pointwise(name) const BatchRule batch_##name = kAligned;
#define TANDEM_RULE_Reduction(name)
#define TANDEM_RULE_Scan(name)
#define TANDEM_RULE_Linalg(name) const BatchRule batch_##name = kAligned;
#define TANDEM_RULE_Contraction(name)
#define TANDEM_RULE_View(name)
#define TANDEM_RULE_Shape(name)
#define TANDEM_RULE_Factory(name)
#define TANDEM_RULE_Index(name)
#define TANDEM_RULE_Random(name)
#define TANDEM_RULE_Control(name)
#define TANDEM_RULE_External(name)
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  TANDEM_RULE_##class_(name)
#include "ir/ops.def"

const BatchRule batch_sum = kAligned;
const BatchRule batch_prod = kAligned;
const BatchRule batch_amax = kAligned;
const BatchRule batch_amin = kAligned;
const BatchRule batch_argmax = kAligned;
const BatchRule batch_argmin = kAligned;
const BatchRule batch_any = kAligned;
const BatchRule batch_all = kAligned;
const BatchRule batch_mean = kAligned;
const BatchRule batch_var = kAligned;
const BatchRule batch_std = kAligned;
const BatchRule batch_logsumexp = kAligned;
const BatchRule batch_softmax = kAligned;
const BatchRule batch_log_softmax = kAligned;
const BatchRule batch_var_mean = kAligned;
const BatchRule batch_std_mean = kAligned;
const BatchRule batch_aminmax = kAligned;
const BatchRule batch_max_with_indices = kAligned;
const BatchRule batch_min_with_indices = kAligned;
const BatchRule batch_cross_entropy = kDecomposed;

const BatchRule batch_cumsum = kAligned;
const BatchRule batch_cumprod = kAligned;
const BatchRule batch_logcumsumexp = kAligned;
const BatchRule batch_linear_scan = kAligned;
const BatchRule batch_cummax_indices = kAligned;
const BatchRule batch_cummin_indices = kAligned;
const BatchRule batch_argsort = kAligned;
const BatchRule batch_topk_indices = kAligned;
const BatchRule batch_kth_index = kAligned;
const BatchRule batch_median_index = kAligned;
const BatchRule batch_mode_index = kAligned;
const BatchRule batch_igamma = kAligned;
const BatchRule batch_igammac = kAligned;

/// One sequence for rows of values serves all examples as it is, or is repeated for their rows.
const BatchRule batch_searchsorted = formula([](Examples e) {
  const V values = e.spread(1);
  if (!e.batched(0) && e.rank(e[0]) == 1) return e.emit({e[0].v, values}, e.c.attrs);
  V sorted = e.spread(0);
  Shape rows = e.b.sizes(values);
  if (rows.rank() != e.b.rank(sorted)) {
    for (int d = rows.rank() - 2; d > 0; --d) sorted = e.b.unsqueeze(sorted, 1);
    rows[rows.rank() - 1] = e.b.sizes(sorted).back();
    sorted = e.b.expand(sorted, rows);
  }
  return e.emit({sorted, values}, e.c.attrs);
});

}  // namespace tandem::batching
