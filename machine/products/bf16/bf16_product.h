// Products of bf16 matrices by loops of ours, for processors that multiply pairs of bf16 numbers in
// vectors (AVX512_BF16). Where there are tiles of them (AMX), the library's are faster.
#ifndef TANDEM_MACHINE_PRODUCTS_BF16_BF16_PRODUCT_H
#define TANDEM_MACHINE_PRODUCTS_BF16_BF16_PRODUCT_H

#include <cstdint>

#include "machine/products/dense_product.h"

namespace tandem::machine::products {

/// Whether products are computed so on this processor.
bool has_bf16_tiles();

/// Computes a product with elements, and something to sum, on the pool. Matrices of bf16, which do
/// not overlap. Sums are in f32, and rounded once; how they are cut follows from the shape alone.
/// Numbers below 2^-126 count as zero. Throws Error (out_of_memory).
void multiply_bf16(const DenseProduct& product, const uint16_t* a, const uint16_t* b, uint16_t* c);

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_BF16_BF16_PRODUCT_H
