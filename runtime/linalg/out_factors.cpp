// Factors and solutions that are written into given tensors.
#include <tandem/ops/out_forms.h>

#include "runtime/ops/out.h"

namespace tandem {

using runtime::write_each;
using runtime::write_out;

const Tensor& cholesky_out(const Tensor& out, const Tensor& self, bool upper, SourceLocation at) {
  return write_out("cholesky_out", out, at, {}, [&] { return cholesky(self, upper, at); });
}
const Tensor& cholesky_solve_out(const Tensor& out, const Tensor& self, const Tensor& input2,
                                 bool upper, SourceLocation at) {
  return write_out("cholesky_solve_out", out, at, {},
                   [&] { return cholesky_solve(self, input2, upper, at); });
}
const Tensor& cholesky_inverse_out(const Tensor& out, const Tensor& self, bool upper,
                                   SourceLocation at) {
  return write_out("cholesky_inverse_out", out, at, {},
                   [&] { return cholesky_inverse(self, upper, at); });
}
const Tensor& inverse_out(const Tensor& out, const Tensor& self, SourceLocation at) {
  return write_out("inverse_out", out, at, {}, [&] { return inverse(self, at); });
}
const Tensor& lu_solve_out(const Tensor& out, const Tensor& self, const Tensor& lu_data,
                           const Tensor& lu_pivots, SourceLocation at) {
  return write_out("lu_solve_out", out, at, {},
                   [&] { return lu_solve(self, lu_data, lu_pivots, at); });
}
const Tensor& matrix_power_out(const Tensor& out, const Tensor& self, int64_t n,
                               SourceLocation at) {
  return write_out("matrix_power_out", out, at, {}, [&] { return matrix_power(self, n, at); });
}
Reflections geqrf_out(const Reflections& out, const Tensor& self, SourceLocation at) {
  return write_each("geqrf_out", out, at, [&] { return geqrf(self, at); });
}
const Tensor& ormqr_out(const Tensor& out, const Tensor& self, const Tensor& input2,
                        const Tensor& input3, bool left, bool transpose, SourceLocation at) {
  return write_out("ormqr_out", out, at, {},
                   [&] { return ormqr(self, input2, input3, left, transpose, at); });
}
Lu lu_unpack_out(const Lu& out, const Tensor& lu_data, const Tensor& lu_pivots, SourceLocation at) {
  return write_each("lu_unpack_out", out, at, [&] { return lu_unpack(lu_data, lu_pivots, at); });
}
SignAndLogDet slogdet_out(const SignAndLogDet& out, const Tensor& self, SourceLocation at) {
  return write_each("slogdet_out", out, at, [&] { return slogdet(self, at); });
}
Qr qr_out(const Qr& out, const Tensor& self, bool some, SourceLocation at) {
  return write_each("qr_out", out, at, [&] { return qr(self, some, at); });
}
SvdOfV svd_out(const SvdOfV& out, const Tensor& self, bool some, SourceLocation at) {
  return write_each("svd_out", out, at, [&] { return svd(self, some, at); });
}
TriangularSolution triangular_solve_out(const TriangularSolution& out, const Tensor& self,
                                        const Tensor& a, bool upper, bool transpose,
                                        bool unitriangular, SourceLocation at) {
  return write_each("triangular_solve_out", out, at,
                    [&] { return triangular_solve(self, a, upper, transpose, unitriangular, at); });
}
const Tensor& linalg::cholesky_out(const Tensor& out, const Tensor& self, bool upper,
                                   SourceLocation at) {
  return write_out("cholesky_out", out, at, {}, [&] { return linalg::cholesky(self, upper, at); });
}
const Tensor& linalg::inv_out(const Tensor& out, const Tensor& self, SourceLocation at) {
  return write_out("inv_out", out, at, {}, [&] { return linalg::inv(self, at); });
}
const Tensor& linalg::det_out(const Tensor& out, const Tensor& self, SourceLocation at) {
  return write_out("det_out", out, at, {}, [&] { return linalg::det(self, at); });
}
const Tensor& linalg::solve_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                bool left, SourceLocation at) {
  return write_out("solve_out", out, at, {}, [&] { return linalg::solve(self, other, left, at); });
}
const Tensor& linalg::solve_triangular_out(const Tensor& out, const Tensor& self,
                                           const Tensor& other, const TriangularOptions& options,
                                           SourceLocation at) {
  return write_out("solve_triangular_out", out, at, {},
                   [&] { return linalg::solve_triangular(self, other, options, at); });
}
const Tensor& linalg::lu_solve_out(const Tensor& out, const Tensor& lu, const Tensor& pivots,
                                   const Tensor& other, const LuSolveOptions& options,
                                   SourceLocation at) {
  return write_out("lu_solve_out", out, at, {},
                   [&] { return linalg::lu_solve(lu, pivots, other, options, at); });
}
const Tensor& linalg::tensorinv_out(const Tensor& out, const Tensor& self, int64_t ind,
                                    SourceLocation at) {
  return write_out("tensorinv_out", out, at, {}, [&] { return linalg::tensorinv(self, ind, at); });
}
const Tensor& linalg::tensorsolve_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                      const DimList& dims, SourceLocation at) {
  return write_out("tensorsolve_out", out, at, {},
                   [&] { return linalg::tensorsolve(self, other, dims, at); });
}
const Tensor& linalg::householder_product_out(const Tensor& out, const Tensor& input,
                                              const Tensor& tau, SourceLocation at) {
  return write_out("householder_product_out", out, at, {},
                   [&] { return linalg::householder_product(input, tau, at); });
}
const Tensor& linalg::svdvals_out(const Tensor& out, const Tensor& self, SourceLocation at) {
  return write_out("svdvals_out", out, at, {}, [&] { return linalg::svdvals(self, at); });
}
const Tensor& linalg::eigvalsh_out(const Tensor& out, const Tensor& self, std::string_view uplo,
                                   SourceLocation at) {
  return write_out("eigvalsh_out", out, at, {}, [&] { return linalg::eigvalsh(self, uplo, at); });
}
const Tensor& linalg::pinv_out(const Tensor& out, const Tensor& self, const RankOptions& options,
                               SourceLocation at) {
  return write_out("pinv_out", out, at, {}, [&] { return linalg::pinv(self, options, at); });
}
const Tensor& linalg::matrix_rank_out(const Tensor& out, const Tensor& self,
                                      const RankOptions& options, SourceLocation at) {
  return write_out("matrix_rank_out", out, at, {},
                   [&] { return linalg::matrix_rank(self, options, at); });
}
const Tensor& linalg::matrix_power_out(const Tensor& out, const Tensor& self, int64_t n,
                                       SourceLocation at) {
  return write_out("matrix_power_out", out, at, {},
                   [&] { return linalg::matrix_power(self, n, at); });
}
const Tensor& linalg::cond_out(const Tensor& out, const Tensor& self, const Number& p,
                               SourceLocation at) {
  return write_out("cond_out", out, at, {}, [&] { return linalg::cond(self, p, at); });
}
const Tensor& linalg::vector_norm_out(const Tensor& out, const Tensor& self, const Number& ord,
                                      const DimList& dims, bool keepdim, SourceLocation at) {
  return write_out("vector_norm_out", out, at, {},
                   [&] { return linalg::vector_norm(self, ord, dims, keepdim, at); });
}
const Tensor& linalg::matrix_norm_out(const Tensor& out, const Tensor& self, const Number& ord,
                                      const DimList& dims, bool keepdim, SourceLocation at) {
  return write_out("matrix_norm_out", out, at, {},
                   [&] { return linalg::matrix_norm(self, ord, dims, keepdim, at); });
}
ResultAndInfo linalg::cholesky_ex_out(const ResultAndInfo& out, const Tensor& self, bool upper,
                                      SourceLocation at) {
  return write_each("cholesky_ex_out", out, at,
                    [&] { return linalg::cholesky_ex(self, upper, at); });
}
ResultAndInfo linalg::inv_ex_out(const ResultAndInfo& out, const Tensor& self, SourceLocation at) {
  return write_each("inv_ex_out", out, at, [&] { return linalg::inv_ex(self, at); });
}
ResultAndInfo linalg::solve_ex_out(const ResultAndInfo& out, const Tensor& self,
                                   const Tensor& other, bool left, SourceLocation at) {
  return write_each("solve_ex_out", out, at,
                    [&] { return linalg::solve_ex(self, other, left, at); });
}
SignAndLogDet linalg::slogdet_out(const SignAndLogDet& out, const Tensor& self, SourceLocation at) {
  return write_each("slogdet_out", out, at, [&] { return linalg::slogdet(self, at); });
}
LuFactors linalg::lu_factor_out(const LuFactors& out, const Tensor& self, SourceLocation at) {
  return write_each("lu_factor_out", out, at, [&] { return linalg::lu_factor(self, at); });
}
LuFactors linalg::lu_factor_ex_out(const LuFactors& out, const Tensor& self, SourceLocation at) {
  return write_each("lu_factor_ex_out", out, at, [&] { return linalg::lu_factor_ex(self, at); });
}
Lu linalg::lu_out(const Lu& out, const Tensor& self, SourceLocation at) {
  return write_each("lu_out", out, at, [&] { return linalg::lu(self, at); });
}
Qr linalg::qr_out(const Qr& out, const Tensor& self, std::string_view mode, SourceLocation at) {
  return write_each("qr_out", out, at, [&] { return linalg::qr(self, mode, at); });
}
Svd linalg::svd_out(const Svd& out, const Tensor& self, bool full_matrices, SourceLocation at) {
  return write_each("svd_out", out, at, [&] { return linalg::svd(self, full_matrices, at); });
}
Eigh linalg::eigh_out(const Eigh& out, const Tensor& self, std::string_view uplo,
                      SourceLocation at) {
  return write_each("eigh_out", out, at, [&] { return linalg::eigh(self, uplo, at); });
}
LeastSquares linalg::lstsq_out(const LeastSquares& out, const Tensor& self, const Tensor& other,
                               std::optional<double> rcond, std::string_view driver,
                               SourceLocation at) {
  return write_each("lstsq_out", out, at,
                    [&] { return linalg::lstsq(self, other, rcond, driver, at); });
}

}  // namespace tandem
