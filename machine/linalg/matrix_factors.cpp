// Orthogonal factors. Where a sign is free, it is so that the elements of a vector, weighed by 1,
// 1/2, 1/3, ..., have no negative sum.
#include <cmath>

#include "machine/linalg/matrix.h"

namespace tandem::machine::matrices {
namespace {

constexpr int kNotFinite = -1;

std::string of_iteration(int info) {
  if (info == kNotFinite) return "has elements that are not finite; expected finite numbers";
  return "is ill-conditioned, or has too many equal values; expected the algorithm to converge, "
         "got its failure " +
         std::to_string(info);
}

/// Of a matrix in column-major order; of its lower triangle alone if it is `symmetric`.
template <class T>
bool is_finite(const Matrix<T>& a, bool symmetric) {
  for (int64_t c = 0; c < a.columns; ++c)
    for (int64_t r = symmetric ? c : 0; r < a.rows; ++r)
      if (!std::isfinite(a(r, c))) return false;
  return true;
}

/// 1, 1/2, 1/3, ... into memory of n elements.
template <class T>
const T* fill_weights(T* weights, int64_t n) {
  for (int64_t r = 0; r < n; ++r) weights[r] = 1 / static_cast<T>(r + 1);
  return weights;
}

/// Of a column of vectors in column-major order.
template <class T>
bool is_turned(const Matrix<T>& vectors, int64_t c, const T* weights) {
  constexpr int64_t kLanes = 16;
  const T* const column = &vectors(0, c);
  T sums[kLanes] = {}, sum = 0;
  int64_t r = 0;
  for (; r + kLanes <= vectors.rows; r += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += column[r + l] * weights[r + l];
  for (; r < vectors.rows; ++r) sum += column[r] * weights[r];
  for (const T part : sums) sum += part;
  return sum < 0;
}

template <class T>
void turn(const Matrix<T>& vectors, int64_t c) {
  for (int64_t r = 0; r < vectors.rows; ++r) vectors(r, c) = -vectors(r, c);
}

/// Whether the caller has a place for a result.
bool is_wanted(const ir::BufferView& result) { return result.data != nullptr; }

template <class T>
void write_values(const T* from, const Matrix<T>& to) {
  for (int64_t i = 0; i < to.rows; ++i) to[i] = from[i];
}

double flops_of(int64_t m, int64_t n) {
  return 4 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}

template <class T>
void fill_identity(const Matrix<T>& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.columns; ++c) a(r, c) = r == c ? T(1) : T(0);
}

}  // namespace

void qr(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> a(call.in[0]);
    const Batch<T> qs(call.out[0]), rs(call.out[1]);
    const int64_t m = a.rows(), n = a.columns(), k = std::min(m, n), columns = qs.columns();
    const int64_t work = lapack::qr_work<T>(m, n, columns).floats;
    const lapack::Work all{m * std::max(n, columns) + k + work};
    for_each_matrix<T>(a.count(), flops_of(m, n), all, [&](int64_t i, Scratch<T> scratch) {
      const Matrix<T> q = column_major(scratch.floats(m * std::max(n, columns)), m, n);
      T* const tau = scratch.floats(k);
      T* const memory = scratch.floats(work);
      copy(a[i], q);
      lapack::geqrf(m, n, q.first, tau, memory, work);
      const Matrix<T> r = rs[i];
      for (int64_t row = 0; row < r.rows; ++row)
        for (int64_t c = 0; c < n; ++c) r(row, c) = c < row ? T(0) : q(row, c);
      lapack::orgqr(m, columns, k, q.first, tau, memory, work);
      copy(column_major(q.first, m, columns), qs[i]);
      return 0;
    });
  });
}

void geqrf(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> a(call.in[0]);
    const Batch<T> factors(call.out[0]), scales(call.out[1], 1);
    const int64_t m = a.rows(), n = a.columns(), k = std::min(m, n);
    const int64_t work = lapack::qr_work<T>(m, n, k).floats;
    for_each_matrix<T>(a.count(), flops_of(m, n), {m * n + k + work},
                       [&](int64_t i, Scratch<T> scratch) {
                         const Matrix<T> r = column_major(scratch.floats(m * n), m, n);
                         T* const tau = scratch.floats(k);
                         copy(a[i], r);
                         lapack::geqrf(m, n, r.first, tau, scratch.floats(work), work);
                         copy(r, factors[i]);
                         for (int64_t p = 0; p < k; ++p) scales[i][p] = tau[p];
                         return 0;
                       });
  });
}

