// The memory that a tensor lies in, as a tensor: what as_strided addresses.
#ifndef TANDEM_RUNTIME_TENSOR_WHOLE_MEMORY_H
#define TANDEM_RUNTIME_TENSOR_WHOLE_MEMORY_H

#include <tandem/tensor.h>

namespace tandem::runtime {

/// All of the memory of `t`, outside traces, as one row of its dtype: a view of the same base,
/// whose gradient goes to what the base shows. Error{Unsupported} if that shows an element twice
/// and requires grad.
Tensor row_of_memory(const Tensor& t);

/// The same, also inside a trace: of an input an input of its own, which each call makes anew (then
/// with the dimensions in the order of memory, which may be several).
Tensor whole_memory(const Tensor& t, const SourceLocation& at);

/// `t` with its dimensions in the order of memory; undefined if it has gaps or overlaps.
Tensor in_memory_order(const Tensor& t, const SourceLocation& at);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TENSOR_WHOLE_MEMORY_H
