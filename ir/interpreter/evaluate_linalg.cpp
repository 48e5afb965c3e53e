// Evaluation rules of factors and solutions of matrices: elimination, reflections, and rotations
// that make columns orthogonal (Jacobi's).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/base/error.h"
#include "ir/interpreter/evaluate_elements.h"

namespace tandem::ir::evaluate {
namespace {

/// One matrix of a tensor, row-major.
struct Matrix {
  double* first;
  int64_t rows, columns;
  double& operator()(int64_t r, int64_t c) const { return first[r * columns + c]; }
};

int64_t size_from_end(const Shape& sizes, int d) {
  return d < sizes.rank() ? int64_t{sizes[sizes.rank() - 1 - d]} : 1;
}

int64_t count_of(const Shape& sizes, int inner) {
  int64_t count = 1;
  for (int d = 0; d + inner < sizes.rank(); ++d) count *= int64_t{sizes[d]};
  return count;
}
int64_t count_of(const Tensor& t) { return count_of(t.sizes(), 2); }

Matrix matrix(const Tensor& t, int64_t i) {
  const int64_t columns = size_from_end(t.sizes(), 0), rows = size_from_end(t.sizes(), 1);
  return {elements<double>(t) + i * rows * columns, rows, columns};
}
double* vector(const Tensor& t, int64_t i) {
  return elements<double>(t) + i * size_from_end(t.sizes(), 0);
}
int64_t* integers(const Tensor& t, int64_t i) {
  return elements<int64_t>(t) + i * size_from_end(t.sizes(), 0);
}

[[noreturn]] void fail_factor(const Context& c, int64_t i, std::string_view problem) {
  fail(Errc::Argument,
       std::string(name(c.op)) + ": matrix " + std::to_string(i) + " " + std::string(problem));
}

// --- elimination

int64_t factor_cholesky(const Matrix& a, const Matrix& l) {
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c <= r; ++c) {
      double sum = a(r, c);
      for (int64_t k = 0; k < c; ++k) sum -= l(r, k) * l(c, k);
      if (r == c && !(sum > 0)) return r + 1;
      l(r, c) = r == c ? std::sqrt(sum) : sum / l(c, c);
    }
  return 0;
}

void exchange_rows(const Matrix& a, int64_t r, int64_t other) {
  for (int64_t c = 0; c < a.columns; ++c) std::swap(a(r, c), a(other, c));
}

int64_t factor_lu(const Matrix& a, int64_t* pivots) {
  int64_t info = 0;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    int64_t best = k;
    for (int64_t r = k + 1; r < a.rows; ++r)
      if (std::fabs(a(r, k)) > std::fabs(a(best, k))) best = r;
    pivots[k] = best + 1;
    exchange_rows(a, k, best);
    if (a(k, k) == 0) {
      info = info == 0 ? k + 1 : info;
      continue;
    }
    for (int64_t r = k + 1; r < a.rows; ++r) {
      a(r, k) /= a(k, k);
      for (int64_t c = k + 1; c < a.columns; ++c) a(r, c) -= a(r, k) * a(k, c);
    }
  }
  return info;
}

/// In place of x; a is triangular.
void solve(const Matrix& a, bool upper, bool unit, const Matrix& x) {
  for (int64_t step = 0; step < x.rows; ++step) {
    const int64_t i = upper ? x.rows - 1 - step : step;
    for (int64_t c = 0; c < x.columns; ++c) {
      for (int64_t j = upper ? i + 1 : 0; j < (upper ? x.rows : i); ++j)
        x(i, c) -= a(i, j) * x(j, c);
      if (!unit) x(i, c) /= a(i, i);
    }
  }
}

/// The lower triangle, for the upper one too.
void mirror(const Matrix& a, const Matrix& out) {
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.rows; ++c) out(r, c) = a(std::max(r, c), std::min(r, c));
}

// --- rotations

