// The `op_out(out, ...)` forms, as in ATen's C++ interface: the result is written into `out`, which
// is returned. An `out` without elements takes the result's sizes, any other must have them. Its
// dtype may be of a higher kind than the result's (bool, integer, floating), not of a lower one. No
// gradient flows: an Error in grad mode if a tensor requires one.
#ifndef TANDEM_OPS_OUT_FORMS_H
#define TANDEM_OPS_OUT_FORMS_H

#include <tandem/ops/linalg.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/sorting.h>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

#define X(op) TANDEM_API const Tensor& op##_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_UNARY_IN_PLACE_OPS(X)
TANDEM_UNARY_OPS(X)
TANDEM_MADE_UNARY_IN_PLACE(X)
TANDEM_MADE_UNARY(X)
#undef X
#define X(name, op) \
  TANDEM_API const Tensor& name##_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_UNARY_ALIASES(X)
#undef X
#define X(op) \
  TANDEM_API const Tensor& op##_out(const Tensor& out, const Located& self, const Located& other);
TANDEM_BINARY_IN_PLACE_OPS(X)
TANDEM_BINARY_OPS(X)
TANDEM_MADE_BINARY_IN_PLACE(X)
TANDEM_MADE_BINARY(X)
#undef X
#define X(name, op) \
  TANDEM_API const Tensor& name##_out(const Tensor& out, const Located& self, const Located& other);
TANDEM_BINARY_ALIASES(X)
#undef X
TANDEM_API const Tensor& add_out(const Tensor& out, const Located& self, const Located& other,
                                 const Number& alpha);
TANDEM_API const Tensor& sub_out(const Tensor& out, const Located& self, const Located& other,
                                 const Number& alpha);
TANDEM_API const Tensor& rsub_out(const Tensor& out, const Located& self, const Located& other,
                                  const Number& alpha = 1);
TANDEM_API const Tensor& div_out(const Tensor& out, const Located& self, const Located& other,
                                 std::string_view rounding_mode);
TANDEM_API const Tensor& round_out(const Tensor& out, const Tensor& self, int64_t decimals,
                                   TANDEM_AT);
TANDEM_API const Tensor& logit_out(const Tensor& out, const Tensor& self, double eps, TANDEM_AT);
TANDEM_API MantissaAndExponent frexp_out(const MantissaAndExponent& out, const Tensor& self,
                                         TANDEM_AT);
TANDEM_API const Tensor& polygamma_out(const Tensor& out, int64_t n, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& mvlgamma_out(const Tensor& out, const Tensor& self, int64_t p, TANDEM_AT);
TANDEM_API const Tensor& hardshrink_out(const Tensor& out, const Tensor& self, double lambd = 0.5,
                                        TANDEM_AT);
TANDEM_API const Tensor& softshrink_out(const Tensor& out, const Tensor& self, double lambd = 0.5,
                                        TANDEM_AT);
TANDEM_API const Tensor& threshold_out(const Tensor& out, const Tensor& self,
                                       const Number& threshold, const Number& value, TANDEM_AT);
TANDEM_API const Tensor& glu_out(const Tensor& out, const Tensor& self, int64_t dim = -1,
                                 TANDEM_AT);
TANDEM_API const Tensor& where_out(const Tensor& out, const Tensor& condition, const Located& self,
                                   const Located& other);
TANDEM_API const Tensor& clamp_out(const Tensor& out, const Tensor& self, std::optional<Number> min,
                                   std::optional<Number> max = {}, TANDEM_AT);
TANDEM_API const Tensor& clamp_out(const Tensor& out, const Tensor& self, const Tensor& min,
                                   const Tensor& max = {}, TANDEM_AT);
TANDEM_API const Tensor& clip_out(const Tensor& out, const Tensor& self, std::optional<Number> min,
                                  std::optional<Number> max = {}, TANDEM_AT);
TANDEM_API const Tensor& clip_out(const Tensor& out, const Tensor& self, const Tensor& min,
                                  const Tensor& max = {}, TANDEM_AT);
TANDEM_API const Tensor& lerp_out(const Tensor& out, const Tensor& self, const Tensor& end,
                                  const Located& weight);
TANDEM_API const Tensor& addcmul_out(const Tensor& out, const Tensor& self, const Tensor& tensor1,
                                     const Tensor& tensor2, const Located& value = 1);
TANDEM_API const Tensor& addcdiv_out(const Tensor& out, const Tensor& self, const Tensor& tensor1,
                                     const Tensor& tensor2, const Located& value = 1);
TANDEM_API const Tensor& tril_out(const Tensor& out, const Tensor& self, Dim diagonal = 0,
                                  TANDEM_AT);
TANDEM_API const Tensor& triu_out(const Tensor& out, const Tensor& self, Dim diagonal = 0,
                                  TANDEM_AT);
#define X(op)                                                              \
  TANDEM_API const Tensor& op##_out(const Tensor& out, const Tensor& self, \
                                    const DimList& dims = {}, bool keepdim = false, TANDEM_AT);
