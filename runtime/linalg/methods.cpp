// Products as methods, and where they write themselves.
#include <tandem/ops/linalg.h>

#include "ir/base/error_scope.h"

namespace tandem {

Tensor Tensor::addmm(const Tensor& mat1, const Tensor& mat2, const ScaledSum& scales,
                     SourceLocation at) const {
  return tandem::addmm(*this, mat1, mat2, scales, at);
}
Tensor Tensor::addbmm(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                      SourceLocation at) const {
  return tandem::addbmm(*this, batch1, batch2, scales, at);
}
Tensor Tensor::baddbmm(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                       SourceLocation at) const {
  return tandem::baddbmm(*this, batch1, batch2, scales, at);
}
Tensor Tensor::addmv(const Tensor& mat, const Tensor& vec, const ScaledSum& scales,
                     SourceLocation at) const {
  return tandem::addmv(*this, mat, vec, scales, at);
}
Tensor Tensor::addr(const Tensor& vec1, const Tensor& vec2, const ScaledSum& scales,
                    SourceLocation at) const {
  return tandem::addr(*this, vec1, vec2, scales, at);
}
Tensor Tensor::mv(const Tensor& vec, SourceLocation at) const { return tandem::mv(*this, vec, at); }
Tensor Tensor::dot(const Tensor& tensor, SourceLocation at) const {
  return tandem::dot(*this, tensor, at);
}
Tensor Tensor::vdot(const Tensor& other, SourceLocation at) const {
  return tandem::vdot(*this, other, at);
}
Tensor Tensor::inner(const Tensor& other, SourceLocation at) const {
  return tandem::inner(*this, other, at);
}
Tensor Tensor::outer(const Tensor& vec2, SourceLocation at) const {
  return tandem::outer(*this, vec2, at);
}
Tensor Tensor::ger(const Tensor& vec2, SourceLocation at) const {
  return tandem::ger(*this, vec2, at);
}
Tensor Tensor::kron(const Tensor& other, SourceLocation at) const {
  return tandem::kron(*this, other, at);
}
Tensor Tensor::cross(const Tensor& other, std::optional<int64_t> dim, SourceLocation at) const {
  return tandem::cross(*this, other, dim, at);
}

Tensor Tensor::matrix_power(int64_t n, SourceLocation at) const {
  return tandem::matrix_power(*this, n, at);
}
Tensor Tensor::matrix_exp(SourceLocation at) const { return tandem::matrix_exp(*this, at); }
Tensor Tensor::inverse(SourceLocation at) const { return tandem::inverse(*this, at); }
Tensor Tensor::det(SourceLocation at) const { return tandem::det(*this, at); }
Tensor Tensor::logdet(SourceLocation at) const { return tandem::logdet(*this, at); }
SignAndLogDet Tensor::slogdet(SourceLocation at) const { return tandem::slogdet(*this, at); }
Tensor Tensor::cholesky(bool upper, SourceLocation at) const {
  return tandem::cholesky(*this, upper, at);
}
Tensor Tensor::cholesky_solve(const Tensor& input2, bool upper, SourceLocation at) const {
  return tandem::cholesky_solve(*this, input2, upper, at);
}
Tensor Tensor::cholesky_inverse(bool upper, SourceLocation at) const {
  return tandem::cholesky_inverse(*this, upper, at);
}
Tensor Tensor::lu_solve(const Tensor& lu_data, const Tensor& lu_pivots, SourceLocation at) const {
  return tandem::lu_solve(*this, lu_data, lu_pivots, at);
}
TriangularSolution Tensor::triangular_solve(const Tensor& a, bool upper, bool transpose,
                                            bool unitriangular, SourceLocation at) const {
  return tandem::triangular_solve(*this, a, upper, transpose, unitriangular, at);
}
Reflections Tensor::geqrf(SourceLocation at) const { return tandem::geqrf(*this, at); }
Tensor Tensor::ormqr(const Tensor& input2, const Tensor& input3, bool left, bool transpose,
                     SourceLocation at) const {
  return tandem::ormqr(*this, input2, input3, left, transpose, at);
}
Tensor Tensor::pinverse(double rcond, SourceLocation at) const {
  return tandem::pinverse(*this, rcond, at);
}
Qr Tensor::qr(bool some, SourceLocation at) const { return tandem::qr(*this, some, at); }
SvdOfV Tensor::svd(bool some, SourceLocation at) const { return tandem::svd(*this, some, at); }

const Tensor& Tensor::addmm_(const Tensor& mat1, const Tensor& mat2, const ScaledSum& scales,
                             SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addmm(*this, mat1, mat2, scales, at), at));
}
const Tensor& Tensor::addbmm_(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                              SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addbmm(*this, batch1, batch2, scales, at), at));
}
const Tensor& Tensor::baddbmm_(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                               SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::baddbmm(*this, batch1, batch2, scales, at), at));
}
const Tensor& Tensor::addmv_(const Tensor& mat, const Tensor& vec, const ScaledSum& scales,
                             SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addmv(*this, mat, vec, scales, at), at));
}
const Tensor& Tensor::addr_(const Tensor& vec1, const Tensor& vec2, const ScaledSum& scales,
                            SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addr(*this, vec1, vec2, scales, at), at));
}

}  // namespace tandem
