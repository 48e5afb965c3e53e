// Reductions, scans and sorts that write into given tensors.
#include "runtime/ops/out.h"

#include <tandem/ops/networks.h>
#include <tandem/ops/out_forms.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/sorting.h>

namespace tandem {

using runtime::write_each;
using runtime::write_out;

const Tensor& norm_out(const Tensor& out, const Tensor& self, const Number& p, const DimList& dims,
                       bool keepdim, SourceLocation at) {
  return write_out("norm_out", out, at, {}, [&] { return norm(self, p, dims, keepdim, at); });
}
const Tensor& nansum_out(const Tensor& out, const Tensor& self, const DimList& dims, bool keepdim,
                         SourceLocation at) {
  return write_out("nansum_out", out, at, {},
                   [&] { return nansum(self, dims, keepdim, out.dtype(), at); });
}
const Tensor& nanmean_out(const Tensor& out, const Tensor& self, const DimList& dims, bool keepdim,
                          SourceLocation at) {
  return write_out("nanmean_out", out, at, {},
                   [&] { return nanmean(self, dims, keepdim, out.dtype(), at); });
}
const Tensor& cumsum_out(const Tensor& out, const Tensor& self, int64_t dim, SourceLocation at) {
  return write_out("cumsum_out", out, at, {}, [&] { return cumsum(self, dim, out.dtype(), at); });
}
const Tensor& cumprod_out(const Tensor& out, const Tensor& self, int64_t dim, SourceLocation at) {
  return write_out("cumprod_out", out, at, {}, [&] { return cumprod(self, dim, out.dtype(), at); });
}
const Tensor& logcumsumexp_out(const Tensor& out, const Tensor& self, int64_t dim,
                               SourceLocation at) {
  return write_out("logcumsumexp_out", out, at, {}, [&] { return logcumsumexp(self, dim, at); });
}
const Tensor& diff_out(const Tensor& out, const Tensor& self, int64_t n, int64_t dim,
                       const Tensor& prepend, const Tensor& append, SourceLocation at) {
  return write_out("diff_out", out, at, {},
                   [&] { return diff(self, n, dim, prepend, append, at); });
}
const Tensor& histc_out(const Tensor& out, const Tensor& self, int64_t bins, double min, double max,
                        SourceLocation at) {
  return write_out("histc_out", out, at, {}, [&] { return histc(self, bins, min, max, at); });
}
const Tensor& nonzero_out(const Tensor& out, const Tensor& self, SourceLocation at) {
  return write_out("nonzero_out", out, at, {}, [&] { return nonzero(self, at); });
}
const Tensor& masked_select_out(const Tensor& out, const Tensor& self, const Tensor& mask,
                                SourceLocation at) {
  return write_out("masked_select_out", out, at, {}, [&] { return masked_select(self, mask, at); });
}
const Tensor& msort_out(const Tensor& out, const Tensor& self, SourceLocation at) {
  return write_out("msort_out", out, at, {}, [&] { return msort(self, at); });
}
const Tensor& argsort_out(const Tensor& out, const Tensor& self, int64_t dim, bool descending,
                          bool stable, SourceLocation at) {
  return write_out("argsort_out", out, at, {},
                   [&] { return argsort(self, dim, descending, stable, at); });
}
const Tensor& take_out(const Tensor& out, const Tensor& self, const Tensor& index,
                       SourceLocation at) {
  return write_out("take_out", out, at, {}, [&] { return take(self, index, at); });
}
const Tensor& take_along_dim_out(const Tensor& out, const Tensor& self, const Tensor& indices,
                                 std::optional<int64_t> dim, SourceLocation at) {
  return write_out("take_along_dim_out", out, at, {},
                   [&] { return take_along_dim(self, indices, dim, at); });
}

#define X(op)                                                                             \
  const Tensor& op##_out(const Tensor& out, const Tensor& self, const Tensor& other,      \
                         SourceLocation at) {                                             \
    return write_out(#op "_out", out, at, {}, [&] { return op(self, other, at); });       \
  }                                                                                       \
  ValuesAndIndices op##_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim, \
                            bool keepdim, SourceLocation at) {                            \
    return write_each(#op "_out", out, at, [&] { return op(self, dim, keepdim, at); });   \
  }
X(max)
X(min)
#undef X
#define X(op)                                                                        \
  const Tensor& op##_out(const Tensor& out, const Tensor& self, const DimList& dims, \
                         double correction, bool keepdim, SourceLocation at) {       \
    return write_out(#op "_out", out, at, {},                                        \
                     [&] { return op(self, dims, correction, keepdim, at); });       \
  }
