// Factors by elimination, and what they solve.
#include <limits>

#include "machine/linalg/large_factors.h"
#include "machine/linalg/matrix.h"
#include "machine/linalg/small_factors.h"

namespace tandem::machine::matrices {
namespace {

double cube(int64_t n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

/// Where a result is made in row-major order: in its own place if it lies so, else in
/// `memory`.
template <class T>
Matrix<T> working_place(const Matrix<T>& result, T* memory) {
  const bool is_dense = result.column_step == 1 && result.row_step == result.columns;
  return is_dense ? result : row_major(memory, result.rows, result.columns);
}

template <class T>
void bring_from(const Matrix<T>& place, const Matrix<T>& result) {
  if (place.first != result.first) copy(place, result);
}

/// Exchanges rows of x [n, k] as pivots say, or back.
template <class T>
void exchange_rows(const Matrix<const int32_t>& pivots, bool backwards, T* x, int64_t k) {
  for (int64_t step = 0; step < pivots.rows; ++step) {
    const int64_t i = backwards ? pivots.rows - 1 - step : step;
    const int64_t other = pivots[i] - 1;
    if (other != i) std::swap_ranges(x + i * k, x + i * k + k, x + other * k);
  }
}

/// Whether BLAS can step so from one column of `rows` elements to the next.
bool is_leading(int64_t step, int64_t rows) {
  return step >= rows && step <= std::numeric_limits<int>::max();
}

/// a, in memory as BLAS takes it: where it lies, or in `memory` [n, n].
template <class T>
lapack::Triangle<T> turned_triangle(const Matrix<const T>& a, bool upper, bool unit, T* memory) {
  if (a.row_step == 1 && is_leading(a.column_step, a.rows))
    return {a.first, a.column_step, upper, true, unit};
  if (a.column_step == 1 && is_leading(a.row_step, a.rows))
    return {a.first, a.row_step, !upper, false, unit};
  copy(a, row_major(memory, a.rows, a.rows));
  return {memory, a.rows, !upper, false, unit};
}

/// a x = b in place of b, [n, k] in row-major order: in column-major order x^T a^T = b^T. a is
/// triangular, with ones on its diagonal if `unit`; `memory` [n, n].
template <class T>
void solve_triangular(const Matrix<const T>& a, bool upper, bool unit, T* b, int64_t k, T* memory) {
  if (is_small(a) && k <= kSmall) return solve_small_triangle(a, upper, unit, b, k);
  solve_triangle(turned_triangle(a, upper, unit, memory), k, a.rows, b);
}

/// `memory` [m, n].
template <class T>
int factor_lu(const Matrix<const T>& a, const Matrix<T>& lu, int* pivots, T* memory) {
  const bool small = is_small(a);
  const Matrix<T> place =
      small ? working_place(lu, memory) : column_major(memory, a.rows, a.columns);
  copy(a, place);
  const int info = small ? factor_small_lu(place, pivots)
                         : factor_large_lu(a.rows, a.columns, place.first, pivots);
  bring_from(place, lu);
  return info;
}

bool are_rows(const Matrix<const int32_t>& pivots, int64_t rows) {
  for (int64_t i = 0; i < pivots.rows; ++i)
    if (pivots[i] < 1 || pivots[i] > rows) return false;
  return true;
}

std::string of_pivots(int) { return "has no such pivots; expected rows from 1 on"; }

/// Of numbers[0], what LAPACK's info reports is an error.
template <class Describe>
void report_if_checked(const MatrixCall& call, bool is_batch, const Failure& failure,
                       Describe describe) {
  if (call.numbers[0] != 0) report(call, is_batch, failure, describe);
}

}  // namespace

// In memory, L in row-major order is U in column-major order.
void cholesky(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> a(call.in[0]);
    const Batch<T> factors(call.out[0]);
    const Batch<int32_t> infos(call.out[1], 0);
    const int64_t n = a.rows();
    const auto factor = [&](int64_t i, Scratch<T> scratch) {
      const Matrix<T> l = working_place(factors[i], scratch.floats(n * n));
      copy(a[i], l);
      const int info = is_small(l) ? factor_small_cholesky(l) : factor_large_cholesky(n, l.first);
      for (int64_t r = 0; r < n; ++r) std::fill_n(&l(r, 0) + r + 1, n - r - 1, T(0));
      bring_from(l, factors[i]);
      return infos[i][0] = info;
    };
    report_if_checked(call, a.is_batch(),
                      for_each_matrix<T>(a.count(), cube(n) / 3, {n * n}, factor), [](int info) {
                        return "is not positive definite; expected positive leading minors, got "
                               "minor " +
                               std::to_string(info) + " that is not";
                      });
  });
}

