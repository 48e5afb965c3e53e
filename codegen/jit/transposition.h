// Copies that turn rows into columns, which have code of their own.
#ifndef TANDEM_CODEGEN_JIT_TRANSPOSITION_H
#define TANDEM_CODEGEN_JIT_TRANSPOSITION_H

#include <optional>

#include "codegen/loops/kernel.h"

namespace tandem::jit {

/// Two loops around nothing but a copy: the load is contiguous along loop `x`, the store along loop
/// `y`.
struct Transposition {
  size_t load, store;
  codegen::LoopId outer, inner;
  codegen::LoopId x, y;
};

/// The one whose outer loop begins at instruction `at`. Of elements of less than four bytes there
/// are none unless `any_size`.
std::optional<Transposition> transposition(const codegen::Kernel& kernel, size_t at, bool any_size);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_TRANSPOSITION_H