TANDEM_OUT_REDUCTIONS(X)
#undef X
TANDEM_API const Tensor& softmax_out(const Tensor& out, const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API const Tensor& log_softmax_out(const Tensor& out, const Tensor& self, int64_t dim,
                                         TANDEM_AT);
TANDEM_API const Tensor& matmul_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                    TANDEM_AT);
TANDEM_API const Tensor& mm_out(const Tensor& out, const Tensor& self, const Tensor& mat2,
                                TANDEM_AT);
TANDEM_API const Tensor& bmm_out(const Tensor& out, const Tensor& self, const Tensor& mat2,
                                 TANDEM_AT);
TANDEM_API const Tensor& addmm_out(const Tensor& out, const Tensor& self, const Tensor& mat1,
                                   const Tensor& mat2, TANDEM_AT);
TANDEM_API const Tensor& cat_out(const Tensor& out, std::span<const Tensor> tensors,
                                 int64_t dim = 0, TANDEM_AT);
TANDEM_API const Tensor& stack_out(const Tensor& out, std::span<const Tensor> tensors,
                                   int64_t dim = 0, TANDEM_AT);
TANDEM_API const Tensor& index_select_out(const Tensor& out, const Tensor& self, int64_t dim,
                                          const Tensor& index, TANDEM_AT);
TANDEM_API const Tensor& gather_out(const Tensor& out, const Tensor& self, int64_t dim,
                                    const Tensor& index, TANDEM_AT);
TANDEM_API const Tensor& index_add_out(const Tensor& out, const Tensor& self, int64_t dim,
                                       const Tensor& index, const Tensor& src, TANDEM_AT);
TANDEM_API const Tensor& scatter_add_out(const Tensor& out, const Tensor& self, int64_t dim,
                                         const Tensor& index, const Tensor& src, TANDEM_AT);
TANDEM_API const Tensor& scatter_out(const Tensor& out, const Tensor& self, int64_t dim,
                                     const Tensor& index, const Located& src);
TANDEM_API const Tensor& index_copy_out(const Tensor& out, const Tensor& self, int64_t dim,
                                        const Tensor& index, const Tensor& src, TANDEM_AT);
TANDEM_API const Tensor& index_fill_out(const Tensor& out, const Tensor& self, int64_t dim,
                                        const Tensor& index, const Located& value);
TANDEM_API const Tensor& index_add_out(const Tensor& out, const Tensor& self, int64_t dim,
                                       const Tensor& index, const Tensor& src, const Number& alpha,
                                       TANDEM_AT);
TANDEM_API const Tensor& scatter_out(const Tensor& out, const Tensor& self, int64_t dim,
                                     const Tensor& index, const Located& src,
                                     std::string_view reduce);
TANDEM_API const Tensor& scatter_reduce_out(const Tensor& out, const Tensor& self, int64_t dim,
                                            const Tensor& index, const Tensor& src,
                                            std::string_view reduce, bool include_self = true,
                                            TANDEM_AT);
TANDEM_API const Tensor& index_reduce_out(const Tensor& out, const Tensor& self, int64_t dim,
                                          const Tensor& index, const Tensor& source,
                                          std::string_view reduce, bool include_self = true,
                                          TANDEM_AT);
TANDEM_API const Tensor& masked_scatter_out(const Tensor& out, const Tensor& self,
                                            const Tensor& mask, const Tensor& src, TANDEM_AT);

// --- of <tandem/ops/shapes.h>
#define X(op) \
  TANDEM_API const Tensor& op##_out(const Tensor& out, std::span<const Tensor> tensors, TANDEM_AT);
