#include "machine/linalg/large_factors.h"

#include <algorithm>
#include <utility>

#include "machine/parts.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine::matrices {
namespace {

using lapack::Side;

constexpr int64_t kSmallest = 256;   // rows and columns of a matrix that is cut
constexpr int64_t kRows = 64;        // of right sides that a thread solves for, at least
constexpr double kLeastFlops = 2e6;  // of a part of them

/// Columns that are factored, by one thread, before others are updated: of n a share, and at least
/// as many as products want terms.
int64_t panel_of(int64_t n, int64_t share, int64_t most) {
  return std::clamp<int64_t>(n / share / 64 * 64, 64, most);
}

/// f(number) for `count` parts of one matrix, among threads; they must not throw.
template <class F>
void for_each_part(int64_t count, F f) {
  if (!lapack::takes_several_callers()) {
    for (int64_t i = 0; i < count; ++i) f(i);  // in the caller's Call
    return;
  }
  parallel_for(count, 1, [&](int64_t begin, int64_t end, int) {
    const lapack::Call call;
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

/// f(columns) for those in [begin, end), in about so many parts: not of so few that what is packed
/// for each outweighs it.
template <class F>
void for_columns(int64_t begin, int64_t end, int64_t about, F f) {
  constexpr int64_t kFewest = 64, kMost = 256;
  if (begin == end) return;
  const EvenParts parts(end - begin, std::clamp((end - begin) / about, kFewest, kMost));
  for_each_part(parts.count,
                [&](int64_t i) { f(Range{begin + parts[i].begin, begin + parts[i].end}); });
}

/// As lapack::potrf. A minor that is NaN is not positive, which OpenBLAS does not see.
template <class T>
int factor_cholesky(int64_t n, T* a, int64_t step) {
  if (const int info = lapack::potrf(n, a, step)) return info;
  for (int64_t i = 0; i < n; ++i)
    if (!(a[i * step + i] > 0)) return static_cast<int>(i) + 1;
  return 0;
}

/// Exchanges rows of a column as pivots [first, end) say.
template <class T>
void exchange(T* column, const int* pivots, int64_t first, int64_t end) {
  for (int64_t i = first; i < end; ++i) std::swap(column[i], column[pivots[i] - 1]);
}

}  // namespace

template <class T>
int factor_large_cholesky(int64_t n, T* a) {
  if (n < kSmallest) return factor_cholesky(n, a, n);
  const auto at = [&](int64_t row, int64_t column) { return a + column * n + row; };
  for (int64_t j = 0, panel = panel_of(n, 8, 256); j < n; j += panel) {
    const int64_t width = std::min(panel, n - j), next = j + width;
    if (const int info = factor_cholesky(width, at(j, j), n)) return static_cast<int>(j) + info;
    for_columns(next, n, 8, [&](Range c) {
      lapack::trsm(Side::Left, {at(j, j), n, true, true, false}, width, c.size(), at(j, c.begin),
                   n);
    });
    for_columns(next, n, 16, [&](Range c) {  // down to the diagonal, and a part's own columns
      lapack::gemm<T>({c.end - next, c.size(), width}, {at(j, next), n, true}, {at(j, c.begin), n},
                      {.first = at(next, c.begin), .step = n, .subtracts = true});
    });
  }
  return 0;
}

template <class T>
int factor_large_lu(int64_t m, int64_t n, T* a, int* pivots) {
  const int64_t k = std::min(m, n);
  if (k < kSmallest) return lapack::getrf(m, n, a, m, pivots);
  const auto at = [&](int64_t row, int64_t column) { return a + column * m + row; };
  int first_zero = 0;
  for (int64_t j = 0, panel = panel_of(k, 16, 128); j < k; j += panel) {
    const int64_t width = std::min(panel, k - j), next = j + width;
    const int info = lapack::getrf(m - j, width, at(j, j), m, pivots + j);
    if (info > 0 && first_zero == 0) first_zero = static_cast<int>(j) + info;
    for (int64_t i = j; i < next; ++i) pivots[i] += static_cast<int>(j);
    const auto exchange_in = [&](Range columns) {
      for (int64_t c = columns.begin; c < columns.end; ++c) exchange(at(0, c), pivots, j, next);
    };
    for_columns(0, j, 8, exchange_in);
    for_columns(next, n, 8, [&](Range c) {
      exchange_in(c);
      lapack::trsm(Side::Left, {at(j, j), m, false, false, true}, width, c.size(), at(j, c.begin),
                   m);
      if (next < m)
        lapack::gemm<T>({m - next, c.size(), width}, {at(next, j), m}, {at(j, c.begin), m},
                        {.first = at(next, c.begin), .step = m, .subtracts = true});
    });
  }
  return first_zero;
}

template <class T>
void solve_triangle(const lapack::Triangle<T>& a, int64_t m, int64_t n, T* b) {
  const double flops = static_cast<double>(m * n) * static_cast<double>(n);
  const auto most = static_cast<int64_t>(std::max(flops / kLeastFlops, 1.0));
  const int64_t count = std::clamp<int64_t>(m / kRows, 1, most);
  const EvenParts rows(m, std::max<int64_t>((m + count - 1) / count, 1));
  for_each_part(rows.count, [&](int64_t i) {
    lapack::trsm(Side::Right, a, rows[i].size(), n, b + rows[i].begin, m);
  });
}

#define TANDEM_LARGE(T)                                     \
  template int factor_large_cholesky(int64_t, T*);          \
  template int factor_large_lu(int64_t, int64_t, T*, int*); \
  template void solve_triangle(const lapack::Triangle<T>&, int64_t, int64_t, T*);
TANDEM_LARGE(float)
TANDEM_LARGE(double)
#undef TANDEM_LARGE

}  // namespace tandem::machine::matrices
