// Products, factors and solutions of matrices, named and defined as in ATen; tandem::linalg is
// torch.linalg. Matrices are the last two dimensions, [..., rows, columns]; those before are a
// batch, which broadcasts where there are several. Of products all operands have one dtype.
#ifndef TANDEM_OPS_LINALG_H
#define TANDEM_OPS_LINALG_H

#include <tandem/ops.h>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

// --- products
TANDEM_API Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                        const ScaledSum& scales, TANDEM_AT);
/// self + the sum over the batch of batch1 @ batch2, [b, n, m] and [b, m, p]; self broadcasts.
TANDEM_API Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                         const ScaledSum& scales = {}, TANDEM_AT);
/// self + batch1 @ batch2, [b, n, m] and [b, m, p]; self broadcasts.
TANDEM_API Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                          const ScaledSum& scales = {}, TANDEM_AT);
/// self + mat @ vec; self broadcasts.
TANDEM_API Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec,
                        const ScaledSum& scales = {}, TANDEM_AT);
/// self + outer(vec1, vec2); self broadcasts.
TANDEM_API Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2,
                       const ScaledSum& scales = {}, TANDEM_AT);
/// Of a matrix and a vector.
TANDEM_API Tensor mv(const Tensor& self, const Tensor& vec, TANDEM_AT);
/// Of two vectors of one length.
TANDEM_API Tensor dot(const Tensor& self, const Tensor& tensor, TANDEM_AT);
TANDEM_API Tensor vdot(const Tensor& self, const Tensor& other, TANDEM_AT);
/// Sums of products along the last dimensions; of a 0-d tensor the product.
TANDEM_API Tensor inner(const Tensor& self, const Tensor& other, TANDEM_AT);
/// Of two vectors all products, [n, m].
TANDEM_API Tensor outer(const Tensor& self, const Tensor& vec2, TANDEM_AT);
TANDEM_API Tensor ger(const Tensor& self, const Tensor& vec2, TANDEM_AT);
/// Sums over the last `dims` dimensions of self and the first of other.
TANDEM_API Tensor tensordot(const Tensor& self, const Tensor& other, int64_t dims = 2, TANDEM_AT);
/// Sums over pairs of dimensions; of sizes 1 and n the one counts n times.
TANDEM_API Tensor tensordot(const Tensor& self, const Tensor& other, const DimList& dims_self,
                            const DimList& dims_other, TANDEM_AT);
/// Each element of self times all of other.
TANDEM_API Tensor kron(const Tensor& self, const Tensor& other, TANDEM_AT);
/// Along a dimension of size 3; without `dim` the first such.
TANDEM_API Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim = {},
                        TANDEM_AT);
/// Of matrices, in the order of the fewest multiplications.
TANDEM_API Tensor chain_matmul(const std::vector<Tensor>& matrices, TANDEM_AT);
/// x1^T weight[o] x2 + bias[o]: x1 [..., n], x2 [..., m], weight [out, n, m], bias [out] or
/// undefined.
TANDEM_API Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight,
                           const Tensor& bias = {}, TANDEM_AT);
/// The powers x^(n - 1), ..., x, 1 of a vector (n: its length if left out), or in ascending order.
TANDEM_API Tensor vander(const Tensor& x, std::optional<Dim> n = {}, bool increasing = false,
                         TANDEM_AT);
/// The p-norms of the differences of the rows of x1 [..., n, k] and of x2 [..., m, k]: [..., n, m].
/// compute_mode: "use_mm_for_euclid_dist_if_necessary" (p = 2 by a product where n or m is above
/// 25, which cancels), "use_mm_for_euclid_dist" or "donot_use_mm_for_euclid_dist".
TANDEM_API Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2,
                        std::string_view compute_mode = "use_mm_for_euclid_dist_if_necessary",
                        TANDEM_AT);

/// Sums of products in Einstein's notation: einsum("bij,bjk->bik", {x, y}). One letter for each
/// dimension, "..." for those without, which broadcast. What the output leaves out is summed (in
/// i64, if it is of integers of one operand alone); without "->" it has "..." and in alphabetical
/// order what appears once. A letter twice in an operand is its diagonal. Products of three or more
/// are made in the order of the fewest multiplications.
TANDEM_API Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, TANDEM_AT);
/// A number in place of a letter, 0 to 51 as A to Z and a to z, or `ellipsis`.
struct Subscript {
  Subscript(int label) : label(label) {}  // NOLINT(google-explicit-constructor)
  Subscript(Ellipsis) {}                  // NOLINT(google-explicit-constructor)
  int label = -1;
};
struct Subscripted {
  Tensor tensor;
  std::vector<Subscript> subscripts;
};
/// einsum({{x, {0, 1}}, {y, {1, 2}}}, {{0, 2}}).
TANDEM_API Tensor einsum(const std::vector<Subscripted>& operands,
                         const std::optional<std::vector<Subscript>>& output = {}, TANDEM_AT);