X(var)
X(std)
#undef X
const Tensor& logsumexp_out(const Tensor& out, const Tensor& self, const DimList& dims,
                            bool keepdim, SourceLocation at) {
  return write_out("logsumexp_out", out, at, {},
                   [&] { return logsumexp(self, dims, keepdim, at); });
}
const Tensor& nan_to_num_out(const Tensor& out, const Tensor& self, double nan,
                             std::optional<double> posinf, std::optional<double> neginf,
                             SourceLocation at) {
  return write_out("nan_to_num_out", out, at, {},
                   [&] { return nan_to_num(self, nan, posinf, neginf, at); });
}
#define X(op, Q)                                                                                 \
  const Tensor& op##_out(const Tensor& out, const Tensor& self, Q q, std::optional<int64_t> dim, \
                         bool keepdim, std::string_view interpolation, SourceLocation at) {      \
    return write_out(#op "_out", out, at, {},                                                    \
                     [&] { return op(self, q, dim, keepdim, interpolation, at); });              \
  }
X(quantile, double)
X(quantile, const Tensor&)
X(nanquantile, double)
X(nanquantile, const Tensor&)
#undef X
const Tensor& searchsorted_out(const Tensor& out, const Tensor& sorted_sequence,
                               const Located& self, const SearchOptions& options) {
  return write_out("searchsorted_out", out, self.location, {},
                   [&] { return searchsorted(sorted_sequence, self, options); });
}
const Tensor& bucketize_out(const Tensor& out, const Located& self, const Tensor& boundaries,
                            const SearchOptions& options) {
  return write_out("bucketize_out", out, self.location, {},
                   [&] { return bucketize(self, boundaries, options); });
}
const Tensor& renorm_out(const Tensor& out, const Tensor& self, double p, int64_t dim,
                         double maxnorm, SourceLocation at) {
  return write_out("renorm_out", out, at, {}, [&] { return renorm(self, p, dim, maxnorm, at); });
}
MinMax aminmax_out(const MinMax& out, const Tensor& self, std::optional<int64_t> dim, bool keepdim,
                   SourceLocation at) {
  return write_each("aminmax_out", out, at, [&] { return self.aminmax(dim, keepdim, at); });
}

ValuesAndIndices cummax_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                            SourceLocation at) {
  return write_each("cummax_out", out, at, [&] { return cummax(self, dim, at); });
}
ValuesAndIndices cummin_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                            SourceLocation at) {
  return write_each("cummin_out", out, at, [&] { return cummin(self, dim, at); });
}
ValuesAndIndices median_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                            bool keepdim, SourceLocation at) {
  return write_each("median_out", out, at, [&] { return median(self, dim, keepdim, at); });
}
ValuesAndIndices nanmedian_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                               bool keepdim, SourceLocation at) {
  return write_each("nanmedian_out", out, at, [&] { return nanmedian(self, dim, keepdim, at); });
}
ValuesAndIndices mode_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                          bool keepdim, SourceLocation at) {
  return write_each("mode_out", out, at, [&] { return mode(self, dim, keepdim, at); });
}
ValuesAndIndices sort_out(const ValuesAndIndices& out, const Tensor& self, int64_t dim,
                          bool descending, bool stable, SourceLocation at) {
  return write_each("sort_out", out, at, [&] { return sort(self, dim, descending, stable, at); });
}
ValuesAndIndices topk_out(const ValuesAndIndices& out, const Tensor& self, Dim k, int64_t dim,
                          bool largest, bool sorted, SourceLocation at) {
  return write_each("topk_out", out, at, [&] { return topk(self, k, dim, largest, sorted, at); });
}
ValuesAndIndices kthvalue_out(const ValuesAndIndices& out, const Tensor& self, Dim k, int64_t dim,
                              bool keepdim, SourceLocation at) {
  return write_each("kthvalue_out", out, at, [&] { return kthvalue(self, k, dim, keepdim, at); });
}

}  // namespace tandem
