// bf16 matrix products where the processor has instructions for them: sums in f32, rounded once. By
// loops of ours (products/bf16/) or, where there is AMX, through oneDNN: a product is then cut into
// blocks of its output by its shape alone, each one a single-threaded primitive, as f32 ones are
// (matmul.h).
#ifndef TANDEM_MACHINE_LIBRARY_BF16_MATMUL_H
#define TANDEM_MACHINE_LIBRARY_BF16_MATMUL_H

#include "machine/products/dense_product.h"

namespace tandem::machine {

/// Whether the processor has such instructions (AVX512_BF16, or AMX); TANDEM_ISA may lower it.
bool has_bf16_products();

/// Computes the product on the pool. Matrices of bf16, which do not overlap. Throws Error
/// (out_of_memory) when the library cannot get its buffers.
void multiply_bf16(const DenseProduct& product, const void* a, const void* b, void* c);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_BF16_MATMUL_H
