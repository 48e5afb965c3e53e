// Factors by elimination, solutions, inverses and determinants.
#include <tandem/ops/linalg.h>

#include <limits>

#include "runtime/linalg/matrices.h"

namespace tandem {
namespace runtime {

Shape batch_of(Call& c, V v, int inner) {
  Shape batch = c.b.sizes(v);
  for (int i = 0; i < inner; ++i) batch.erase(batch.rank() - 1);
  return batch;
}

V with_batch(Call& c, V v, const Shape& batch, int inner) {
  Shape sizes = batch;
  for (int d = c.b.rank(v) - inner; d < c.b.rank(v); ++d) sizes.push_back(c.b.sizes(v)[d]);
  return c.b.expand(v, sizes);
}

V identity_like(Call& c, V v) {
  const Shape sizes = c.b.sizes(v);
  const Dim m = rows_of(c, v), n = columns_of(c, v);
  const V row = c.b.view(c.b.iota(m, i64), {m, 1}), column = c.b.view(c.b.iota(n, i64), {1, n});
  return c.b.expand(c.b.convert(c.b.eq(row, column), c.b.dtype(v)), sizes);
}

LuValues lu_of(Call& c, V self, bool checked) {
  const V operands[] = {self};
  const ir::ValueList found = c.b.emit_all(ir::Op::lu_factor, operands, {checked});
  return {found[0], found[1], found[2]};
}

V solved(Call& c, V self, const LuValues& factors, V other) {
  const Shape batch = c.b.broadcast(batch_of(c, self), batch_of(c, other), "solve");
  return c.b.emit(ir::Op::lu_solve,
                  {with_batch(c, self, batch), with_batch(c, factors.lu, batch),
                   with_batch(c, factors.pivots, batch, 1), with_batch(c, other, batch)},
                  {false});
}

V inverse_of(Call& c, V self, bool checked) {
  const LuValues factors = lu_of(c, self, checked);
  return solved(c, self, factors, identity_like(c, self));
}

V triangular_solved(Call& c, V a, V b, bool upper, bool unitriangular) {
  const Shape batch = c.b.broadcast(batch_of(c, a), batch_of(c, b), "solve_triangular");
  return c.b.emit(ir::Op::triangular_solve, {with_batch(c, a, batch), with_batch(c, b, batch)},
                  {upper, unitriangular});
}

}  // namespace runtime

namespace {

using ir::Op;
using runtime::Call;
using runtime::columns_of;
using runtime::LuValues;
using runtime::matrix_operand;
using runtime::reject;
using runtime::rows_of;
using runtime::transposed;
using runtime::V;

// --- solve

/// A right side, which may be vectors.
struct RightSide {
  V matrices;
  bool is_vectors;
};

RightSide right_side(Call& c, V self, const Tensor& other, bool left) {
  const V v = c.in(other, "other");
  runtime::require_dtype_of(c, v, self, "other");
  const Shape rows = runtime::batch_of(c, self, 1);
  const bool is_vectors = c.b.rank(v) == 1 || c.b.sizes(v) == rows;
  if (is_vectors && !left)
    reject(Errc::Argument, "other is vectors; expected matrices where left is false, got {}",
           to_string(c.b.sizes(v)));
  if (c.b.rank(v) == 0) reject(Errc::Shape, "other has no dimensions; expected a matrix, got []");
  return {is_vectors ? c.b.unsqueeze(v, -1) : v, is_vectors};
}

struct Solution {
  V result, info;
};

Solution solution(Call& c, const Tensor& self, const Tensor& other, bool left, bool checked) {
  const V a = matrix_operand(c, self);
  const auto [b, is_vectors] = right_side(c, a, other, left);
  const V matrix = left ? a : transposed(c, a);
  const LuValues factors = runtime::lu_of(c, matrix, checked);
  const V x = runtime::solved(c, matrix, factors, left ? b : transposed(c, b));
  if (!left) return {transposed(c, x), factors.info};
  return {is_vectors ? c.b.squeeze(x, ir::Axes{-1}) : x, factors.info};
}

// --- determinants

/// 1 or -1, by how many rows changed places.
V parity(Call& c, V pivots, DType dtype) {
  const V places = c.b.iota(c.b.sizes(pivots).back(), i32, 1);
  const V changes = c.b.sum(c.b.convert(c.b.ne(pivots, places), i64), {-1});
  return c.b.convert(c.b.sub(1, c.b.mul(c.b.remainder(changes, 2), 2)), dtype);
}

struct Diagonal {
  V elements, sign;
};
Diagonal diagonal_of_u(Call& c, V self) {
  if (rows_of(c, self) != columns_of(c, self))
    reject(Errc::Shape, "not a square matrix; expected as many rows as columns, got {}",
           to_string(c.b.sizes(self)));
  const LuValues factors = runtime::lu_of(c, self, false);
  return {c.b.diagonal(factors.lu, 0, -2, -1), parity(c, factors.pivots, c.b.dtype(self))};
}

Tensor determinant(Call&& c, const Tensor& self) {
  const Diagonal d = diagonal_of_u(c, matrix_operand(c, self));
  return c.out(c.b.mul(c.b.reduce(Op::prod, d.elements, ir::Axes{-1}), d.sign));
}

struct LogDeterminant {
  V sign, log;
};
LogDeterminant log_determinant(Call& c, const Tensor& self) {
  const Diagonal d = diagonal_of_u(c, matrix_operand(c, self));
  const V signs = c.b.reduce(Op::prod, c.b.sign(d.elements), ir::Axes{-1});
  return {c.b.mul(signs, d.sign), c.b.sum(c.b.log(c.b.abs(d.elements)), {-1})};
}

SignAndLogDet sign_and_log(Call&& c, const Tensor& self) {
  const auto [sign, log] = log_determinant(c, self);
  return {c.out(sign), c.out(log)};
}

// --- Cholesky's

ResultAndInfo cholesky_factor(Call&& c, const Tensor& self, bool upper, bool checked) {
  const V a = matrix_operand(c, self), operands[] = {upper ? transposed(c, a) : a};
  const ir::ValueList found = c.b.emit_all(Op::cholesky, operands, {checked});
  return {c.out(upper ? transposed(c, found[0]) : found[0]), c.out(found[1])};
}

/// L^-T L^-1 other; `upper`: the factor is L^T.
V solved_by_cholesky(Call& c, V factor, V other, bool upper) {
  const V lower = upper ? transposed(c, factor) : factor;
  const V half = runtime::triangular_solved(c, lower, other, false);
  return runtime::triangular_solved(c, transposed(c, lower), half, true);
}

// --- LU

/// A sequence of exchanges as where each of m rows comes from.
V permutation(Call& c, V pivots, Dim m) { return c.b.emit(Op::lu_permutation, {pivots}, {m}); }

V rows_at(Call& c, V v, V places) {
  const Shape batch =
      c.b.broadcast(runtime::batch_of(c, v), runtime::batch_of(c, places, 1), "lu_solve");
  const V all = runtime::with_batch(c, v, batch);
  const V index = c.b.unsqueeze(runtime::with_batch(c, places, batch, 1), -1);
  const Shape sizes = c.b.sizes(all);
  return c.b.gather(all, sizes.rank() - 2, c.b.expand(index, sizes));
}

V inverse_permutation(Call& c, V order) {
  return c.b.emit(Op::argsort, {order}, {int64_t{c.b.rank(order) - 1}, false});
}

V solved_by_lu(Call& c, V lu, V pivots, V other, bool adjoint) {
  if (rows_of(c, lu) != columns_of(c, lu) || rows_of(c, lu) != rows_of(c, other))
    reject(Errc::Shape,
           "sizes do not fit; expected factors [..., n, n] and [..., n, k], got {} "
           "and {}",
           to_string(c.b.sizes(lu)), to_string(c.b.sizes(other)));
  const V order = permutation(c, pivots, rows_of(c, lu));
  const auto solve = [&](V a, V b, bool upper, bool unit) {
    return runtime::triangular_solved(c, a, b, upper, unit);
  };
  if (!adjoint) return solve(lu, solve(lu, rows_at(c, other, order), false, true), true, false);
  const V t = transposed(c, lu);
  const V x = solve(t, solve(t, other, false, false), true, true);
  return rows_at(c, x, inverse_permutation(c, order));
}

/// 1 where row order[i] has column i.
V permutation_matrix(Call& c, V order, DType dtype) {
  const Dim m = c.b.sizes(order).back();
  const V rows = c.b.view(c.b.iota(m, i64), {m, 1});
  return c.b.convert(c.b.eq(rows, c.b.unsqueeze(order, -2)), dtype);
}

Lu unpacked(Call& c, V lu, V pivots) {
  const Dim m = rows_of(c, lu), k = std::min(m, columns_of(c, lu));
  const V left = c.b.slice(lu, c.b.rank(lu) - 1, 0, k);
  const V below = c.b.pointwise(Op::tril, {left}, {Dim(-1)});
  const V upper = c.b.pointwise(Op::triu, {c.b.slice(lu, c.b.rank(lu) - 2, 0, k)}, {Dim(0)});
  return {c.out(permutation_matrix(c, permutation(c, pivots, m), c.b.dtype(lu))),
          c.out(c.b.add(below, runtime::identity_like(c, left))), c.out(upper)};
}

LuFactors lu_factors(Call&& c, const Tensor& self) {
  const LuValues found = runtime::lu_of(c, matrix_operand(c, self), false);
  return {c.out(found.lu), c.out(found.pivots), c.out(found.info)};
}

}  // namespace

Tensor linalg::solve(const Tensor& self, const Tensor& other, bool left, SourceLocation at) {
  Call c(at);
  return c.out(solution(c, self, other, left, true).result);
}
ResultAndInfo linalg::solve_ex(const Tensor& self, const Tensor& other, bool left,
                               SourceLocation at) {
  Call c(at);
  const auto [result, info] = solution(c, self, other, left, false);
  return {c.out(result), c.out(info)};
}
Tensor linalg::inv(const Tensor& self, SourceLocation at) {
  Call c(at);
  return c.out(runtime::inverse_of(c, matrix_operand(c, self), true));
}
Tensor inverse(const Tensor& self, SourceLocation at) {
  Call c(at);
  return c.out(runtime::inverse_of(c, matrix_operand(c, self), true));
}
ResultAndInfo linalg::inv_ex(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V a = matrix_operand(c, self);
  const LuValues factors = runtime::lu_of(c, a, false);
  return {c.out(runtime::solved(c, a, factors, runtime::identity_like(c, a))), c.out(factors.info)};
}

Tensor det(const Tensor& self, SourceLocation at) { return determinant(Call(at), self); }
Tensor linalg::det(const Tensor& self, SourceLocation at) { return determinant(Call(at), self); }
SignAndLogDet slogdet(const Tensor& self, SourceLocation at) {
  return sign_and_log(Call(at), self);
}
SignAndLogDet linalg::slogdet(const Tensor& self, SourceLocation at) {
  return sign_and_log(Call(at), self);
}
Tensor logdet(const Tensor& self, SourceLocation at) {
  Call c(at);
  const auto [sign, log] = log_determinant(c, self);
  return c.out(c.b.where(c.b.lt(sign, 0), std::numeric_limits<double>::quiet_NaN(), log));
}

Tensor cholesky(const Tensor& self, bool upper, SourceLocation at) {
  return cholesky_factor(Call(at), self, upper, true).result;
}
Tensor linalg::cholesky(const Tensor& self, bool upper, SourceLocation at) {
  return cholesky_factor(Call(at), self, upper, true).result;
}
ResultAndInfo linalg::cholesky_ex(const Tensor& self, bool upper, SourceLocation at) {
  return cholesky_factor(Call(at), self, upper, false);
}
Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper, SourceLocation at) {
  Call c(at);
  const V b = matrix_operand(c, self);
  return c.out(solved_by_cholesky(c, matrix_operand(c, input2, "input2"), b, upper));
}
Tensor cholesky_inverse(const Tensor& self, bool upper, SourceLocation at) {
  Call c(at);
  const V factor = matrix_operand(c, self);
  return c.out(solved_by_cholesky(c, factor, runtime::identity_like(c, factor), upper));
}