/// Rotates columns of u until they are orthogonal, those of v alike.
void make_orthogonal(const Matrix& u, const Matrix& v) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool changed = false;
    for (int64_t p = 0; p < u.columns; ++p)
      for (int64_t q = p + 1; q < u.columns; ++q) {
        double alpha = 0, beta = 0, gamma = 0;
        for (int64_t r = 0; r < u.rows; ++r) {
          alpha += u(r, p) * u(r, p);
          beta += u(r, q) * u(r, q);
          gamma += u(r, p) * u(r, q);
        }
        if (std::fabs(gamma) <= 1e-16 * std::sqrt(alpha * beta)) continue;
        changed = true;
        const double zeta = (beta - alpha) / (2 * gamma);
        const double t = std::copysign(1, zeta) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
        const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
        for (const Matrix& m : {u, v})
          for (int64_t r = 0; r < m.rows; ++r) {
            const double left = m(r, p), right = m(r, q);
            m(r, p) = cosine * left - sine * right;
            m(r, q) = sine * left + cosine * right;
          }
      }
    if (!changed) return;
  }
}

struct Owned {
  Owned(int64_t rows, int64_t columns)
      : memory(static_cast<size_t>(rows * columns)), m{memory.data(), rows, columns} {}
  std::vector<double> memory;
  Matrix m;
};

void fill_identity(const Matrix& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.columns; ++c) a(r, c) = r == c ? 1 : 0;
}

double norm_of_column(const Matrix& a, int64_t c) {
  double sum = 0;
  for (int64_t r = 0; r < a.rows; ++r) sum += a(r, c) * a(r, c);
  return std::sqrt(sum);
}

/// Whether the sum of a vector's elements weighed by 1, 1/2, ... is negative.
bool is_turned(const Matrix& vectors, int64_t c) {
  double sum = 0;
  for (int64_t r = 0; r < vectors.rows; ++r) sum += vectors(r, c) / static_cast<double>(r + 1);
  return sum < 0;
}

void require_finite(const Context& c, const Matrix& a, int64_t i) {
  for (int64_t k = 0; k < a.rows * a.columns; ++k)
    if (!std::isfinite(a.first[k])) fail_factor(c, i, "has elements that are not finite");
}

/// Columns from `from` on, of what is orthogonal to those before and to each other.
void complete(const Matrix& q, int64_t from) {
  for (int64_t c = from, unit = 0; c < q.columns; ++unit) {
    for (int64_t r = 0; r < q.rows; ++r) q(r, c) = r == unit ? 1 : 0;
    for (int round = 0; round < 2; ++round)
      for (int64_t other = 0; other < c; ++other) {
        double dot = 0;
        for (int64_t r = 0; r < q.rows; ++r) dot += q(r, c) * q(r, other);
        for (int64_t r = 0; r < q.rows; ++r) q(r, c) -= dot * q(r, other);
      }
    const double norm = norm_of_column(q, c);
    if (norm < 1e-8) continue;
    for (int64_t r = 0; r < q.rows; ++r) q(r, c) /= norm;
    ++c;
  }
}

/// a, of at least as many rows as columns, is u diag(s) v^T, s descending; u has as many columns as
/// there is room for.
void factor_svd(const Matrix& a, const Matrix& u, double* s, const Matrix& v) {
  const int64_t m = a.rows, n = a.columns;
  Owned rotated(m, n), turns(n, n);
  std::copy_n(a.first, m * n, rotated.m.first);
  fill_identity(turns.m);
  make_orthogonal(rotated.m, turns.m);
  std::vector<double> norms(static_cast<size_t>(n));
  std::vector<int64_t> order(norms.size());
  std::iota(order.begin(), order.end(), 0);
  for (int64_t c = 0; c < n; ++c) norms[static_cast<size_t>(c)] = norm_of_column(rotated.m, c);
  std::ranges::stable_sort(order, std::greater(),
                           [&](int64_t c) { return norms[static_cast<size_t>(c)]; });
  int64_t rank = 0;
  for (int64_t c = 0; c < n; ++c) {
    const int64_t from = order[static_cast<size_t>(c)];
    s[c] = norms[static_cast<size_t>(from)];
    rank += s[c] > 0 ? 1 : 0;
    for (int64_t r = 0; r < m; ++r) u(r, c) = s[c] > 0 ? rotated.m(r, from) / s[c] : 0;
    for (int64_t r = 0; r < n; ++r) v(r, c) = turns.m(r, from);
  }
  complete(u, rank);
  complete(v, n);
}

void transpose(const Matrix& from, const Matrix& to) {
  for (int64_t r = 0; r < from.rows; ++r)
    for (int64_t c = 0; c < from.columns; ++c) to(c, r) = from(r, c);
}