void eigh(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> a(call.in[0]);
    const Batch<T> values(call.out[0], 1), vectors(call.out[1]);
    const int64_t n = a.rows();
    const auto wanted = is_wanted(call.out[1]) ? lapack::Vectors::Some : lapack::Vectors::None;
    const lapack::Work work = lapack::syevd_work<T>(n, wanted);
    const auto write_vectors = [&](const Matrix<T>& v, const Matrix<T>& to, T* memory) {
      const T* const weights = fill_weights(memory, n);
      for (int64_t c = 0; c < n; ++c)
        if (is_turned(v, c, weights)) turn(v, c);
      copy(v, to);
    };
    const auto factor = [&](int64_t i, Scratch<T> scratch) {
      const Matrix<T> v = column_major(scratch.floats(n * n), n, n);
      T* const w = scratch.floats(n);
      copy(a[i], v);
      if (!is_finite(v, true)) return kNotFinite;
      T* const memory = scratch.floats(work.floats);
      const int info = lapack::syevd(n, wanted, v.first, w, memory, work.floats,
                                     scratch.ints(work.ints), work.ints);
      if (wanted != lapack::Vectors::None) write_vectors(v, vectors[i], scratch.floats(n));
      if (is_wanted(call.out[0])) write_values(w, values[i]);
      return info;
    };
    const lapack::Work all{n * n + 2 * n + work.floats, work.ints};
    report(call, a.is_batch(), for_each_matrix<T>(a.count(), 2 * flops_of(n, n), all, factor),
           of_iteration);
  });
}

void svd(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> a(call.in[0]);
    const Batch<T> us(call.out[0]), values(call.out[1], 1), vhs(call.out[2]);
    const int64_t m = a.rows(), n = a.columns(), k = std::min(m, n);
    const bool has_vectors = is_wanted(call.out[0]) || is_wanted(call.out[2]);
    const auto wanted = !has_vectors           ? lapack::Vectors::None
                        : call.numbers[0] != 0 ? lapack::Vectors::All
                                               : lapack::Vectors::Some;
    const int64_t u_columns = has_vectors ? us.columns() : 0,
                  vh_rows = has_vectors ? vhs.rows() : 0;
    const lapack::Work work = k == 0 ? lapack::Work() : lapack::gesdd_work<T>(m, n, wanted);
    const auto write_vectors = [&](const Matrix<T>& u, const Matrix<T>& vh, int64_t i, T* memory) {
      const T* const weights = fill_weights(memory, m);
      for (int64_t c = 0; c < k; ++c)
        if (is_turned(u, c, weights)) turn(u, c), turn(vh.transposed(), c);
      if (is_wanted(call.out[0])) copy(u, us[i]);
      if (is_wanted(call.out[2])) copy(vh, vhs[i]);
    };
    const auto factor = [&](int64_t i, Scratch<T> scratch) {
      if (k == 0) {
        if (is_wanted(call.out[0])) fill_identity(us[i]);
        if (is_wanted(call.out[2])) fill_identity(vhs[i]);
        return 0;
      }
      const Matrix<T> x = column_major(scratch.floats(m * n), m, n);
      const Matrix<T> u = column_major(scratch.floats(m * u_columns), m, u_columns);
      const Matrix<T> vh = column_major(scratch.floats(vh_rows * n), vh_rows, n);
      T* const s = scratch.floats(k);
      copy(a[i], x);
      if (!is_finite(x, false)) return kNotFinite;
      const int info =
          lapack::gesdd(m, n, wanted, x.first, s, u.first, vh.first, scratch.floats(work.floats),
                        work.floats, scratch.ints(work.ints));
      if (has_vectors) write_vectors(u, vh, i, scratch.floats(m));
      if (is_wanted(call.out[1])) write_values(s, values[i]);
      return info;
    };
    const lapack::Work all{m * n + m * u_columns + vh_rows * n + k + m + work.floats, work.ints};
    report(call, a.is_batch(), for_each_matrix<T>(a.count(), 4 * flops_of(m, n), all, factor),
           of_iteration);
  });
}

}  // namespace tandem::machine::matrices