void lu_factor(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> a(call.in[0]);
    const Batch<T> factors(call.out[0]);
    const Batch<int32_t> pivots(call.out[1], 1), infos(call.out[2], 0);
    const int64_t m = a.rows(), n = a.columns(), k = std::min(m, n);
    const auto factor = [&](int64_t i, Scratch<T> scratch) {
      int* const exchanged = scratch.ints(k);
      const int info = factor_lu(a[i], factors[i], exchanged, scratch.floats(m * n));
      for (int64_t p = 0; p < k; ++p) pivots[i][p] = exchanged[p];
      return infos[i][0] = info;
    };
    report_if_checked(call, a.is_batch(),
                      for_each_matrix<T>(a.count(), cube(k), {m * n, k}, factor), [](int info) {
                        return "is singular; expected an invertible one, got a zero at place " +
                               std::to_string(info) + " of the diagonal of U";
                      });
  });
}

void lu_permutation(const MatrixCall& call) {
  const Batch<const int32_t> pivots(call.in[0], 1);
  const Batch<int64_t> orders(call.out[0], 1);
  const int64_t n = orders.rows();
  const auto follow = [&](int64_t i, const Scratch<double>&) {
    const Matrix<int64_t> order = orders[i];
    if (!are_rows(pivots[i], n)) return 1;
    for (int64_t r = 0; r < n; ++r) order[r] = r;
    for (int64_t p = 0; p < pivots.rows(); ++p) std::swap(order[p], order[pivots[i][p] - 1]);
    return 0;
  };
  report(call, orders.is_batch(),
         for_each_matrix<double>(orders.count(), static_cast<double>(n), {}, follow), of_pivots);
}

// numbers: upper, unitriangular
void triangular_solve(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> a(call.in[0]), b(call.in[1]);
    const Batch<T> results(call.out[0]);
    const int64_t n = b.rows(), k = b.columns();
    const double flops = static_cast<double>(n * k) * static_cast<double>(n);
    for_each_matrix<T>(results.count(), flops, {n * k + n * n}, [&](int64_t i, Scratch<T> scratch) {
      const Matrix<T> x = working_place(results[i], scratch.floats(n * k));
      copy(b[i], x);
      solve_triangular(a[i], call.numbers[0] != 0, call.numbers[1] != 0, x.first, k,
                       scratch.floats(n * n));
      bring_from(x, results[i]);
      return 0;
    });
  });
}

// P L U x = b, or (P L U)^T x = b
void lu_solve(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> factors(call.in[1]), b(call.in[3]);
    const Batch<const int32_t> pivots(call.in[2], 1);
    const Batch<T> results(call.out[0]);
    const int64_t n = b.rows(), k = b.columns();
    const bool transposed = call.numbers[0] != 0;
    const auto solve = [&](int64_t i, Scratch<T> scratch) {
      if (!are_rows(pivots[i], n)) return 1;
      const Matrix<T> x = working_place(results[i], scratch.floats(n * k));
      T* const memory = scratch.floats(n * n);
      const Matrix<const T> lu = factors[i];
      copy(b[i], x);
      if (transposed) {
        solve_triangular(lu.transposed(), false, false, x.first, k, memory);
        solve_triangular(lu.transposed(), true, true, x.first, k, memory);
        exchange_rows(pivots[i], true, x.first, k);
      } else {
        exchange_rows(pivots[i], false, x.first, k);
        solve_triangular(lu, false, true, x.first, k, memory);
        solve_triangular(lu, true, false, x.first, k, memory);
      }
      bring_from(x, results[i]);
      return 0;
    };
    const double flops = 2 * static_cast<double>(n * k) * static_cast<double>(n);
    report(call, results.is_batch(),
           for_each_matrix<T>(results.count(), flops, {n * k + n * n}, solve), of_pivots);
  });
}

}  // namespace tandem::machine::matrices