TANDEM_STACKS(X)
#undef X
#define X(op)                                                                           \
  TANDEM_API const Tensor& op##_out(const Tensor& out, std::span<const Tensor> tensors, \
                                    int64_t dim = 0, TANDEM_AT);
TANDEM_CAT_ALIASES(X)
#undef X
TANDEM_API const Tensor& diag_out(const Tensor& out, const Tensor& self, Dim diagonal = 0,
                                  TANDEM_AT);
TANDEM_API const Tensor& linspace_out(const Tensor& out, const Number& start, const Number& end,
                                      Dim steps, TANDEM_AT);
TANDEM_API const Tensor& logspace_out(const Tensor& out, const Number& start, const Number& end,
                                      Dim steps, double base = 10, TANDEM_AT);

// --- of <tandem/ops/reductions.h> and <tandem/ops/sorting.h>
TANDEM_API const Tensor& norm_out(const Tensor& out, const Tensor& self, const Number& p,
                                  const DimList& dims = {}, bool keepdim = false, TANDEM_AT);
TANDEM_API const Tensor& nansum_out(const Tensor& out, const Tensor& self, const DimList& dims = {},
                                    bool keepdim = false, TANDEM_AT);
TANDEM_API const Tensor& nanmean_out(const Tensor& out, const Tensor& self,
                                     const DimList& dims = {}, bool keepdim = false, TANDEM_AT);
TANDEM_API const Tensor& cumsum_out(const Tensor& out, const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API const Tensor& cumprod_out(const Tensor& out, const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API const Tensor& logcumsumexp_out(const Tensor& out, const Tensor& self, int64_t dim,
                                          TANDEM_AT);
TANDEM_API const Tensor& diff_out(const Tensor& out, const Tensor& self, int64_t n = 1,
                                  int64_t dim = -1, const Tensor& prepend = {},
                                  const Tensor& append = {}, TANDEM_AT);
TANDEM_API const Tensor& histc_out(const Tensor& out, const Tensor& self, int64_t bins = 100,
                                   double min = 0, double max = 0, TANDEM_AT);
TANDEM_API const Tensor& nonzero_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& masked_select_out(const Tensor& out, const Tensor& self,
                                           const Tensor& mask, TANDEM_AT);
TANDEM_API const Tensor& msort_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& argsort_out(const Tensor& out, const Tensor& self, int64_t dim = -1,
                                     bool descending = false, bool stable = false, TANDEM_AT);
TANDEM_API const Tensor& take_out(const Tensor& out, const Tensor& self, const Tensor& index,
                                  TANDEM_AT);
TANDEM_API const Tensor& take_along_dim_out(const Tensor& out, const Tensor& self,
                                            const Tensor& indices, std::optional<int64_t> dim = {},
                                            TANDEM_AT);
TANDEM_API const Tensor& max_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                 TANDEM_AT);
TANDEM_API const Tensor& min_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                 TANDEM_AT);
TANDEM_API const Tensor& var_out(const Tensor& out, const Tensor& self, const DimList& dims = {},
                                 double correction = 1, bool keepdim = false, TANDEM_AT);
TANDEM_API const Tensor& std_out(const Tensor& out, const Tensor& self, const DimList& dims = {},
                                 double correction = 1, bool keepdim = false, TANDEM_AT);
TANDEM_API const Tensor& logsumexp_out(const Tensor& out, const Tensor& self, const DimList& dims,
                                       bool keepdim = false, TANDEM_AT);
TANDEM_API const Tensor& nan_to_num_out(const Tensor& out, const Tensor& self, double nan = 0,
                                        std::optional<double> posinf = {},
                                        std::optional<double> neginf = {}, TANDEM_AT);
#define TANDEM_QUANTILE(name, Q)                                                             \
  TANDEM_API const Tensor& name##_out(const Tensor& out, const Tensor& self, Q q,            \
                                      std::optional<int64_t> dim = {}, bool keepdim = false, \
                                      std::string_view interpolation = "linear", TANDEM_AT);
