// Exponentials of matrices: a Taylor polynomial of the matrix scaled to a norm of at most 1/2,
// squared as often. In f64.
#include <array>
#include <cmath>

#include "machine/linalg/matrix.h"

namespace tandem::machine {
namespace matrices {
namespace {

constexpr int kDegree = 18;  // (1/2)^19 / 19! is below the last bit
/// The polynomial is one in the fourth power, of polynomials of lower powers (Paterson and
/// Stockmeyer, 1973): seven products instead of seventeen.
constexpr int kPowers = 4;
constexpr int kProducts = kPowers - 1 + kDegree / kPowers;

/// 1 / i!
constexpr std::array<double, kDegree + 1> kTerms = [] {
  std::array<double, kDegree + 1> terms{1};
  for (size_t i = 1; i < terms.size(); ++i) terms[i] = terms[i - 1] / static_cast<double>(i);
  return terms;
}();

/// In row-major order, without gaps.
using Square = Matrix<double>;

int64_t elements_of(const Square& a) { return a.rows * a.columns; }

/// Products of matrices of n rows. Of those with zeros below two blocks of `half` rows on the
/// diagonal (a derivative is a part of the exponential of such a matrix) so are products, and half
/// of the work is left out; half 0: of any.
struct Multiply {
  int64_t n, half;

  void operator()(const Square& a, const Square& b, const Square& out) const {
    if (half == 0) return multiply(a.first, b.first, out.first, n, n, n);
    const int64_t low = half * n + half;
    multiply(a.first, b.first, out.first, half, half, half);
    multiply(a.first, b.first + half, out.first + half, half, half, n);
    multiply(a.first + low, b.first + low, out.first + low, half, half, half);
    for (int64_t r = half; r < n; ++r) std::fill_n(&out(r, 0), half, 0.0);
  }

 private:
  /// Of blocks [rows, k] and [k, columns]. In column-major order, as BLAS reads, out^T = b^T a^T.
  void multiply(const double* a, const double* b, double* out, int64_t rows, int64_t columns,
                int64_t k) const {
    lapack::gemm<double>({columns, rows, k}, {b, n}, {a, n}, {out, n});
  }
};

/// From so many rows on, less work is worth more calls.
constexpr int64_t kManyRows = 32;

Multiply multiply_of(const Square& a, double norm) {
  const int64_t n = a.rows, half = n / 2;
  if (n < kManyRows || n % 2 != 0 || !std::isfinite(norm)) return {n, 0};
  for (int64_t r = half; r < n; ++r)
    for (int64_t c = 0; c < half; ++c)
      if (a(r, c) != 0) return {n, 0};
  return {n, half};
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

/// a, a^2, a^3, a^4
using Powers = std::array<Square, kPowers>;

/// sum += the polynomial's terms of the powers `first` to first + 3, over a^first.
void add_terms(const Powers& powers, int first, const Square& sum) {
  const int last = std::min(first + kPowers - 1, kDegree);
  for (int i = first + 1; i <= last; ++i) {
    const double factor = kTerms[static_cast<size_t>(i)];
    const double* const power = powers[static_cast<size_t>(i - first - 1)].first;
    for (int64_t e = 0; e < elements_of(sum); ++e) sum.first[e] += factor * power[e];
  }
  for (int64_t r = 0; r < sum.rows; ++r) sum(r, r) += kTerms[static_cast<size_t>(first)];
}

/// Into `sum`, of a matrix whose powers have memory.
void add_polynomial(const Multiply& multiply, const Powers& powers, Square& sum, Square& product) {
  for (size_t i = 1; i < powers.size(); ++i) multiply(powers[i - 1], powers[0], powers[i]);
  std::fill_n(sum.first, elements_of(sum), 0.0);
  int first = kDegree / kPowers * kPowers;
  add_terms(powers, first, sum);
  while (first > 0) {
    multiply(powers.back(), sum, product);
    std::swap(sum, product);
    add_terms(powers, first -= kPowers, sum);
  }
}

/// Into `sum`; powers[0], the matrix, is scaled.
void exponentiate(const Powers& powers, Square& sum, Square& product) {
  const Square& a = powers[0];
  const double norm = norm_of(a);
  const int times = squarings(norm);
  const double scale = std::ldexp(1.0, -times);
  for (int64_t e = 0; e < elements_of(a); ++e) a.first[e] *= scale;
  const Multiply multiply = multiply_of(a, norm);
  add_polynomial(multiply, powers, sum, product);
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
    const double flops = 2.0 * kProducts * static_cast<double>(n * n) * static_cast<double>(n);
    const auto exponential = [&](int64_t i, Scratch<double> scratch) {
      const auto square = [&] { return row_major(scratch.floats(n * n), n, n); };
      const Powers powers{square(), square(), square(), square()};
      Square sum = square(), product = square();
      copy(in[i], powers[0]);
      exponentiate(powers, sum, product);
      copy(sum, out[i]);
      return 0;
    };
    for_each_matrix<double>(in.count(), flops, {(kPowers + 2) * n * n}, exponential);
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
