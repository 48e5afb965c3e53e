// Solutions of tensors that stand for matrices, and products of reflections.
#include <tandem/ops/linalg.h>
#include <tandem/ops/shapes.h>

#include "runtime/linalg/matrices.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::columns_of;
using runtime::matrix_operand;
using runtime::reject;
using runtime::rows_of;
using runtime::transposed;
using runtime::V;

Shape joined(const Shape& a, const Shape& b) {
  Shape all = a;
  for (const Dim n : b) all.push_back(n);
  return all;
}

Shape part(const Shape& sizes, int begin, int end) {
  return Shape(std::span(sizes.begin() + begin, sizes.begin() + end));
}

/// self as a square matrix whose rows are the first `ind` dimensions.
V as_matrix(Call& c, V self, const Shape& rows, const Shape& columns) {
  const Dim m = ir::numel(rows), n = ir::numel(columns);
  if (m != n)
    reject(Errc::Shape,
           "not a square matrix; expected as many elements in {} as in {}, got {} and {}",
           to_string(rows), to_string(columns), int64_t{m}, int64_t{n});
  return c.b.reshape(self, {m, n});
}

/// Dimensions 0 to rank - 1 in order, but `last` at the end.
ir::Axes with_last(int rank, const DimList& last) {
  std::vector<bool> is_last(static_cast<size_t>(rank), false);
  ir::Axes order, end;
  for (const ir::Axis given : last.dims) {
    const int64_t dim = given < 0 ? given + rank : given;
    if (dim < 0 || dim >= rank || is_last[static_cast<size_t>(dim)])
      reject(Errc::Argument, "dims do not fit; expected different ones of {} dimensions, got {}",
             rank, to_string(last.dims));
    is_last[static_cast<size_t>(dim)] = true;
    end.push_back(dim);
  }
  for (int d = 0; d < rank; ++d)
    if (!is_last[static_cast<size_t>(d)]) order.push_back(d);
  for (const ir::Axis d : end) order.push_back(d);
  return order;
}

/// Reflections I - tau v v^T, multiplied: I - V T V^T with V [..., m, k] below a diagonal of ones.
/// T's inverse has 1 / tau on the diagonal and V^T V above, so that T = (I + D S)^-1 D.
struct Product {
  V v, t;
};
Product reflections(Call& c, V factors, V tau) {
  const Dim m = rows_of(c, factors), k = c.b.sizes(tau).back();
  if (c.b.rank(tau) != c.b.rank(factors) - 1 ||
      runtime::batch_of(c, tau, 1) != runtime::batch_of(c, factors) || k > columns_of(c, factors) ||
      k > m)
    reject(Errc::Shape,
           "sizes do not fit; expected reflections [..., m, n] and scales [..., k] with k up to m "
           "and n, got {} and {}",
           to_string(c.b.sizes(factors)), to_string(c.b.sizes(tau)));
  const V columns = c.b.slice(factors, c.b.rank(factors) - 1, 0, k);
  const V v = c.b.add(c.b.pointwise(ir::Op::tril, {columns}, {Dim(-1)}),
                      runtime::identity_like(c, columns));
  const V scales = c.b.unsqueeze(tau, -1), products = c.b.matmul(transposed(c, v), v);
  const V scaled = c.b.mul(scales, c.b.pointwise(ir::Op::triu, {products}, {Dim(1)}));
  const V diagonal = c.b.mul(scales, runtime::identity_like(c, products));
  return {v, runtime::triangular_solved(c, scaled, diagonal, true, true)};
}

/// Q x, or Q^T x.
V reflected(Call& c, const Product& r, V x, bool transpose) {
  const V t = transpose ? transposed(c, r.t) : r.t;
  return c.b.sub(x, c.b.matmul(r.v, c.b.matmul(t, c.b.matmul(transposed(c, r.v), x))));
}

}  // namespace