TANDEM_QUANTILE(quantile, double)
TANDEM_QUANTILE(quantile, const Tensor&)
TANDEM_QUANTILE(nanquantile, double)
TANDEM_QUANTILE(nanquantile, const Tensor&)
#undef TANDEM_QUANTILE
TANDEM_API const Tensor& searchsorted_out(const Tensor& out, const Tensor& sorted_sequence,
                                          const Located& self, const SearchOptions& options = {});
TANDEM_API const Tensor& bucketize_out(const Tensor& out, const Located& self,
                                       const Tensor& boundaries, const SearchOptions& options = {});
TANDEM_API const Tensor& renorm_out(const Tensor& out, const Tensor& self, double p, int64_t dim,
                                    double maxnorm, TANDEM_AT);
/// Both extremes, each into its own tensor.
TANDEM_API MinMax aminmax_out(const MinMax& out, const Tensor& self,
                              std::optional<int64_t> dim = {}, bool keepdim = false, TANDEM_AT);

// --- factories and random numbers, of out's dtype
TANDEM_API const Tensor& full_out(const Tensor& out, const Shape& sizes, const Number& value,
                                  TANDEM_AT);
TANDEM_API const Tensor& zeros_out(const Tensor& out, const Shape& sizes, TANDEM_AT);
TANDEM_API const Tensor& ones_out(const Tensor& out, const Shape& sizes, TANDEM_AT);
TANDEM_API const Tensor& arange_out(const Tensor& out, const Number& end, TANDEM_AT);
TANDEM_API const Tensor& arange_out(const Tensor& out, const Number& start, const Number& end,
                                    const Number& step = 1, TANDEM_AT);
TANDEM_API const Tensor& eye_out(const Tensor& out, Dim n, std::optional<Dim> m = {}, TANDEM_AT);
TANDEM_API const Tensor& rand_out(const Tensor& out, const Shape& sizes, TANDEM_AT);
TANDEM_API const Tensor& randn_out(const Tensor& out, const Shape& sizes, TANDEM_AT);
TANDEM_API const Tensor& randint_out(const Tensor& out, int64_t low, int64_t high,
                                     const Shape& sizes, TANDEM_AT);
TANDEM_API const Tensor& randperm_out(const Tensor& out, Dim n, TANDEM_AT);
TANDEM_API const Tensor& bernoulli_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& multinomial_out(const Tensor& out, const Tensor& self, Dim num_samples,
                                         bool replacement = false, TANDEM_AT);
TANDEM_API const Tensor& normal_out(const Tensor& out, const Tensor& mean, const Tensor& std,
                                    TANDEM_AT);
TANDEM_API const Tensor& normal_out(const Tensor& out, const Tensor& mean, double std = 1,
                                    TANDEM_AT);
TANDEM_API const Tensor& normal_out(const Tensor& out, double mean, const Tensor& std, TANDEM_AT);

/// The values and the indices, each into its own tensor.
TANDEM_API ValuesAndIndices max_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                                    bool keepdim = false, TANDEM_AT);
TANDEM_API ValuesAndIndices min_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                                    bool keepdim = false, TANDEM_AT);
TANDEM_API ValuesAndIndices cummax_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                                       TANDEM_AT);
TANDEM_API ValuesAndIndices cummin_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                                       TANDEM_AT);
TANDEM_API ValuesAndIndices median_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                                       bool keepdim = false, TANDEM_AT);
TANDEM_API ValuesAndIndices nanmedian_out(const ValuesAndIndices& out, const Tensor& self,
                                          int64_t dim, bool keepdim = false, TANDEM_AT);
TANDEM_API ValuesAndIndices mode_out(const ValuesAndIndices& out, const Tensor& self,
                                     int64_t dim = -1, bool keepdim = false, TANDEM_AT);
TANDEM_API ValuesAndIndices sort_out(const ValuesAndIndices& out, const Tensor& self,
                                     int64_t dim = -1, bool descending = false, bool stable = false,
                                     TANDEM_AT);
TANDEM_API ValuesAndIndices topk_out(const ValuesAndIndices& out, const Tensor& self, Dim k,
                                     int64_t dim = -1, bool largest = true, bool sorted = true,
                                     TANDEM_AT);
TANDEM_API ValuesAndIndices kthvalue_out(const ValuesAndIndices& out, const Tensor& self, Dim k,
                                         int64_t dim = -1, bool keepdim = false, TANDEM_AT);

