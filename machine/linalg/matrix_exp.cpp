// Exponentials of matrices: a Taylor polynomial of the matrix scaled to a norm of at most 1/2,
// squared as often. In f64.
#include <cmath>

#include "machine/linalg/matrix.h"

namespace tandem::machine {
namespace matrices {
namespace {

constexpr int kDegree = 18;  // (1/2)^19 / 19! is below the last bit

using Square = Matrix<double>;

void multiply(const Square& a, const Square& b, const Square& out) {
  for (int64_t r = 0; r < out.rows; ++r) {
    double* const row = &out(r, 0);
    std::fill(row, row + out.columns, 0.0);
    for (int64_t k = 0; k < out.rows; ++k) {
      const double factor = a(r, k);
      const double* const other = &b(k, 0);
      for (int64_t c = 0; c < out.columns; ++c) row[c] += factor * other[c];
    }
  }
}

/// The largest sum of magnitudes of a row.
double norm_of(const Square& a) {
  double most = 0;
  for (int64_t r = 0; r < a.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < a.columns; ++c) sum += std::abs(a(r, c));
    most = sum > most || std::isnan(sum) ? sum : most;
    if (std::isnan(most)) break;
  }
  return most;
}

int squarings(double norm) {
  if (!std::isfinite(norm) || norm <= 0.5) return 0;
  return std::ilogb(norm) + 2;
}

/// 1 + a (1 + a / 2 (1 + a / 3 (...)))
void add_terms(const Square& a, Square& sum, Square& product) {
  for (int degree = kDegree; degree > 0; --degree) {
    multiply(a, sum, product);
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t c = 0; c < a.columns; ++c)
        product(r, c) = product(r, c) / degree + (r == c ? 1.0 : 0.0);
    std::swap(sum, product);
  }
}

/// Into `sum`; a is scaled.
void exponentiate(const Square& a, Square& sum, Square& product) {
  const int times = squarings(norm_of(a));
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.columns; ++c) {
      a(r, c) = std::ldexp(a(r, c), -times);
      sum(r, c) = r == c ? 1.0 : 0.0;
    }
  add_terms(a, sum, product);
  for (int i = 0; i < times; ++i) {
    multiply(sum, sum, product);
    std::swap(sum, product);
  }
}

}  // namespace

void matrix_exp(const MatrixCall& call) {
  with_matrix_type(call.in[0].dtype, [&]<class T>(T) {
    const Batch<const T> in(call.in[0]);
    const Batch<T> out(call.out[0]);
    const int64_t n = in.rows();
    const double flops = 2.0 * kDegree * static_cast<double>(n * n) * static_cast<double>(n);
    for_each_matrix<double>(in.count(), flops, {3 * n * n},
                            [&](int64_t i, Scratch<double> scratch) {
                              const Square a = row_major(scratch.floats(n * n), n, n);
                              Square sum = row_major(scratch.floats(n * n), n, n),
                                     product = row_major(scratch.floats(n * n), n, n);
                              copy(in[i], a);
                              exponentiate(a, sum, product);
                              copy(sum, out[i]);
                              return 0;
                            });
  });
}

}  // namespace matrices

MatrixFunction matrix_function(std::string_view op) {
#define X(name) \
  if (op == #name) return matrices::name;
  TANDEM_MATRIX_FUNCTIONS(X)
#undef X
  TANDEM_CHECK(false, std::string(op) + ": no function of matrices");
}

}  // namespace tandem::machine