Tensor linalg::tensorinv(const Tensor& self, int64_t ind, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  const Shape sizes = c.b.sizes(v);
  if (ind <= 0 || ind > sizes.rank())
    reject(Errc::Argument, "ind out of range; expected 1 to {}, got {}", sizes.rank(), ind);
  const Shape rows = part(sizes, 0, static_cast<int>(ind)),
              columns = part(sizes, static_cast<int>(ind), sizes.rank());
  const V inverse = runtime::inverse_of(c, as_matrix(c, v, rows, columns), true);
  return c.out(c.b.reshape(inverse, joined(columns, rows)));
}

Tensor linalg::tensorsolve(const Tensor& self, const Tensor& other, const DimList& dims,
                           SourceLocation at) {
  Call c(at);
  V a = c.in(self);
  const V b = c.in(other, "other");
  runtime::require_dtype_of(c, b, a, "other");
  if (!dims.dims.empty()) a = c.b.permute(a, with_last(c.b.rank(a), dims));
  const Shape sizes = c.b.sizes(a);
  const int split = c.b.rank(b);
  if (split > sizes.rank())
    reject(Errc::Shape, "other has more dimensions than self; expected at most {}, got {}",
           to_string(sizes), to_string(c.b.sizes(b)));
  const Shape rows = part(sizes, 0, split), columns = part(sizes, split, sizes.rank());
  const V matrix = as_matrix(c, a, rows, columns);
  if (c.b.numel(b) != rows_of(c, matrix))
    reject(Errc::Shape, "other does not fit; expected as many elements as {}, got {}",
           to_string(rows), to_string(c.b.sizes(b)));
  const V x = runtime::solved(c, matrix, runtime::lu_of(c, matrix, true),
                              c.b.reshape(b, {c.b.numel(b), Dim(1)}));
  return c.out(c.b.reshape(x, columns));
}

TriangularSolution triangular_solve(const Tensor& self, const Tensor& a, bool upper, bool transpose,
                                    bool unitriangular, SourceLocation at) {
  Call c(at);
  const V b = matrix_operand(c, self), factor = matrix_operand(c, a, "a");
  runtime::require_dtype_of(c, factor, b, "a");
  const V matrix = transpose ? transposed(c, factor) : factor;
  const V x = runtime::triangular_solved(c, matrix, b, upper != transpose, unitriangular);
  const Shape batch =
      c.b.broadcast(runtime::batch_of(c, factor), runtime::batch_of(c, b), "triangular_solve");
  return {c.out(x), c.out(runtime::with_batch(c, factor, batch)).clone(at)};
}

Reflections geqrf(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V operands[] = {matrix_operand(c, self)};
  const ir::ValueList found = c.b.emit_all(ir::Op::geqrf, operands, {});
  return {c.out(found[0]), c.out(found[1])};
}

Tensor linalg::householder_product(const Tensor& input, const Tensor& tau, SourceLocation at) {
  Call c(at);
  const V factors = matrix_operand(c, input, "input"), scales = c.in(tau, "tau");
  runtime::require_dtype_of(c, scales, factors, "tau");
  if (rows_of(c, factors) < columns_of(c, factors))
    reject(Errc::Shape, "more columns than rows; expected at least as many rows, got {}",
           to_string(c.b.sizes(factors)));
  const Product r = reflections(c, factors, scales);
  return c.out(reflected(c, r, runtime::identity_like(c, factors), false));
}

Tensor ormqr(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left,
             bool transpose, SourceLocation at) {
  Call c(at);
  const V factors = matrix_operand(c, self), tau = c.in(input2, "input2"),
          other = matrix_operand(c, input3, "input3");
  runtime::require_dtype_of(c, tau, factors, "input2");
  runtime::require_dtype_of(c, other, factors, "input3");
  const V x = left ? other : transposed(c, other);
  if (runtime::batch_of(c, x) != runtime::batch_of(c, factors) ||
      rows_of(c, x) != rows_of(c, factors))
    reject(Errc::Shape, "input3 does not fit self; expected {} of {} in the batch, got {}",
           left ? "rows" : "columns", to_string(c.b.sizes(factors)), to_string(c.b.sizes(other)));
  const V out = reflected(c, reflections(c, factors, tau), x, transpose == left);
  return c.out(left ? out : transposed(c, out));
}

}  // namespace tandem
