// Questions about the memory that sizes and strides describe.
#ifndef TANDEM_IR_STRIDES_H
#define TANDEM_IR_STRIDES_H

#include "dim.h"

namespace tandem::ir {

/// The dimensions from the largest stride to the smallest, in either direction; equal ones in their
/// order.
TANDEM_API Axes memory_order(const Strides& strides);

/// How many elements lie between the first and the last, both counted; 0 of an empty tensor.
/// Error{Argument} "what: ..." if 64 bits do not hold it.
TANDEM_API Dim extent(const Shape& sizes, const Strides& strides, const char* what = "extent");

/// A tensor in its storage, in elements.
struct Placed {
  const Shape& sizes;
  const Strides& strides;
  Dim offset;
};

/// One past the place of the last element; the offset of an empty tensor. Checked as extent is.
TANDEM_API Dim end_of(const Placed& t, const char* what = "extent");

/// True if every element of `part` is one of `whole`, which shows none twice.
bool holds(const Placed& whole, const Placed& part);

/// True if two elements may share memory (exact for what views make; else on the safe side).
bool self_overlaps(const Shape& sizes, const Strides& strides);

/// True if the elements fill their memory without gaps or overlap: some permutation is contiguous.
bool is_dense(const Shape& sizes, const Strides& strides);

}  // namespace tandem::ir

#endif  // TANDEM_IR_STRIDES_H
