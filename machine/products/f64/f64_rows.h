// Products of small f64 matrices, where they lie. (Of large ones there are generated kernels, and
// BLAS: linalg/f64_product.h.)
#ifndef TANDEM_MACHINE_PRODUCTS_F64_F64_ROWS_H
#define TANDEM_MACHINE_PRODUCTS_F64_F64_ROWS_H

#include "machine/products/dense_rows.h"

namespace tandem::machine::products {

using F64Rows = DenseRows<double>;

/// By one thread, in this processor's vectors. Each element gets one product after the other, along
/// k.
void add_f64_product(const F64Rows& product);

using AddF64Product = void(const F64Rows& product);
AddF64Product add_product_avx2, add_product_avx512;

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_F64_F64_ROWS_H
