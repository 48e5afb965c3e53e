// More reductions, scans, statistics and norms, named and defined as in ATen. Those of which ATen
// has methods are methods of Tensor too. What has sizes that depend on data runs eagerly; inside a
// trace it is an Error{Trace}, and a `_static` form takes the size.
#ifndef TANDEM_OPS_REDUCTIONS_H
#define TANDEM_OPS_REDUCTIONS_H

#include <tandem/ops.h>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

// --- reductions; `dims`: all if there are none
/// NaN counts as 0, as nothing. In `dtype` if one is given.
TANDEM_API Tensor nansum(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                         std::optional<DType> dtype = {}, TANDEM_AT);
TANDEM_API Tensor nanmean(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                          std::optional<DType> dtype = {}, TANDEM_AT);
TANDEM_API Tensor count_nonzero(const Tensor& self, const DimList& dims = {}, TANDEM_AT);
/// By element: as maximum and minimum.
TANDEM_API Tensor max(const Tensor& self, const Tensor& other, TANDEM_AT);
TANDEM_API Tensor min(const Tensor& self, const Tensor& other, TANDEM_AT);
/// The sum over what `sizes` was broadcast along.
TANDEM_API Tensor sum_to_size(const Tensor& self, const Shape& sizes, TANDEM_AT);
TANDEM_API Tensor trace(const Tensor& self, TANDEM_AT);

// --- scans along a dimension
/// Integers and bool in i64, or in `dtype`.
TANDEM_API Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype = {},
                         TANDEM_AT);
TANDEM_API Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype = {},
                          TANDEM_AT);
TANDEM_API Tensor logcumsumexp(const Tensor& self, int64_t dim, TANDEM_AT);
/// The extremum so far and where it is: the last of equals; NaN from the first one on.
TANDEM_API ValuesAndIndices cummax(const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API ValuesAndIndices cummin(const Tensor& self, int64_t dim, TANDEM_AT);
/// The differences of neighbours, n times, of self between `prepend` and `append`.
TANDEM_API Tensor diff(const Tensor& self, int64_t n = 1, int64_t dim = -1,
                       const Tensor& prepend = {}, const Tensor& append = {}, TANDEM_AT);
/// Derivatives along each of `dims` (all), by differences of second order between elements, and of
/// `edge_order` at the ends. spacing: the distance of elements, one for each dimension, or vectors
/// of the places where they are.
struct GradientOptions {
  DimList dims = {};
  int64_t edge_order = 1;
};
TANDEM_API std::vector<Tensor> gradient(const Tensor& self, double spacing = 1,
                                        const GradientOptions& options = {}, TANDEM_AT);
TANDEM_API std::vector<Tensor> gradient(const Tensor& self, const std::vector<double>& spacing,
                                        const GradientOptions& options = {}, TANDEM_AT);
TANDEM_API std::vector<Tensor> gradient(const Tensor& self, const std::vector<Tensor>& spacing,
                                        const GradientOptions& options = {}, TANDEM_AT);
/// The integral of y by the trapezoidal rule, at the places x or at a distance of dx.
TANDEM_API Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1, TANDEM_AT);
TANDEM_API Tensor trapezoid(const Tensor& y, const Number& dx = 1, int64_t dim = -1, TANDEM_AT);
TANDEM_API Tensor trapz(const Tensor& y, const Tensor& x, int64_t dim = -1, TANDEM_AT);
TANDEM_API Tensor trapz(const Tensor& y, const Number& dx = 1, int64_t dim = -1, TANDEM_AT);
TANDEM_API Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1,
                                       TANDEM_AT);
TANDEM_API Tensor cumulative_trapezoid(const Tensor& y, const Number& dx = 1, int64_t dim = -1,
                                       TANDEM_AT);

// --- order statistics; NaN if any is, but for nan..., where it counts for nothing
/// Of all elements: the lower one of two.
TANDEM_API Tensor median(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor nanmedian(const Tensor& self, TANDEM_AT);
TANDEM_API ValuesAndIndices median(const Tensor& self, int64_t dim, bool keepdim = false,
                                   TANDEM_AT);
TANDEM_API ValuesAndIndices nanmedian(const Tensor& self, int64_t dim, bool keepdim = false,
                                      TANDEM_AT);
/// The most frequent element, the smallest of several, and its last place.
TANDEM_API ValuesAndIndices mode(const Tensor& self, int64_t dim = -1, bool keepdim = false,
                                 TANDEM_AT);
/// q: a number from 0 to 1, or a vector of them, which the result then has as its first dimension.
/// `interpolation`: "linear", "lower", "higher", "midpoint" or "nearest".
TANDEM_API Tensor quantile(const Tensor& self, double q, std::optional<int64_t> dim = {},
                           bool keepdim = false, std::string_view interpolation = "linear",
                           TANDEM_AT);
TANDEM_API Tensor quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim = {},
                           bool keepdim = false, std::string_view interpolation = "linear",
                           TANDEM_AT);
TANDEM_API Tensor nanquantile(const Tensor& self, double q, std::optional<int64_t> dim = {},
                              bool keepdim = false, std::string_view interpolation = "linear",
                              TANDEM_AT);
TANDEM_API Tensor nanquantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim = {},
                              bool keepdim = false, std::string_view interpolation = "linear",
                              TANDEM_AT);

// --- norms and statistics
/// The slices along `dim` of a greater p-norm than maxnorm scaled down to it.
TANDEM_API Tensor renorm(const Tensor& self, double p, int64_t dim, double maxnorm, TANDEM_AT);
/// The p-norm of self - other.
TANDEM_API Tensor dist(const Tensor& self, const Tensor& other, const Number& p = 2, TANDEM_AT);
/// Rows are variables, columns observations: `fweights` times each (integers), or weighed.
TANDEM_API Tensor cov(const Tensor& self, int64_t correction = 1, const Tensor& fweights = {},
                      const Tensor& aweights = {}, TANDEM_AT);
