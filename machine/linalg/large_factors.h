// Factors of large matrices by several threads: by panels of columns, of which BLAS and LAPACK
// compute one on a thread. How a matrix is cut depends on its sizes alone. Matrices are in
// column-major order; call these while a lapack::Call lives.
#ifndef TANDEM_MACHINE_LINALG_LARGE_FACTORS_H
#define TANDEM_MACHINE_LINALG_LARGE_FACTORS_H

#include <cstdint>

#include "machine/linalg/lapack.h"

namespace tandem::machine::matrices {

/// As lapack::potrf, of a [n, n]; a minor that is NaN is not positive either.
template <class T>
int factor_large_cholesky(int64_t n, T* a);

/// As lapack::getrf, of a [m, n].
template <class T>
int factor_large_lu(int64_t m, int64_t n, T* a, int* pivots);

/// b [m, n] becomes x with x a = b.
template <class T>
void solve_triangle(const lapack::Triangle<T>& a, int64_t m, int64_t n, T* b);

}  // namespace tandem::machine::matrices

#endif  // TANDEM_MACHINE_LINALG_LARGE_FACTORS_H