// Of any sizes: u [m, ...], vh [..., n].
void factor_any_svd(const Matrix& a, const Matrix& u, double* s, const Matrix& vh) {
  Owned v(a.columns, vh.rows);
  if (a.rows >= a.columns) {
    factor_svd(a, u, s, v.m);
  } else {
    Owned across(a.columns, a.rows);
    transpose(a, across.m);
    factor_svd(across.m, v.m, s, u);
  }
  transpose(v.m, vh);
  for (int64_t c = 0; c < std::min(a.rows, a.columns); ++c) {
    if (!is_turned(u, c)) continue;
    for (int64_t r = 0; r < u.rows; ++r) u(r, c) = -u(r, c);
    for (int64_t k = 0; k < vh.columns; ++k) vh(c, k) = -vh(c, k);
  }
}

/// Rotates a symmetric matrix until it is diagonal; the vectors' columns alike.
void make_diagonal(const Matrix& a, const Matrix& vectors) {
  const int64_t n = a.rows;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double rest = 0, all = 0;
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < n; ++c) {
        all += a(r, c) * a(r, c);
        rest += r == c ? 0 : a(r, c) * a(r, c);
      }
    if (rest <= 1e-34 * all) return;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t =
            std::copysign(1, theta) / (std::fabs(theta) + std::sqrt(1 + theta * theta));
        const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
        const auto rotate = [&](double& left, double& right) {
          const double was = left;
          left = cosine * was - sine * right;
          right = sine * was + cosine * right;
        };
        for (int64_t k = 0; k < n; ++k) rotate(a(k, p), a(k, q));
        for (int64_t k = 0; k < n; ++k) rotate(a(p, k), a(q, k));
        for (int64_t k = 0; k < n; ++k) rotate(vectors(k, p), vectors(k, q));
      }
  }
}

void multiply(const Matrix& a, const Matrix& b, const Matrix& out) {
  for (int64_t r = 0; r < out.rows; ++r)
    for (int64_t c = 0; c < out.columns; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < a.columns; ++k) sum += a(r, k) * b(k, c);
      out(r, c) = sum;
    }
}

}  // namespace

std::array<Tensor, 2> cholesky(const Context& c) {
  std::array<Tensor, 2> results{zeros(c.result(0)), zeros(c.result(1))};
  for (int64_t i = 0; i < count_of(c.operand(0)); ++i) {
    const int64_t info = factor_cholesky(matrix(c.operand(0), i), matrix(results[0], i));
    if (info != 0 && c.attr<bool>(Attr::checked)) fail_factor(c, i, "is not positive definite");
    elements<int64_t>(results[1])[i] = info;
  }
  return results;
}

std::array<Tensor, 3> lu_factor(const Context& c) {
  std::array<Tensor, 3> results{copied(c.operand(0)), zeros(c.result(1)), zeros(c.result(2))};
  for (int64_t i = 0; i < count_of(c.operand(0)); ++i) {
    const int64_t info = factor_lu(matrix(results[0], i), integers(results[1], i));
    if (info != 0 && c.attr<bool>(Attr::checked)) fail_factor(c, i, "is singular");
    elements<int64_t>(results[2])[i] = info;
  }
  return results;
}

Tensor lu_permutation(const Context& c) {
  Tensor result = zeros(c.result());
  const int64_t n = size_from_end(result.sizes(), 0), k = size_from_end(c.operand(0).sizes(), 0);
  for (int64_t i = 0; i < count_of(result.sizes(), 1); ++i) {
    int64_t* const order = integers(result, i);
    std::iota(order, order + n, 0);
    for (int64_t p = 0; p < k; ++p) {
      const int64_t other = integers(c.operand(0), i)[p] - 1;
      if (other < 0 || other >= n) fail_factor(c, i, "has no such pivots");
      std::swap(order[p], order[other]);
    }
  }
  return result;
}

Tensor triangular_solve(const Context& c) {
  Tensor result = copied(c.operand(1));
  for (int64_t i = 0; i < count_of(result); ++i)
    solve(matrix(c.operand(0), i), c.attr<bool>(Attr::upper), c.attr<bool>(Attr::unitriangular),
          matrix(result, i));
  return result;
}

