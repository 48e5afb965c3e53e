// Narrow rows: those of a few columns (positions in space, classes, quaternions), of which a vector
// along the columns would be mostly empty. Vectors run along the rows instead, with a value for
// each column.
#ifndef TANDEM_CODEGEN_KERNELS_NARROW_ROWS_H
#define TANDEM_CODEGEN_KERNELS_NARROW_ROWS_H

#include "codegen/loops/kernel.h"

namespace tandem::codegen {

/// `kernel`, whose rows are independent of each other but for sums of columns, with each Serial
/// loop over narrow rows as a Vector loop, and the loops over their columns written out. What is
/// kept of a row between its sweeps becomes values, sums of columns become accumulators. Results
/// have the same bits: reductions of a row are written out in their order. Loops that cannot run
/// so, or would gain nothing from vectors of `vector_bytes`, stay as they are.
Kernel with_lanes_along_narrow_rows(Kernel kernel, int vector_bytes);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_NARROW_ROWS_H