TANDEM_API Tensor corrcoef(const Tensor& self, TANDEM_AT);
namespace linalg {
/// The p-norm of the elements along dims, or of all; p may be 0 and infinite.
TANDEM_API Tensor vector_norm(const Tensor& self, const Number& ord = 2, const DimList& dims = {},
                              bool keepdim = false, TANDEM_AT);
/// Of the matrices in two dims: "fro", "nuc", or ord 1, -1 (sums of columns), infinite (of rows),
/// 2, -2 (singular values).
TANDEM_API Tensor matrix_norm(const Tensor& self, const Number& ord, const DimList& dims = {-2, -1},
                              bool keepdim = false, TANDEM_AT);
TANDEM_API Tensor matrix_norm_of_name(const Tensor& self, std::string_view ord, const DimList& dims,
                                      bool keepdim, const SourceLocation& at);
template <size_t N>
Tensor matrix_norm(const Tensor& self, const char (&ord)[N], const DimList& dims = {-2, -1},
                   bool keepdim = false, TANDEM_AT) {
  return matrix_norm_of_name(self, ord, dims, keepdim, at);
}
/// Of one or two `dims`, or of a vector or matrix: vector_norm or matrix_norm of this order.
/// Without one the 2-norm of all elements along `dims` (all).
TANDEM_API Tensor norm(const Tensor& self, const std::optional<Number>& ord = {},
                       const DimList& dims = {}, bool keepdim = false, TANDEM_AT);
TANDEM_API Tensor norm_of_name(const Tensor& self, std::string_view ord, const DimList& dims,
                               bool keepdim, const SourceLocation& at);
template <size_t N>
Tensor norm(const Tensor& self, const char (&ord)[N], const DimList& dims = {},
            bool keepdim = false, TANDEM_AT) {
  return linalg::norm_of_name(self, ord, dims, keepdim, at);
}
inline Tensor matrix_norm(const Tensor& self, TANDEM_AT) {
  return matrix_norm_of_name(self, "fro", {-2, -1}, false, at);
}
}  // namespace linalg

// --- counts
/// How many elements fall into each of `bins` equal parts of [min, max], or of what lies between
/// the extremes if both are 0.
TANDEM_API Tensor histc(const Tensor& self, int64_t bins = 100, double min = 0, double max = 0,
                        TANDEM_AT);
/// How many elements (or how much of their weight) each bin has. `bins`: a number of them, of one
/// width between the ends of `range` (of the data, if it is empty), or their edges. The last bin
/// has both its edges. density: by the number of elements and the bins' widths. No gradient flows.
struct HistogramOptions {
  std::vector<double> range = {};  // lowest and highest, of each dimension
  Tensor weight = {};
  bool density = false;
};
TANDEM_API Histogram histogram(const Tensor& self, Dim bins = 100,
                               const HistogramOptions& options = {}, TANDEM_AT);
TANDEM_API Histogram histogram(const Tensor& self, const Tensor& bins,
                               const HistogramOptions& options = {}, TANDEM_AT);
/// Of points [..., dimensions], with bins for each dimension.
TANDEM_API Histograms histogramdd(const Tensor& self, Dim bins,
                                  const HistogramOptions& options = {}, TANDEM_AT);
TANDEM_API Histograms histogramdd(const Tensor& self, const std::vector<Dim>& bins,
                                  const HistogramOptions& options = {}, TANDEM_AT);
TANDEM_API Histograms histogramdd(const Tensor& self, const std::vector<Tensor>& bins,
                                  const HistogramOptions& options = {}, TANDEM_AT);
/// How often each of 0, 1, ... appears (or the sum of its weights), at least `minlength` of them.
TANDEM_API Tensor bincount(const Tensor& self, const Tensor& weights = {}, int64_t minlength = 0,
                           TANDEM_AT);
/// Of 0 to size - 1; another number is an Error{Index} when it runs.
TANDEM_API Tensor bincount_static(const Tensor& self, Dim size, const Tensor& weights = {},
                                  TANDEM_AT);
/// The places of what is not zero, in row-major order: [n, dimensions]. (nonzero_static takes n.)
TANDEM_API Tensor nonzero(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor argwhere(const Tensor& self, TANDEM_AT);
/// The elements where mask is true, in row-major order.
TANDEM_API Tensor masked_select(const Tensor& self, const Tensor& mask, TANDEM_AT);
/// The first `size` of them; what is left over is `fill_value`.
TANDEM_API Tensor masked_select_static(const Tensor& self, const Tensor& mask, Dim size,
                                       const Number& fill_value = 0, TANDEM_AT);
/// Each element once, in ascending order (NaN each time), or each slice along `dim`.
TANDEM_API Unique unique(const Tensor& self, std::optional<int64_t> dim = {}, TANDEM_AT);
/// Without those that equal their predecessor.
TANDEM_API Unique unique_consecutive(const Tensor& self, std::optional<int64_t> dim = {},
                                     TANDEM_AT);
/// The first `size` of them: values and counts of what is left over are `fill_value` and 0. The
/// inverse also counts what does not fit.
TANDEM_API Unique unique_static(const Tensor& self, Dim size, std::optional<int64_t> dim = {},
                                const Number& fill_value = 0, TANDEM_AT);
TANDEM_API Unique unique_consecutive_static(const Tensor& self, Dim size,
                                            std::optional<int64_t> dim = {},
                                            const Number& fill_value = 0, TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_REDUCTIONS_H
