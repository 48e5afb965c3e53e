// Loops over narrow rows: those of a few columns (positions in space, classes, quaternions), of
// which a vector along the columns would be mostly empty.
#ifndef TANDEM_CODEGEN_KERNELS_NARROW_LOOPS_H
#define TANDEM_CODEGEN_KERNELS_NARROW_LOOPS_H

#include <optional>

#include "codegen/kernels/column_sums.h"

namespace tandem::codegen {

/// The first loop of `kernel` over narrow rows that can run along them, and is faster so. Its rows
/// are independent of each other but for the sums of columns.
std::optional<Rows> find_narrow_rows(const Kernel& kernel, int vector_bytes);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_NARROW_LOOPS_H
