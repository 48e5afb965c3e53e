// Products with matrices of i8, of weights that were quantised: as f32 times i8 and as i8 times i8.
// What is multiplied how is chosen by sizes alone.
#ifndef TANDEM_MACHINE_PRODUCTS_INT8_H
#define TANDEM_MACHINE_PRODUCTS_INT8_H

#include "ir/buffer.h"

namespace tandem::machine {

/// out [m, n] = (x [m, k] @ weight [n, k]^T) * scales [n], x and out of f32 or f64, weight i8. The
/// elements of rows of x and weight, and out and scales, lie side by side. Throws Error
/// (out_of_memory), as the other.
void multiply_weight(const ir::BufferView& x, const ir::BufferView& weight,
                     const ir::BufferView& scales, const ir::BufferView& out);

/// out [m, n] = a [m, k] @ b [k, n], i8 to i32, which wraps. The elements of each one's rows, or of
/// its columns, lie side by side; out is contiguous.
void multiply_integers(const ir::BufferView& a, const ir::BufferView& b, const ir::BufferView& out);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_PRODUCTS_INT8_H
