// Shape rules of factors and solutions of matrices.
#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir::shape_rule {
namespace {

/// Matrices as one operand has them.
struct Sizes {
  Shape batch;
  Dim rows, columns;
  Shape with(std::initializer_list<Dim> inner) const {
    Shape sizes = batch;
    for (const Dim n : inner) sizes.push_back(n);
    return sizes;
  }
};

Sizes matrices(const ShapeContext& c, size_t i = 0) {
  const Type& t = c.operands[i];
  if (t.dtype != DType::F32 && t.dtype != DType::F64)
    reject(c, Errc::DType, "not defined for this dtype", "f32 or f64", std::string(name(t.dtype)));
  if (t.rank() < 2)
    reject(c, Errc::Shape, "not a matrix", "at least 2 dimensions", to_string(t.sizes));
  Shape batch = t.sizes;
  const Dim columns = batch.back();
  batch.erase(batch.rank() - 1);
  const Dim rows = batch.back();
  batch.erase(batch.rank() - 1);
  return {batch, rows, columns};
}

Sizes squares(const ShapeContext& c) {
  const Sizes s = matrices(c);
  if (s.rows != s.columns)
    reject(c, Errc::Shape, "not a square matrix", "as many rows as columns",
           to_string(c.operands[0].sizes));
  return s;
}

void require_sizes(const ShapeContext& c, bool fit, std::string_view expected) {
  if (!fit) reject(c, Errc::Shape, "sizes do not fit", expected, all_sizes(c));
}

bool has_rows(const Sizes& s, const Sizes& other) {
  return s.batch == other.batch && s.rows == other.rows;
}

}  // namespace

Type square(const ShapeContext& c) {
  squares(c);
  return c.operands[0];
}

std::array<Type, 2> cholesky(const ShapeContext& c) {
  return {square(c), Type{DType::I32, squares(c).batch}};
}

std::array<Type, 3> lu_factor(const ShapeContext& c) {
  const Sizes s = c.attr<bool>(Attr::checked) ? squares(c) : matrices(c);
  return {c.operands[0], Type{DType::I32, s.with({std::min(s.rows, s.columns)})},
          Type{DType::I32, s.batch}};
}

Type lu_permutation(const ShapeContext& c) {
  const Type& pivots = c.operands[0];
  if (pivots.dtype != DType::I32)
    reject(c, Errc::DType, "pivots have the wrong dtype", "i32", std::string(name(pivots.dtype)));
  const Dim length = c.attr<Dim>(Attr::length);
  require_sizes(c, pivots.rank() > 0 && pivots.sizes.back() <= length,
                "pivots [..., n], n up to the length");
  Shape sizes = pivots.sizes;
  sizes[sizes.rank() - 1] = length;
  return {DType::I64, sizes};
}

Type triangular_solve(const ShapeContext& c) {
  const Sizes s = squares(c), other = matrices(c, 1);
  require_same_dtype(c);
  require_sizes(c, has_rows(s, other), "[..., n, n] and [..., n, k]");
  return c.operands[1];
}

Type lu_solve(const ShapeContext& c) {
  const Sizes s = squares(c), other = matrices(c, 3);
  const bool fit = c.operands[1] == c.operands[0] && has_rows(s, other) &&
                   c.operands[2] == Type{DType::I32, s.with({s.rows})} &&
                   c.operands[3].dtype == c.operands[0].dtype;
  require_sizes(c, fit, "[..., n, n], as many factors, pivots [..., n] of i32 and [..., n, k]");
  return c.operands[3];
}

std::array<Type, 2> qr(const ShapeContext& c) {
  const Sizes s = matrices(c);
  const Dim k = c.attr<bool>(Attr::full) ? s.rows : std::min(s.rows, s.columns);
  const DType dtype = c.operands[0].dtype;
  return {Type{dtype, s.with({s.rows, k})}, Type{dtype, s.with({k, s.columns})}};
}

std::array<Type, 2> geqrf(const ShapeContext& c) {
  const Sizes s = matrices(c);
  return {c.operands[0], Type{c.operands[0].dtype, s.with({std::min(s.rows, s.columns)})}};
}

std::array<Type, 2> eigh(const ShapeContext& c) {
  const Sizes s = squares(c);
  return {Type{c.operands[0].dtype, s.with({s.rows})}, c.operands[0]};
}

std::array<Type, 3> svd(const ShapeContext& c) {
  const Sizes s = matrices(c);
  const Dim k = std::min(s.rows, s.columns);
  const bool full = c.attr<bool>(Attr::full);
  const DType dtype = c.operands[0].dtype;
  return {Type{dtype, s.with({s.rows, full ? s.rows : k})}, Type{dtype, s.with({k})},
          Type{dtype, s.with({full ? s.columns : k, s.columns})}};
}

Type pinv(const ShapeContext& c) {
  const Sizes s = c.attr<bool>(Attr::hermitian) ? squares(c) : matrices(c);
  require_same_dtype(c);
  require_sizes(c, c.operands[1].sizes == s.batch && c.operands[2].sizes == s.batch,
                "tolerances of the batch's sizes");
  return {c.operands[0].dtype, s.with({s.columns, s.rows})};
}

}  // namespace tandem::ir::shape_rule