// --- factors and solutions, of f32 and f64. What has none is an Error{Argument} that says which
// matrix of the batch; the forms ..._ex say it in `info` instead.
/// self @ self @ ..., n times; negative: of the inverse.
TANDEM_API Tensor matrix_power(const Tensor& self, int64_t n, TANDEM_AT);
TANDEM_API Tensor matrix_exp(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor inverse(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor det(const Tensor& self, TANDEM_AT);
/// NaN of a negative determinant.
TANDEM_API Tensor logdet(const Tensor& self, TANDEM_AT);
TANDEM_API SignAndLogDet slogdet(const Tensor& self, TANDEM_AT);
/// L with L @ L^T = self, of which the lower triangle is read; `upper`: U with U^T @ U, the upper.
TANDEM_API Tensor cholesky(const Tensor& self, bool upper = false, TANDEM_AT);
/// x with A @ x = self, where input2 is A's factor. The gradient of the triangle that is not read
/// is 0 (PyTorch's is not).
TANDEM_API Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper = false,
                                 TANDEM_AT);
/// The inverse of the matrix whose factor self is; the gradient as cholesky_solve's.
TANDEM_API Tensor cholesky_inverse(const Tensor& self, bool upper = false, TANDEM_AT);
/// x with A @ x = self, where A's factors are given.
TANDEM_API Tensor lu_solve(const Tensor& self, const Tensor& lu_data, const Tensor& lu_pivots,
                           TANDEM_AT);
/// x with a @ x = self, of a triangular a [..., n, n] (`transpose`: a^T), and a copy of a.
TANDEM_API TriangularSolution triangular_solve(const Tensor& self, const Tensor& a,
                                               bool upper = true, bool transpose = false,
                                               bool unitriangular = false, TANDEM_AT);
/// R, and below its diagonal what makes Q by householder_product and ormqr.
TANDEM_API Reflections geqrf(const Tensor& self, TANDEM_AT);
/// Q @ input3, Q the square product of the reflections that self [..., m, k] and input2 [..., k]
/// hold as LAPACK does; `transpose`: Q^T; not `left`: input3 @ Q.
TANDEM_API Tensor ormqr(const Tensor& self, const Tensor& input2, const Tensor& input3,
                        bool left = true, bool transpose = false, TANDEM_AT);
TANDEM_API Lu lu_unpack(const Tensor& lu_data, const Tensor& lu_pivots, TANDEM_AT);
TANDEM_API Tensor pinverse(const Tensor& self, double rcond = 1e-15, TANDEM_AT);
/// `some`: reduced, else complete.
TANDEM_API Qr qr(const Tensor& self, bool some = true, TANDEM_AT);
/// u diag(s) v^T; `some`: reduced, else u and v are square.
TANDEM_API SvdOfV svd(const Tensor& self, bool some = true, TANDEM_AT);
/// About u diag(s) v^T with q columns, of self, or of self less m: by random samples of what the
/// columns span, made better `niter` times.
TANDEM_API SvdOfV svd_lowrank(const Tensor& self, Dim q = 6, int64_t niter = 2,
                              const Tensor& m = {}, TANDEM_AT);
/// The same of self, whose columns are centred; q: at most 6 if left out.
TANDEM_API SvdOfV pca_lowrank(const Tensor& self, std::optional<Dim> q = {}, bool center = true,
                              int64_t niter = 2, TANDEM_AT);

namespace linalg {
/// Along a dimension of size 3; the others broadcast.
TANDEM_API Tensor cross(const Tensor& self, const Tensor& other, int64_t dim = -1, TANDEM_AT);
/// The sum of products along dim.
TANDEM_API Tensor vecdot(const Tensor& x, const Tensor& y, int64_t dim = -1, TANDEM_AT);
/// Of two or more matrices, in the order of the fewest multiplications; the first may be a vector
/// (a row), and the last (a column).
TANDEM_API Tensor multi_dot(const std::vector<Tensor>& tensors, TANDEM_AT);
/// The powers 1, x, ..., x^(n - 1) of each element, as a last dimension; n: x's last size if left
/// out. A 0-d x is one of one element.
TANDEM_API Tensor vander(const Tensor& x, std::optional<Dim> n = {}, TANDEM_AT);

TANDEM_API Tensor matrix_power(const Tensor& self, int64_t n, TANDEM_AT);
TANDEM_API Tensor matrix_exp(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor inv(const Tensor& self, TANDEM_AT);
TANDEM_API ResultAndInfo inv_ex(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor det(const Tensor& self, TANDEM_AT);
TANDEM_API SignAndLogDet slogdet(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor cholesky(const Tensor& self, bool upper = false, TANDEM_AT);
TANDEM_API ResultAndInfo cholesky_ex(const Tensor& self, bool upper = false, TANDEM_AT);
/// x with self @ x = other; not `left`: x @ self = other. other: matrices, or (of sizes
/// self.sizes()[:-1], or one) vectors.
TANDEM_API Tensor solve(const Tensor& self, const Tensor& other, bool left = true, TANDEM_AT);
TANDEM_API ResultAndInfo solve_ex(const Tensor& self, const Tensor& other, bool left = true,
                                  TANDEM_AT);
struct TriangularOptions {
  bool upper = false, left = true, unitriangular = false;
};
/// The same of a triangular matrix, whose other triangle is not read; `upper` must be said. Zeros
/// on the diagonal divide.
TANDEM_API Tensor solve_triangular(const Tensor& self, const Tensor& other,
                                   const TriangularOptions& options, TANDEM_AT);
/// L below the diagonal and U in one matrix, and which rows changed places.
TANDEM_API LuFactors lu_factor(const Tensor& self, TANDEM_AT);
TANDEM_API LuFactors lu_factor_ex(const Tensor& self, TANDEM_AT);
TANDEM_API Lu lu(const Tensor& self, TANDEM_AT);
struct LuSolveOptions {
  bool left = true, adjoint = false;
};
TANDEM_API Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& other,
                           const LuSolveOptions& options = {}, TANDEM_AT);
/// The inverse as of a matrix whose rows are the first `ind` dimensions.
TANDEM_API Tensor tensorinv(const Tensor& self, int64_t ind = 2, TANDEM_AT);
/// x with tensordot(self, x, x.dim()) = other; `dims` of self come last first.
TANDEM_API Tensor tensorsolve(const Tensor& self, const Tensor& other, const DimList& dims = {},
                              TANDEM_AT);
/// The first columns, as many as input has, of the product of the reflections that input [..., m,
/// n] holds below its diagonal and tau [..., k] scales, as LAPACK gives them.
TANDEM_API Tensor householder_product(const Tensor& input, const Tensor& tau, TANDEM_AT);
/// mode "reduced", "complete" (q is square) or "r" (without q).
TANDEM_API Qr qr(const Tensor& self, std::string_view mode = "reduced", TANDEM_AT);
TANDEM_API Svd svd(const Tensor& self, bool full_matrices = true, TANDEM_AT);
/// In descending order.
TANDEM_API Tensor svdvals(const Tensor& self, TANDEM_AT);
/// Of symmetric matrices, of which one triangle is read: "L" or "U". In ascending order.
TANDEM_API Eigh eigh(const Tensor& self, std::string_view uplo = "L", TANDEM_AT);
TANDEM_API Tensor eigvalsh(const Tensor& self, std::string_view uplo = "L", TANDEM_AT);
/// A number, or a tensor of numbers, which broadcasts with the batch; or left out.
struct Tolerance {
  Tolerance() = default;
  Tolerance(double number) : number(number) {}                 // NOLINT
  Tolerance(std::optional<double> number) : number(number) {}  // NOLINT
  Tolerance(Tensor each) : each(std::move(each)) {}            // NOLINT
  std::optional<double> number = {};
  Tensor each = {};
};
/// Singular values (hermitian: magnitudes of eigenvalues) up to max(atol, rtol * the largest) count
/// as 0. Without atol, or where it is 0, rtol is the dtype's epsilon times the larger size.
struct RankOptions {
  Tolerance atol = {}, rtol = {};
  bool hermitian = false;
};
/// Its gradient is that of the truncated inverse where a tolerance is given that may cut off what
/// is not 0 (ATen's is not), else that at constant rank.
TANDEM_API Tensor pinv(const Tensor& self, const RankOptions& options = {}, TANDEM_AT);
TANDEM_API Tensor matrix_rank(const Tensor& self, const RankOptions& options = {}, TANDEM_AT);
/// The least x that makes |self @ x - other| least. Singular values up to rcond (the dtype's
/// epsilon times the larger size) times the largest count as 0. `driver` says what is given beside
/// x, all else is without elements: "gels", for which self counts as of full rank, the residuals,
/// "gelsy" the rank, "gelsd" and "gelss" both and the singular values. residuals: the squares of
/// what is left, of matrices of more rows than columns, which count as of full rank.
TANDEM_API LeastSquares lstsq(const Tensor& self, const Tensor& other,
                              std::optional<double> rcond = {}, std::string_view driver = "gelsy",
                              TANDEM_AT);
/// The norm times that of the inverse; of p = 2 and -2 from singular values. Infinite where there
/// is no inverse.
TANDEM_API Tensor cond(const Tensor& self, const Number& p = 2, TANDEM_AT);
}  // namespace linalg

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_LINALG_H
