// Questions about the memory that sizes and strides describe.
#ifndef TANDEM_IR_STRIDES_H
#define TANDEM_IR_STRIDES_H

#include "dim.h"

namespace tandem::ir {

/// The dimensions from the largest stride to the smallest, equal ones in their order.
TANDEM_API Dims memory_order(const Strides& strides);

/// How many elements lie between the first and the last, both counted.
TANDEM_API Dim extent(const Shape& sizes, const Strides& strides);

/// True if two elements may share memory (exact for what views make; else on the safe side).
bool self_overlaps(const Shape& sizes, const Strides& strides);

/// True if the elements fill their memory without gaps or overlap: some permutation is contiguous.
bool is_dense(const Shape& sizes, const Strides& strides);

}  // namespace tandem::ir

#endif  // TANDEM_IR_STRIDES_H