// P L U x = b, or (P L U)^T x = b: what the factors are, self is.
Tensor lu_solve(const Context& c) {
  Tensor result = copied(c.operand(3));
  for (int64_t i = 0; i < count_of(result); ++i) {
    const Matrix lu = matrix(c.operand(1), i), x = matrix(result, i);
    const int64_t* const pivots = integers(c.operand(2), i);
    for (int64_t k = 0; k < x.rows; ++k)
      if (pivots[k] < 1 || pivots[k] > x.rows) fail_factor(c, i, "has no such pivots");
    if (c.attr<bool>(Attr::transposed)) {
      Owned across(x.rows, x.rows);
      transpose(lu, across.m);
      solve(across.m, false, false, x);
      solve(across.m, true, true, x);
      for (int64_t k = x.rows; k-- > 0;) exchange_rows(x, k, pivots[k] - 1);
    } else {
      for (int64_t k = 0; k < x.rows; ++k) exchange_rows(x, k, pivots[k] - 1);
      solve(lu, false, true, x);
      solve(lu, true, false, x);
    }
  }
  return result;
}

// Reflections I - w w^T, applied to R and to Q.
std::array<Tensor, 2> qr(const Context& c) {
  std::array<Tensor, 2> results{zeros(c.result(0)), zeros(c.result(1))};
  for (int64_t i = 0; i < count_of(c.operand(0)); ++i) {
    const Matrix a = matrix(c.operand(0), i), q = matrix(results[0], i), r = matrix(results[1], i);
    Owned work(a.rows, a.columns), turned(a.rows, a.rows);
    std::copy_n(a.first, a.rows * a.columns, work.m.first);
    fill_identity(turned.m);
    for (int64_t k = 0; k < std::min(a.rows - 1, a.columns); ++k) {
      std::vector<double> w(static_cast<size_t>(a.rows), 0.0);
      double norm = 0, below = 0;
      for (int64_t row = k; row < a.rows; ++row) {
        w[static_cast<size_t>(row)] = work.m(row, k);
        norm += work.m(row, k) * work.m(row, k);
        below += row > k ? std::fabs(work.m(row, k)) : 0;
      }
      if (below == 0) continue;
      w[static_cast<size_t>(k)] += std::copysign(std::sqrt(norm), work.m(k, k));
      double squares = 0;
      for (const double v : w) squares += v * v;
      const auto reflect = [&](const auto& at, int64_t count) {
        for (int64_t column = 0; column < count; ++column) {
          double dot = 0;
          for (int64_t row = k; row < a.rows; ++row)
            dot += w[static_cast<size_t>(row)] * at(row, column);
          for (int64_t row = k; row < a.rows; ++row)
            at(row, column) -= 2 * dot / squares * w[static_cast<size_t>(row)];
        }
      };
      reflect([&](int64_t row, int64_t column) -> double& { return work.m(row, column); },
              a.columns);
      reflect([&](int64_t row, int64_t column) -> double& { return turned.m(column, row); },
              a.rows);
    }
    for (int64_t row = 0; row < q.rows; ++row)
      for (int64_t k = 0; k < q.columns; ++k) q(row, k) = turned.m(row, k);
    for (int64_t row = 0; row < r.rows; ++row)
      for (int64_t k = row; k < r.columns; ++k) r(row, k) = work.m(row, k);
  }
  return results;
}

/// Makes column k of a zero below its diagonal by I - scale v v^T; v takes the place of the zeros.
static double reflect_column(const Matrix& a, int64_t k) {
  double squares = 0;
  for (int64_t row = k + 1; row < a.rows; ++row) squares += a(row, k) * a(row, k);
  if (squares == 0) return 0;
  const double first = a(k, k), norm = -std::copysign(std::sqrt(first * first + squares), first);
  const double scale = (norm - first) / norm;
  for (int64_t row = k + 1; row < a.rows; ++row) a(row, k) /= first - norm;
  for (int64_t column = k + 1; column < a.columns; ++column) {
    double dot = a(k, column);
    for (int64_t row = k + 1; row < a.rows; ++row) dot += a(row, k) * a(row, column);
    a(k, column) -= scale * dot;
    for (int64_t row = k + 1; row < a.rows; ++row) a(row, column) -= scale * dot * a(row, k);
  }
  a(k, k) = norm;
  return scale;
}

std::array<Tensor, 2> geqrf(const Context& c) {
  std::array<Tensor, 2> results{zeros(c.result(0)), zeros(c.result(1))};
  for (int64_t i = 0; i < count_of(c.operand(0)); ++i) {
    const Matrix given = matrix(c.operand(0), i), a = matrix(results[0], i);
    std::copy_n(given.first, a.rows * a.columns, a.first);
    for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k)
      vector(results[1], i)[k] = reflect_column(a, k);
  }
  return results;
}

