// Factors and solutions of matrices, [..., rows, columns], on the pool: those of a batch are shared
// out among threads, one is worked on by one thread. Eager and compiled code call them; ir/ops.def
// has one row of the class Linalg for each, and says what it does.
#ifndef TANDEM_MACHINE_LINALG_MATRICES_H
#define TANDEM_MACHINE_LINALG_MATRICES_H

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/buffer.h"

namespace tandem::machine {

/// Views of any strides; `numbers`: the op's attributes in their order; `name`: of errors. Results
/// of eigh and svd without an address are not written, and vectors then not computed.
struct MatrixCall {
  std::span<const ir::BufferView> in;
  std::span<const int64_t> numbers;
  std::span<const ir::BufferView> out;
  std::string_view name;
};
/// Throws Error (argument) if a matrix of the batch has no such factors; nothing tells how much of
/// `out` was written then.
using MatrixFunction = void (*)(const MatrixCall& call);

/// The function of the op of this name.
MatrixFunction matrix_function(std::string_view op);

namespace matrices {
#define TANDEM_MATRIX_FUNCTIONS(X) \
  X(cholesky)                      \
  X(lu_factor)                     \
  X(lu_permutation) X(triangular_solve) X(lu_solve) X(qr) X(geqrf) X(eigh) X(svd) X(matrix_exp)
#define X(name) void name(const MatrixCall& call);
TANDEM_MATRIX_FUNCTIONS(X)
#undef X
}  // namespace matrices

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LINALG_MATRICES_H
