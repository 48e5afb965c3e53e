// Eager kernels: one function per primitive, over strided views. What fails on data is found before
// anything is written.
#ifndef TANDEM_RUNTIME_EAGER_KERNELS_H
#define TANDEM_RUNTIME_EAGER_KERNELS_H

#include <tandem/tensor.h>

#include <span>

#include "ir/buffer.h"
#include "ir/op.h"

namespace tandem::runtime::eager {

/// True for primitives that compute, and for the composites copy and fill (which only write).
bool has_kernel(ir::Op op);

/// What a `full` or a `fill` gives each element: the first bytes of it.
uint64_t fill_bits(ir::Op op, std::span<const ir::AttrValue> attrs, DType dtype);

/// True for a `full` whose elements are all zero bits: memory that is zero already serves.
bool gives_zeros(ir::Op op, std::span<const ir::AttrValue> attrs, DType dtype);

/// Computes `op` into `outs`, which have the results' dtypes and sizes and any strides without
/// overlap. Pointwise ops may have operands that lie exactly where the result does.
void run(ir::Op op, std::span<const Tensor> operands, std::span<const ir::AttrValue> attrs,
         std::span<const ir::BufferView> outs);

/// Writes `from`'s elements, converted, to `to` (same sizes).
void copy_elements(const ir::BufferView& from, const ir::BufferView& to);

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_KERNELS_H
