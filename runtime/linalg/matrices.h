// What factors and solutions share: batches, triangles, and primitives as functions of values.
#ifndef TANDEM_RUNTIME_LINALG_MATRICES_H
#define TANDEM_RUNTIME_LINALG_MATRICES_H

#include "runtime/linalg/checks.h"

namespace tandem::runtime {

inline V transposed(Call& c, V v) { return c.b.transpose(v, -2, -1); }

/// An operand that is a matrix, or a batch of them.
inline V matrix_operand(Call& c, const Tensor& t, const char* name = "self") {
  const V v = c.in(t, name);
  if (c.b.rank(v) < 2)
    reject(ir::Errc::Shape, "{} is not a matrix; expected at least 2 dimensions, got {}", name,
           to_string(c.b.sizes(v)));
  return v;
}

inline Dim rows_of(Call& c, V v) { return c.b.sizes(v)[c.b.rank(v) - 2]; }
inline Dim columns_of(Call& c, V v) { return c.b.sizes(v).back(); }

/// The sizes of v before its last `inner` dimensions.
Shape batch_of(Call& c, V v, int inner = 2);
/// v with `batch` before its last `inner` dimensions.
V with_batch(Call& c, V v, const Shape& batch, int inner = 2);
/// Identity matrices like v.
V identity_like(Call& c, V v);

struct LuValues {
  V lu, pivots, info;
};
/// Of a matrix; `checked`: Error if it is singular.
LuValues lu_of(Call& c, V self, bool checked);
/// x with self @ x = other, of matrices whose batches broadcast.
V solved(Call& c, V self, const LuValues& factors, V other);
V inverse_of(Call& c, V self, bool checked);

V triangular_solved(Call& c, V a, V b, bool upper, bool unitriangular = false);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_LINALG_MATRICES_H
