// Orthogonal factors, what is made of singular values, and functions of matrices.
#include <tandem/ops/linalg.h>
#include <tandem/ops/reductions.h>

#include <bit>
#include <limits>

#include "runtime/linalg/matrices.h"

namespace tandem {
namespace {

using ir::Op;
using linalg::RankOptions;
using linalg::Tolerance;
using runtime::Call;
using runtime::columns_of;
using runtime::matrix_operand;
using runtime::reject;
using runtime::rows_of;
using runtime::transposed;
using runtime::V;

ir::ValueList factors(Call& c, Op op, V self, ir::AttrsRef attrs = {}) {
  const V operands[] = {self};
  return c.b.emit_all(op, operands, attrs);
}

Qr qr_factors(Call&& c, const Tensor& self, bool complete) {
  const ir::ValueList found = factors(c, Op::qr, matrix_operand(c, self), {complete});
  return {c.out(found[0]), c.out(found[1])};
}

/// Of which `uplo` names the triangle that is read, as the lower one.
V symmetric_operand(Call& c, const Tensor& self, std::string_view uplo) {
  const V a = matrix_operand(c, self);
  if (uplo != "L" && uplo != "U")
    reject(Errc::Argument, "uplo is not there; expected \"L\" or \"U\", got \"{}\"", uplo);
  return uplo == "L" ? a : transposed(c, a);
}

// --- ranks

double epsilon_of(Call& c, V v) {
  return c.b.dtype(v) == f32 ? std::numeric_limits<float>::epsilon()
                             : std::numeric_limits<double>::epsilon();
}

/// Numbers of the dtype of v.
V numbers_like(Call& c, V v, const Tolerance& t, const char* name) {
  if (!t.each.defined()) return c.b.full({}, c.b.dtype(v), t.number.value_or(0));
  return c.b.convert(c.in(t.each, name), c.b.dtype(v));
}

/// The tolerance beside the largest singular value where none is given.
double rounding_of(Call& c, V v) {
  return epsilon_of(c, v) * static_cast<double>(std::max<int64_t>(rows_of(c, v), columns_of(c, v)));
}

struct Tolerances {
  V atol, rtol;
};
Tolerances tolerances(Call& c, V v, const RankOptions& o) {
  const V atol = numbers_like(c, v, o.atol, "atol");
  if (o.rtol.number || o.rtol.each.defined()) return {atol, numbers_like(c, v, o.rtol, "rtol")};
  return {atol, c.b.where(c.b.gt(atol, 0), 0, c.b.full({}, c.b.dtype(v), rounding_of(c, v)))};
}

/// Whether the tolerances cut off more than what is 0 but for rounding.
bool truncates(Call& c, V self, const RankOptions& o) {
  const auto is_above = [](const Tolerance& t, double least) {
    return t.each.defined() || t.number.value_or(0) > least;
  };
  return is_above(o.atol, 0) || is_above(o.rtol, rounding_of(c, self));
}

V pseudoinverse(Call& c, V self, const RankOptions& o) {
  const auto [atol, rtol] = tolerances(c, self, o);
  const Shape each = c.b.broadcast(c.b.sizes(atol), c.b.sizes(rtol), "pinv"),
              batch = c.b.broadcast(runtime::batch_of(c, self), each, "pinv");
  return c.b.emit(
      truncates(c, self, o) ? Op::truncated_pinv : Op::pinv,
      {runtime::with_batch(c, self, batch), c.b.expand(atol, batch), c.b.expand(rtol, batch)},
      {o.hermitian});
}

V eigenvalues(Call& c, V self) {
  const runtime::OnlyResult values(Op::eigh, 0);
  return factors(c, Op::eigh, self)[0];
}

V magnitudes(Call& c, V self, bool hermitian) {
  if (hermitian) return c.b.abs(eigenvalues(c, self));
  const runtime::OnlyResult values(Op::svd, 1);
  return factors(c, Op::svd, self, {false})[1];
}

V rank_of(Call& c, V self, const RankOptions& o) {
  const auto [atol, rtol] = tolerances(c, self, o);
  const V values = magnitudes(c, self, o.hermitian);
  if (c.b.sizes(values).back() == 0) return c.b.full(runtime::batch_of(c, self), i64, 0);
  return c.b.sum(c.b.convert(c.b.counting(values, atol, rtol), i64), {-1});
}

// --- powers

V power_of(Call& c, V self, uint64_t n) {
  if (n == 0) return c.b.pointwise(Op::copy, {self, runtime::identity_like(c, self)});
  V power = self;
  for (int bit = std::bit_width(n) - 2; bit >= 0; --bit) {
    power = c.b.matmul(power, power);
    if ((n >> bit & 1) != 0) power = c.b.matmul(power, self);
  }
  return power;
}

Tensor power(Call&& c, const Tensor& self, int64_t n) {
  const V a = matrix_operand(c, self);
  if (rows_of(c, a) != columns_of(c, a))
    reject(Errc::Shape, "not a square matrix; expected as many rows as columns, got {}",
           to_string(c.b.sizes(a)));
  if (n >= 0) return c.out(power_of(c, a, static_cast<uint64_t>(n)));
  return c.out(power_of(c, runtime::inverse_of(c, a, true), -static_cast<uint64_t>(n)));
}

Tensor exponential(Call&& c, const Tensor& self) {
  const V a = matrix_operand(c, self);
  const DType dtype = c.b.dtype(a);
  const V result = c.b.emit(Op::matrix_exp, {ir::is_half(dtype) ? c.b.convert(a, f32) : a}, {});
  return c.out(c.b.convert(result, dtype));
}

// --- least squares

/// What an algorithm of LAPACK gives beside the solution, and whether it is one of matrices of full
/// rank alone.
struct Driver {
  std::string_view name;
  bool residuals, rank, singular_values;
  bool takes_full_rank = false;
};
constexpr Driver kDrivers[] = {{"gels", true, false, false, true},
                               {"gelsy", false, true, false},
                               {"gelsd", true, true, true},
                               {"gelss", true, true, true}};

const Driver& driver_named(std::string_view name) {
  for (const Driver& driver : kDrivers)
    if (driver.name == name) return driver;
  reject(Errc::Argument,
         "driver is not there; expected \"gels\", \"gelsy\", \"gelsd\" or \"gelss\", got \"{}\"",
         name);
}

/// Of a matrix of full rank: x = R^-1 Q^T b, or, where there are fewer rows than columns, the
/// shortest of the solutions, Q R^-T b of A^T = Q R.
V full_rank_solution(Call& c, V a, V b) {
  const bool is_wide = rows_of(c, a) < columns_of(c, a);
  const ir::ValueList found = factors(c, Op::qr, is_wide ? transposed(c, a) : a, {false});
  const V q = found[0], r = found[1];
  if (is_wide) return c.b.matmul(q, runtime::triangular_solved(c, transposed(c, r), b, false));
  return runtime::triangular_solved(c, r, c.b.matmul(transposed(c, q), b), true);
}

V residuals_of(Call& c, V a, V b, V x) {
  if (rows_of(c, a) <= columns_of(c, a)) return c.b.full({0}, c.b.dtype(a), 0);
  return c.b.sum(c.b.square(c.b.sub(c.b.matmul(a, x), b)), {-2});
}

}  // namespace

Qr qr(const Tensor& self, bool some, SourceLocation at) {
  return qr_factors(Call(at), self, !some);
}
Qr linalg::qr(const Tensor& self, std::string_view mode, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (mode != "reduced" && mode != "complete" && mode != "r")
    reject(Errc::Argument,
           "mode is not there; expected \"reduced\", \"complete\" or \"r\", got \"{}\"", mode);
  const Qr found = qr_factors(Call(at), self, mode == "complete");
  return mode == "r" ? Qr{empty({0}, found.r.dtype(), at), found.r} : found;
}

Svd linalg::svd(const Tensor& self, bool full_matrices, SourceLocation at) {
  Call c(at);
  const ir::ValueList found = factors(c, Op::svd, matrix_operand(c, self), {full_matrices});
  return {c.out(found[0]), c.out(found[1]), c.out(found[2])};
}
SvdOfV svd(const Tensor& self, bool some, SourceLocation at) {
  Call c(at);
  const ir::ValueList found = factors(c, Op::svd, matrix_operand(c, self), {!some});
  return {c.out(found[0]), c.out(found[1]), c.out(transposed(c, found[2]))};
}
Tensor linalg::svdvals(const Tensor& self, SourceLocation at) {
  Call c(at);
  return c.out(magnitudes(c, matrix_operand(c, self), false));
}

Eigh linalg::eigh(const Tensor& self, std::string_view uplo, SourceLocation at) {
  Call c(at);
  const ir::ValueList found = factors(c, Op::eigh, symmetric_operand(c, self, uplo));
  return {c.out(found[0]), c.out(found[1])};
}
Tensor linalg::eigvalsh(const Tensor& self, std::string_view uplo, SourceLocation at) {
  Call c(at);
  return c.out(eigenvalues(c, symmetric_operand(c, self, uplo)));
}

Tensor linalg::pinv(const Tensor& self, const RankOptions& options, SourceLocation at) {
  Call c(at);
  return c.out(pseudoinverse(c, matrix_operand(c, self), options));
}
Tensor pinverse(const Tensor& self, double rcond, SourceLocation at) {
  Call c(at);
  return c.out(pseudoinverse(c, matrix_operand(c, self), {.rtol = rcond}));
}
Tensor linalg::matrix_rank(const Tensor& self, const RankOptions& options, SourceLocation at) {
  Call c(at);
  return c.out(rank_of(c, matrix_operand(c, self), options));
}

LeastSquares linalg::lstsq(const Tensor& self, const Tensor& other, std::optional<double> rcond,
                           std::string_view driver, SourceLocation at) {
  Call c(at);
  const Driver gives = driver_named(driver);
  const V a = matrix_operand(c, self), given = c.in(other, "other");
  const bool is_vectors = c.b.sizes(given) == runtime::batch_of(c, a, 1);
  const V b = is_vectors ? c.b.unsqueeze(given, -1) : given;
  if (c.b.rank(b) < 2 || rows_of(c, b) != rows_of(c, a))
    reject(Errc::Shape, "sizes do not fit; expected [..., m, n] and [..., m, k], got {} and {}",
           to_string(c.b.sizes(a)), to_string(c.b.sizes(given)));
  const RankOptions options{.rtol = rcond};
  const V x = gives.takes_full_rank ? full_rank_solution(c, a, b)
                                    : c.b.matmul(pseudoinverse(c, a, options), b);
  const V none = c.b.full({0}, c.b.dtype(a), 0);
  return {c.out(is_vectors ? c.b.squeeze(x, ir::Axes{-1}) : x),
          c.out(gives.residuals ? residuals_of(c, a, b, x) : none),
          c.out(gives.rank ? rank_of(c, a, options) : c.b.full({0}, i64, 0)),
          c.out(gives.singular_values ? magnitudes(c, a, false) : none)};
}

Tensor linalg::cond(const Tensor& self, const Number& p, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (const runtime::OperandCasts casts("cond"); casts.active())
    return linalg::cond(casts(self), p, at);
  if (self.numel() == 0) {  // ATen: what is no matrix at all has the number 0
    Call c(at);
    return c.out(c.b.sum(matrix_operand(c, self), ir::Axes{-2, -1}));
  }
  const double order = p.to_double();
  if (order != 2 && order != -2) {
    const ResultAndInfo inverse = linalg::inv_ex(self, at);
    const Tensor product =
        mul(Located(linalg::matrix_norm(self, p, {-2, -1}, false, at), at),
            Located(linalg::matrix_norm(inverse.result, p, {-2, -1}, false, at), at));
    return where(ne(Located(inverse.info, at), Located(0, at)),
                 Located(std::numeric_limits<double>::infinity(), at), Located(product, at));
  }
  const Tensor values = linalg::svdvals(self, at);
  const Tensor largest = amax(values, {-1}, false, at), least = amin(values, {-1}, false, at);
  return order > 0 ? div(Located(largest, at), Located(least, at))
                   : div(Located(least, at), Located(largest, at));
}

Tensor matrix_power(const Tensor& self, int64_t n, SourceLocation at) {
  return power(Call(at), self, n);
}
Tensor linalg::matrix_power(const Tensor& self, int64_t n, SourceLocation at) {
  return power(Call(at), self, n);
}
Tensor matrix_exp(const Tensor& self, SourceLocation at) { return exponential(Call(at), self); }
Tensor linalg::matrix_exp(const Tensor& self, SourceLocation at) {
  return exponential(Call(at), self);
}

}  // namespace tandem