// --- of <tandem/ops/linalg.h>
TANDEM_API const Tensor& addmm_out(const Tensor& out, const Tensor& self, const Tensor& mat1,
                                   const Tensor& mat2, const ScaledSum& scales, TANDEM_AT);
TANDEM_API const Tensor& addbmm_out(const Tensor& out, const Tensor& self, const Tensor& batch1,
                                    const Tensor& batch2, const ScaledSum& scales = {}, TANDEM_AT);
TANDEM_API const Tensor& baddbmm_out(const Tensor& out, const Tensor& self, const Tensor& batch1,
                                     const Tensor& batch2, const ScaledSum& scales = {}, TANDEM_AT);
TANDEM_API const Tensor& addmv_out(const Tensor& out, const Tensor& self, const Tensor& mat,
                                   const Tensor& vec, const ScaledSum& scales = {}, TANDEM_AT);
TANDEM_API const Tensor& addr_out(const Tensor& out, const Tensor& self, const Tensor& vec1,
                                  const Tensor& vec2, const ScaledSum& scales = {}, TANDEM_AT);
TANDEM_API const Tensor& mv_out(const Tensor& out, const Tensor& self, const Tensor& vec,
                                TANDEM_AT);
TANDEM_API const Tensor& dot_out(const Tensor& out, const Tensor& self, const Tensor& tensor,
                                 TANDEM_AT);
TANDEM_API const Tensor& vdot_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                  TANDEM_AT);
TANDEM_API const Tensor& inner_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                   TANDEM_AT);
TANDEM_API const Tensor& outer_out(const Tensor& out, const Tensor& self, const Tensor& vec2,
                                   TANDEM_AT);
TANDEM_API const Tensor& ger_out(const Tensor& out, const Tensor& self, const Tensor& vec2,
                                 TANDEM_AT);
TANDEM_API const Tensor& kron_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                  TANDEM_AT);
TANDEM_API const Tensor& tensordot_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                       const DimList& dims_self, const DimList& dims_other,
                                       TANDEM_AT);
TANDEM_API const Tensor& cross_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                   std::optional<int64_t> dim = {}, TANDEM_AT);
TANDEM_API const Tensor& chain_matmul_out(const Tensor& out, const std::vector<Tensor>& matrices,
                                          TANDEM_AT);
TANDEM_API const Tensor& cholesky_out(const Tensor& out, const Tensor& self, bool upper = false,
                                      TANDEM_AT);
TANDEM_API const Tensor& cholesky_solve_out(const Tensor& out, const Tensor& self,
                                            const Tensor& input2, bool upper = false, TANDEM_AT);
TANDEM_API const Tensor& cholesky_inverse_out(const Tensor& out, const Tensor& self,
                                              bool upper = false, TANDEM_AT);
TANDEM_API const Tensor& inverse_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& lu_solve_out(const Tensor& out, const Tensor& self, const Tensor& lu_data,
                                      const Tensor& lu_pivots, TANDEM_AT);
TANDEM_API const Tensor& matrix_power_out(const Tensor& out, const Tensor& self, int64_t n,
                                          TANDEM_AT);
TANDEM_API Reflections geqrf_out(const Reflections& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& ormqr_out(const Tensor& out, const Tensor& self, const Tensor& input2,
                                   const Tensor& input3, bool left = true, bool transpose = false,
                                   TANDEM_AT);
TANDEM_API Lu lu_unpack_out(const Lu& out, const Tensor& lu_data, const Tensor& lu_pivots,
                            TANDEM_AT);
TANDEM_API SignAndLogDet slogdet_out(const SignAndLogDet& out, const Tensor& self, TANDEM_AT);
TANDEM_API Qr qr_out(const Qr& out, const Tensor& self, bool some = true, TANDEM_AT);
TANDEM_API SvdOfV svd_out(const SvdOfV& out, const Tensor& self, bool some = true, TANDEM_AT);
TANDEM_API TriangularSolution triangular_solve_out(const TriangularSolution& out,
                                                   const Tensor& self, const Tensor& a,
                                                   bool upper = true, bool transpose = false,
                                                   bool unitriangular = false, TANDEM_AT);
namespace linalg {
TANDEM_API const Tensor& cross_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                   int64_t dim = -1, TANDEM_AT);
TANDEM_API const Tensor& vecdot_out(const Tensor& out, const Tensor& x, const Tensor& y,
                                    int64_t dim = -1, TANDEM_AT);
TANDEM_API const Tensor& multi_dot_out(const Tensor& out, const std::vector<Tensor>& tensors,
                                       TANDEM_AT);
TANDEM_API const Tensor& cholesky_out(const Tensor& out, const Tensor& self, bool upper = false,
                                      TANDEM_AT);
TANDEM_API const Tensor& inv_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& det_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& solve_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                   bool left = true, TANDEM_AT);
TANDEM_API const Tensor& solve_triangular_out(const Tensor& out, const Tensor& self,
                                              const Tensor& other, const TriangularOptions& options,
                                              TANDEM_AT);
