// Factors of matrices so small that calls of a library would take longer than the work, by plain
// loops along rows.
#ifndef TANDEM_MACHINE_LINALG_SMALL_FACTORS_H
#define TANDEM_MACHINE_LINALG_SMALL_FACTORS_H

#include <algorithm>
#include <cmath>

#include "machine/linalg/matrix.h"

namespace tandem::machine::matrices {

/// Rows and columns, at most.
inline constexpr int64_t kSmall = 16;

template <class T>
bool is_small(const Matrix<T>& a) {
  return a.rows <= kSmall && a.columns <= kSmall;
}

/// row -= factor * other, of n elements.
template <class T>
void subtract_multiple(T* __restrict row, T factor, const T* __restrict other, int64_t n) {
  for (int64_t c = 0; c < n; ++c) row[c] -= factor * other[c];
}

/// The row, from `first` on, of the element of a column whose magnitude is the largest.
template <class T>
int64_t row_of_largest(const Matrix<T>& a, int64_t first, int64_t column) {
  int64_t largest = first;
  for (int64_t r = first + 1; r < a.rows; ++r)
    if (std::abs(a(r, column)) > std::abs(a(largest, column))) largest = r;
  return largest;
}

/// As lapack::getrf, of rows in row-major order.
template <class T>
int factor_small_lu(const Matrix<T>& a, int* pivots) {
  const int64_t k = std::min(a.rows, a.columns);
  int info = 0;
  for (int64_t p = 0; p < k; ++p) {
    const int64_t other = row_of_largest(a, p, p);
    pivots[p] = static_cast<int>(other + 1);
    if (other != p) std::swap_ranges(&a(p, 0), &a(p, 0) + a.columns, &a(other, 0));
    const T pivot = a(p, p);
    if (pivot == 0 && info == 0) info = static_cast<int>(p + 1);
    for (int64_t r = p + 1; r < a.rows; ++r) {
      if (pivot != 0) a(r, p) /= pivot;
      subtract_multiple(&a(r, p) + 1, a(r, p), &a(p, p) + 1, a.columns - p - 1);
    }
  }
  return info;
}

/// a, of which the lower triangle is read, in row-major order, becomes L with L L^T = a there; as
/// lapack::potrf.
template <class T>
int factor_small_cholesky(const Matrix<T>& a) {
  T column[kSmall];
  for (int64_t p = 0; p < a.rows; ++p) {
    if (!(a(p, p) > 0)) return static_cast<int>(p + 1);
    a(p, p) = std::sqrt(a(p, p));
    for (int64_t r = p + 1; r < a.rows; ++r) {
      column[r] = a(r, p) /= a(p, p);
      subtract_multiple(&a(r, p) + 1, column[r], column + p + 1, r - p);
    }
  }
  return 0;
}

/// b [n, k], in row-major order, becomes x with a x = b, of a triangular a [n, n], with ones on its
/// diagonal if `unit`.
template <class T>
void solve_small_triangle(const Matrix<const T>& a, bool upper, bool unit, T* b, int64_t k) {
  for (int64_t step = 0; step < a.rows; ++step) {
    const int64_t p = upper ? a.rows - 1 - step : step, begin = upper ? 0 : p + 1,
                  end = upper ? p : a.rows;
    T* const known = b + p * k;
    if (!unit)
      for (int64_t j = 0; j < k; ++j) known[j] /= a(p, p);
    if (k == 1)
      for (int64_t r = begin; r < end; ++r) b[r] -= a(r, p) * *known;
    else
      for (int64_t r = begin; r < end; ++r) subtract_multiple(b + r * k, a(r, p), known, k);
  }
}

}  // namespace tandem::machine::matrices

#endif  // TANDEM_MACHINE_LINALG_SMALL_FACTORS_H
