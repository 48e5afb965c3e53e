// Copies between tensors, below the tape.
#ifndef TANDEM_RUNTIME_EAGER_COPY_H
#define TANDEM_RUNTIME_EAGER_COPY_H

#include "runtime/eager/kernels.h"
#include "runtime/tensor_impl.h"

namespace tandem::runtime {

/// Writes `from`'s elements, converted, to `to` (same sizes).
inline void copy_elements(const TensorImpl& to, const TensorImpl& from) {
  eager::copy_elements(from.view(), to.view());
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_EAGER_COPY_H