TANDEM_API const Tensor& lu_solve_out(const Tensor& out, const Tensor& lu, const Tensor& pivots,
                                      const Tensor& other, const LuSolveOptions& options = {},
                                      TANDEM_AT);
TANDEM_API const Tensor& tensorinv_out(const Tensor& out, const Tensor& self, int64_t ind = 2,
                                       TANDEM_AT);
TANDEM_API const Tensor& tensorsolve_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                         const DimList& dims = {}, TANDEM_AT);
TANDEM_API const Tensor& householder_product_out(const Tensor& out, const Tensor& input,
                                                 const Tensor& tau, TANDEM_AT);
TANDEM_API const Tensor& svdvals_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_API const Tensor& eigvalsh_out(const Tensor& out, const Tensor& self,
                                      std::string_view uplo = "L", TANDEM_AT);
TANDEM_API const Tensor& pinv_out(const Tensor& out, const Tensor& self,
                                  const RankOptions& options = {}, TANDEM_AT);
TANDEM_API const Tensor& matrix_rank_out(const Tensor& out, const Tensor& self,
                                         const RankOptions& options = {}, TANDEM_AT);
TANDEM_API const Tensor& matrix_power_out(const Tensor& out, const Tensor& self, int64_t n,
                                          TANDEM_AT);
TANDEM_API const Tensor& cond_out(const Tensor& out, const Tensor& self, const Number& p = 2,
                                  TANDEM_AT);
TANDEM_API const Tensor& vector_norm_out(const Tensor& out, const Tensor& self,
                                         const Number& ord = 2, const DimList& dims = {},
                                         bool keepdim = false, TANDEM_AT);
TANDEM_API const Tensor& matrix_norm_out(const Tensor& out, const Tensor& self, const Number& ord,
                                         const DimList& dims = {-2, -1}, bool keepdim = false,
                                         TANDEM_AT);
TANDEM_API ResultAndInfo cholesky_ex_out(const ResultAndInfo& out, const Tensor& self,
                                         bool upper = false, TANDEM_AT);
TANDEM_API ResultAndInfo inv_ex_out(const ResultAndInfo& out, const Tensor& self, TANDEM_AT);
TANDEM_API ResultAndInfo solve_ex_out(const ResultAndInfo& out, const Tensor& self,
                                      const Tensor& other, bool left = true, TANDEM_AT);
TANDEM_API SignAndLogDet slogdet_out(const SignAndLogDet& out, const Tensor& self, TANDEM_AT);
TANDEM_API LuFactors lu_factor_out(const LuFactors& out, const Tensor& self, TANDEM_AT);
TANDEM_API LuFactors lu_factor_ex_out(const LuFactors& out, const Tensor& self, TANDEM_AT);
TANDEM_API Lu lu_out(const Lu& out, const Tensor& self, TANDEM_AT);
TANDEM_API Qr qr_out(const Qr& out, const Tensor& self, std::string_view mode = "reduced",
                     TANDEM_AT);
TANDEM_API Svd svd_out(const Svd& out, const Tensor& self, bool full_matrices = true, TANDEM_AT);
TANDEM_API Eigh eigh_out(const Eigh& out, const Tensor& self, std::string_view uplo = "L",
                         TANDEM_AT);
TANDEM_API LeastSquares lstsq_out(const LeastSquares& out, const Tensor& self, const Tensor& other,
                                  std::optional<double> rcond = {},
                                  std::string_view driver = "gelsy", TANDEM_AT);
}  // namespace linalg

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_OUT_FORMS_H