std::array<Tensor, 2> eigh(const Context& c) {
  std::array<Tensor, 2> results{zeros(c.result(0)), zeros(c.result(1))};
  for (int64_t i = 0; i < count_of(c.operand(0)); ++i) {
    const Matrix a = matrix(c.operand(0), i), out = matrix(results[1], i);
    const int64_t n = a.rows;
    Owned work(n, n), vectors(n, n);
    mirror(a, work.m);
    require_finite(c, work.m, i);
    fill_identity(vectors.m);
    make_diagonal(work.m, vectors.m);
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int64_t k) { return work.m(k, k); });
    for (int64_t k = 0; k < n; ++k) {
      const int64_t from = order[static_cast<size_t>(k)];
      vector(results[0], i)[k] = work.m(from, from);
      const double sign = is_turned(vectors.m, from) ? -1 : 1;
      for (int64_t r = 0; r < n; ++r) out(r, k) = sign * vectors.m(r, from);
    }
  }
  return results;
}

std::array<Tensor, 3> svd(const Context& c) {
  std::array<Tensor, 3> results{zeros(c.result(0)), zeros(c.result(1)), zeros(c.result(2))};
  for (int64_t i = 0; i < count_of(c.operand(0)); ++i) {
    const Matrix a = matrix(c.operand(0), i);
    require_finite(c, a, i);
    factor_any_svd(a, matrix(results[0], i), vector(results[1], i), matrix(results[2], i));
  }
  return results;
}

// The sum of a^k / k!, of a scaled to a small norm, and squared as often.
Tensor matrix_exp(const Context& c) {
  Tensor result = zeros(c.result());
  for (int64_t i = 0; i < count_of(result); ++i) {
    const Matrix a = matrix(c.operand(0), i), out = matrix(result, i);
    const int64_t n = a.rows;
    double most = 0;
    for (int64_t k = 0; k < n * n; ++k) most = std::max(most, std::fabs(a.first[k]));
    const double norm = most * static_cast<double>(n);
    const int times = norm > 0.25 && std::isfinite(norm) ? std::ilogb(norm) + 3 : 0;
    Owned term(n, n), scaled(n, n), product(n, n);
    for (int64_t k = 0; k < n * n; ++k) scaled.m.first[k] = std::ldexp(a.first[k], -times);
    fill_identity(term.m);
    fill_identity(out);
    for (int degree = 1; degree <= 20; ++degree) {
      multiply(term.m, scaled.m, product.m);
      for (int64_t k = 0; k < n * n; ++k) {
        term.m.first[k] = product.m.first[k] / degree;
        out.first[k] += term.m.first[k];
      }
    }
    for (int k = 0; k < times; ++k) {
      multiply(out, out, product.m);
      std::copy_n(product.m.first, n * n, out.first);
    }
  }
  return result;
}

// v diag(1 / s) u^T of the singular values that count.
Tensor pinv(const Context& c) {
  Tensor result = zeros(c.result());
  for (int64_t i = 0; i < count_of(c.operand(0)); ++i) {
    const Matrix out = matrix(result, i);
    Owned own(size_from_end(c.operand(0).sizes(), 1), size_from_end(c.operand(0).sizes(), 0));
    const Matrix given = matrix(c.operand(0), i), a = own.m;
    if (c.attr<bool>(Attr::hermitian))
      mirror(given, a);
    else
      std::copy_n(given.first, a.rows * a.columns, a.first);
    require_finite(c, a, i);
    const int64_t count = std::min(a.rows, a.columns);
    Owned u(a.rows, count), vh(count, a.columns);
    std::vector<double> s(static_cast<size_t>(count));
    factor_any_svd(a, u.m, s.data(), vh.m);
    const double least = count == 0 ? 0
                                    : std::max(elements<double>(c.operand(1))[i],
                                               elements<double>(c.operand(2))[i] * s[0]);
    for (int64_t k = 0; k < count; ++k)
      for (int64_t r = 0; r < out.rows && s[static_cast<size_t>(k)] > least; ++r)
        for (int64_t column = 0; column < out.columns; ++column)
          out(r, column) += vh.m(k, r) * u.m(column, k) / s[static_cast<size_t>(k)];
  }
  return result;
}
Tensor truncated_pinv(const Context& c) { return pinv(c); }

}  // namespace tandem::ir::evaluate
