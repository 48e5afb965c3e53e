// BLAS and LAPACK on matrices of f32 and f64 in column-major order, one thread each, while a Call
// lives. Only lapack.cpp knows of the library. Those of LAPACK return its `info`: 0, or what
// failed.
#ifndef TANDEM_MACHINE_LINALG_LAPACK_H
#define TANDEM_MACHINE_LINALG_LAPACK_H

#include <cstdint>
#include <mutex>

#include "machine/library/single_omp_thread.h"

namespace tandem::machine::lapack {

/// Elements of working memory that a call takes.
struct Work {
  int64_t floats = 0, ints = 0;
};

/// Whether several threads may call the library at once: OpenBLAS built without threads allows
/// one.
bool takes_several_callers();

/// While it lives its thread may call the library, whose own threads do not work. One that several
/// threads may not call at once has one caller at a time.
class Call {
 public:
  Call();

 private:
  SingleOmpThread single_;
  std::unique_lock<std::mutex> alone_;
};

/// Of a product c [m, n] = a [m, k] b [k, n].
struct ProductSize {
  int64_t m, n, k;
};
/// A matrix whose columns, or rows if it is `transposed`, begin `step` elements apart.
template <class T>
struct Factor {
  const T* first;
  int64_t step;
  bool transposed = false;
};
template <class T>
struct ProductResult {
  T* first;
  int64_t step;
  bool adds = false;       // to what is there, instead of writing over it
  bool subtracts = false;  // from what is there
};
template <class T>
void gemm(const ProductSize& size, const Factor<T>& a, const Factor<T>& b,
          const ProductResult<T>& c);

/// A triangular matrix, whose columns begin `step` elements apart.
template <class T>
struct Triangle {
  const T* first;
  int64_t step;
  bool upper, transposed;  // which triangle is read, of what lies in memory; whether it is turned
  bool unit;               // the diagonal is not read: it is ones
};
/// On which side of what is sought a triangular matrix stands.
enum class Side : uint8_t { Left, Right };
/// b [m, n] becomes x with a x = b or x a = b, of a triangular a. Columns of b begin `step`
/// elements apart; so do those of the matrices below.
template <class T>
void trsm(Side side, const Triangle<T>& a, int64_t m, int64_t n, T* b, int64_t step);

/// a [n, n], of which the upper triangle is read, becomes U with U^T U = a there.
template <class T>
int potrf(int64_t n, T* a, int64_t step);
/// a [m, n] becomes L below the diagonal and U; pivots, from 1 on: row i changes place with that.
template <class T>
int getrf(int64_t m, int64_t n, T* a, int64_t step, int* pivots);

/// a [m, n] becomes R and reflectors, of which orgqr makes the first `columns` columns of Q in a.
template <class T>
Work qr_work(int64_t m, int64_t n, int64_t columns);
template <class T>
int geqrf(int64_t m, int64_t n, T* a, T* tau, T* work, int64_t size);
template <class T>
int orgqr(int64_t m, int64_t columns, int64_t reflectors, T* a, const T* tau, T* work,
          int64_t size);

/// Which vectors there are beside values: of `Some` as many as there are values.
enum class Vectors : uint8_t { None, Some, All };

/// Ascending eigenvalues of the symmetric a [n, n], of which the lower triangle is read; a becomes
/// the vectors, or is destroyed.
template <class T>
Work syevd_work(int64_t n, Vectors vectors);
template <class T>
int syevd(int64_t n, Vectors vectors, T* a, T* values, T* work, int64_t size, int* ints,
          int64_t int_size);

/// a [m, n] = u diag(s) vh; u and vh are square if all vectors are wanted, and not written if none
/// is. Destroys a.
template <class T>
Work gesdd_work(int64_t m, int64_t n, Vectors vectors);
template <class T>
int gesdd(int64_t m, int64_t n, Vectors vectors, T* a, T* s, T* u, T* vh, T* work, int64_t size,
          int* ints);

}  // namespace tandem::machine::lapack

#endif  // TANDEM_MACHINE_LINALG_LAPACK_H
