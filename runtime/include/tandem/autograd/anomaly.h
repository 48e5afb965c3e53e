// Where the first NaN comes from.
#ifndef TANDEM_AUTOGRAD_ANOMALY_H
#define TANDEM_AUTOGRAD_ANOMALY_H

#include <tandem/ir/export.h>

namespace tandem {

struct AnomalyOptions {
  bool check_nan = true;       // of gradients: each that backward or grad() computes
  bool check_forward = false;  // of results, for NaN and infinities that no operand has
};

/// torch.autograd.detect_anomaly: while it lives, in this thread, an operation whose gradient gives
/// the first NaN, or with check_forward the operation that gives the first NaN or infinity, is an
/// Error{Autograd} that names the operation, the source line at which the user called it in
/// forward, which gradient or result, its dtype and sizes, and the element. What the user asks for
/// is no anomaly: tensors made of NaN or infinities (full, masked_fill), and what follows from
/// them. (A function made of several operations is looked into, as binary_cross_entropy, which
/// takes the logarithm of 0 before it limits it.)
///
/// Compiled functions run as the functions that they were made of, operation by operation. The
/// backward of a call that was made before still runs compiled; where it gives a NaN, the reference
/// interpreter runs its graph once more, and the error shows the equation. Slow, and results may
/// differ from those without it in rounding; for finding faults. The innermost one counts.
class TANDEM_API DetectAnomaly {
 public:
  explicit DetectAnomaly(const AnomalyOptions& options = {});
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  AnomalyOptions previous_;
};

}  // namespace tandem

#endif  // TANDEM_AUTOGRAD_ANOMALY_H
