// The sizes of a kernel that its form leaves open.
#ifndef TANDEM_CODEGEN_JIT_OPEN_SIZES_H
#define TANDEM_CODEGEN_JIT_OPEN_SIZES_H

#include "codegen/jit/form.h"

namespace tandem::jit {

/// Opens the sizes of `opened`, whose numbers are open already.
void open_sizes(Opened& opened, Openness openness);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_OPEN_SIZES_H
