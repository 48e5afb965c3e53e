// Products of large matrices of f64, by BLAS. One is cut into blocks of its result by its shape
// alone, each of which one thread makes.
#ifndef TANDEM_MACHINE_LINALG_F64_PRODUCT_H
#define TANDEM_MACHINE_LINALG_F64_PRODUCT_H

#include "machine/products/dense_product.h"

namespace tandem::machine {

/// Whether BLAS is worth it, and can count so far: both factors are read often, and B is more than
/// stays in a cache.
bool is_large_f64_product(int64_t m, int64_t n, int64_t k);

/// Computes the product on the pool. Matrices which do not overlap.
void multiply_f64(const DenseProduct& product, const double* a, const double* b, double* c);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LINALG_F64_PRODUCT_H