Tensor linalg::solve_triangular(const Tensor& self, const Tensor& other,
                                const TriangularOptions& options, SourceLocation at) {
  Call c(at);
  const V a = matrix_operand(c, self), b = matrix_operand(c, other, "other");
  if (options.left)
    return c.out(runtime::triangular_solved(c, a, b, options.upper, options.unitriangular));
  const V x = runtime::triangular_solved(c, transposed(c, a), transposed(c, b), !options.upper,
                                         options.unitriangular);
  return c.out(transposed(c, x));
}

LuFactors linalg::lu_factor(const Tensor& self, SourceLocation at) {
  return lu_factors(Call(at), self);
}
LuFactors linalg::lu_factor_ex(const Tensor& self, SourceLocation at) {
  return lu_factors(Call(at), self);
}
Lu linalg::lu(const Tensor& self, SourceLocation at) {
  Call c(at);
  const LuValues found = runtime::lu_of(c, matrix_operand(c, self), false);
  return unpacked(c, found.lu, found.pivots);
}
Lu lu_unpack(const Tensor& lu_data, const Tensor& lu_pivots, SourceLocation at) {
  Call c(at);
  const V lu = matrix_operand(c, lu_data, "lu_data");
  return unpacked(c, lu, c.in(lu_pivots, "lu_pivots"));
}
Tensor linalg::lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& other,
                        const LuSolveOptions& options, SourceLocation at) {
  Call c(at);
  const V factors = matrix_operand(c, lu, "lu"), changes = c.in(pivots, "pivots"),
          b = matrix_operand(c, other, "other");
  if (options.left) return c.out(solved_by_lu(c, factors, changes, b, options.adjoint));
  return c.out(
      transposed(c, solved_by_lu(c, factors, changes, transposed(c, b), !options.adjoint)));
}
Tensor lu_solve(const Tensor& self, const Tensor& lu_data, const Tensor& lu_pivots,
                SourceLocation at) {
  Call c(at);
  const V b = matrix_operand(c, self), factors = matrix_operand(c, lu_data, "lu_data");
  return c.out(solved_by_lu(c, factors, c.in(lu_pivots, "lu_pivots"), b, false));
}

}  // namespace tandem
