// When a kernel may overwrite what it reads.
#ifndef TANDEM_CODEGEN_MEMORY_IN_PLACE_H
#define TANDEM_CODEGEN_MEMORY_IN_PLACE_H

#include <optional>

#include "codegen/loops/kernel.h"

namespace tandem::codegen {

/// Whether all that a kernel does is to give elements of param `read` to the same places of param
/// `written`.
bool is_copy(const Kernel& kernel, ParamId read, ParamId written);

/// The kernel with params `read` and `written` as one, `read`, if the same memory can be both: if
/// each element is read for the last time before, and where, it is written.
std::optional<Kernel> merged_in_place(const Kernel& kernel, ParamId read, ParamId written);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_MEMORY_IN_PLACE_H
