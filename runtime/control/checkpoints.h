// Scans whose backward keeps the carries of few steps.
#ifndef TANDEM_RUNTIME_CONTROL_CHECKPOINTS_H
#define TANDEM_RUNTIME_CONTROL_CHECKPOINTS_H

#include "runtime/control/record.h"

namespace tandem::control {

/// While it lives, scans that this thread's traces record are checkpointed, or not.
class CheckpointScans {
 public:
  explicit CheckpointScans(bool wanted);
  CheckpointScans(const CheckpointScans&) = delete;
  CheckpointScans& operator=(const CheckpointScans&) = delete;
  ~CheckpointScans();

  static bool wanted();

 private:
  const bool before_;
};

/// As record_scan: a scan over chunks of about sqrt(length) steps, whose body is a scan over those
/// of a chunk. Backward keeps the carries that each chunk began with, and of one chunk at a time
/// those of each step, which it computes again.
Tensors record_in_chunks(Body body, const Tensors& tensors, size_t carries, int64_t length,
                         bool reverse);

}  // namespace tandem::control

#endif  // TANDEM_RUNTIME_CONTROL_CHECKPOINTS_H
