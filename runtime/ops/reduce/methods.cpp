// Reductions, scans and sorts as methods.
#include <tandem/ops/reductions.h>
#include <tandem/ops/sorting.h>

namespace tandem {

Tensor Tensor::nansum(const DimList& dims, bool keepdim, std::optional<DType> dtype,
                      SourceLocation at) const {
  return tandem::nansum(*this, dims, keepdim, dtype, at);
}
Tensor Tensor::nanmean(const DimList& dims, bool keepdim, std::optional<DType> dtype,
                       SourceLocation at) const {
  return tandem::nanmean(*this, dims, keepdim, dtype, at);
}
Tensor Tensor::count_nonzero(const DimList& dims, SourceLocation at) const {
  return tandem::count_nonzero(*this, dims, at);
}
Tensor Tensor::max(const Tensor& other, SourceLocation at) const {
  return tandem::max(*this, other, at);
}
Tensor Tensor::min(const Tensor& other, SourceLocation at) const {
  return tandem::min(*this, other, at);
}
Tensor Tensor::sum_to_size(const Shape& sizes, SourceLocation at) const {
  return tandem::sum_to_size(*this, sizes, at);
}
Tensor Tensor::trace(SourceLocation at) const { return tandem::trace(*this, at); }
Tensor Tensor::cumsum(int64_t dim, std::optional<DType> dtype, SourceLocation at) const {
  return tandem::cumsum(*this, dim, dtype, at);
}
Tensor Tensor::cumprod(int64_t dim, std::optional<DType> dtype, SourceLocation at) const {
  return tandem::cumprod(*this, dim, dtype, at);
}
Tensor Tensor::logcumsumexp(int64_t dim, SourceLocation at) const {
  return tandem::logcumsumexp(*this, dim, at);
}
ValuesAndIndices Tensor::cummax(int64_t dim, SourceLocation at) const {
  return tandem::cummax(*this, dim, at);
}
ValuesAndIndices Tensor::cummin(int64_t dim, SourceLocation at) const {
  return tandem::cummin(*this, dim, at);
}
Tensor Tensor::diff(int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append,
                    SourceLocation at) const {
  return tandem::diff(*this, n, dim, prepend, append, at);
}
Tensor Tensor::median(SourceLocation at) const { return tandem::median(*this, at); }
Tensor Tensor::nanmedian(SourceLocation at) const { return tandem::nanmedian(*this, at); }
ValuesAndIndices Tensor::median(int64_t dim, bool keepdim, SourceLocation at) const {
  return tandem::median(*this, dim, keepdim, at);
}
ValuesAndIndices Tensor::nanmedian(int64_t dim, bool keepdim, SourceLocation at) const {
  return tandem::nanmedian(*this, dim, keepdim, at);
}
ValuesAndIndices Tensor::mode(int64_t dim, bool keepdim, SourceLocation at) const {
  return tandem::mode(*this, dim, keepdim, at);
}
Tensor Tensor::quantile(double q, std::optional<int64_t> dim, bool keepdim,
                        std::string_view interpolation, SourceLocation at) const {
  return tandem::quantile(*this, q, dim, keepdim, interpolation, at);
}
Tensor Tensor::quantile(const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                        std::string_view interpolation, SourceLocation at) const {
  return tandem::quantile(*this, q, dim, keepdim, interpolation, at);
}
Tensor Tensor::nanquantile(double q, std::optional<int64_t> dim, bool keepdim,
                           std::string_view interpolation, SourceLocation at) const {
  return tandem::nanquantile(*this, q, dim, keepdim, interpolation, at);
}
Tensor Tensor::nanquantile(const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                           std::string_view interpolation, SourceLocation at) const {
  return tandem::nanquantile(*this, q, dim, keepdim, interpolation, at);
}
Tensor Tensor::dist(const Tensor& other, const Number& p, SourceLocation at) const {
  return tandem::dist(*this, other, p, at);
}
Tensor Tensor::cov(int64_t correction, const Tensor& fweights, const Tensor& aweights,
                   SourceLocation at) const {
  return tandem::cov(*this, correction, fweights, aweights, at);
}
Tensor Tensor::corrcoef(SourceLocation at) const { return tandem::corrcoef(*this, at); }
Tensor Tensor::histc(int64_t bins, double min, double max, SourceLocation at) const {
  return tandem::histc(*this, bins, min, max, at);
}
Tensor Tensor::bincount(const Tensor& weights, int64_t minlength, SourceLocation at) const {
  return tandem::bincount(*this, weights, minlength, at);
}
Tensor Tensor::nonzero(SourceLocation at) const { return tandem::nonzero(*this, at); }
Tensor Tensor::argwhere(SourceLocation at) const { return tandem::argwhere(*this, at); }
Tensor Tensor::masked_select(const Tensor& mask, SourceLocation at) const {
  return tandem::masked_select(*this, mask, at);
}
Unique Tensor::unique(std::optional<int64_t> dim, SourceLocation at) const {
  return tandem::unique(*this, dim, at);
}
Unique Tensor::unique_consecutive(std::optional<int64_t> dim, SourceLocation at) const {
  return tandem::unique_consecutive(*this, dim, at);
}
ValuesAndIndices Tensor::sort(int64_t dim, bool descending, bool stable, SourceLocation at) const {
  return tandem::sort(*this, dim, descending, stable, at);
}
Tensor Tensor::argsort(int64_t dim, bool descending, bool stable, SourceLocation at) const {
  return tandem::argsort(*this, dim, descending, stable, at);
}
Tensor Tensor::msort(SourceLocation at) const { return tandem::msort(*this, at); }
ValuesAndIndices Tensor::topk(Dim k, int64_t dim, bool largest, bool sorted,
                              SourceLocation at) const {
  return tandem::topk(*this, k, dim, largest, sorted, at);
}
ValuesAndIndices Tensor::kthvalue(Dim k, int64_t dim, bool keepdim, SourceLocation at) const {
  return tandem::kthvalue(*this, k, dim, keepdim, at);
}
Tensor Tensor::take(const Tensor& index, SourceLocation at) const {
  return tandem::take(*this, index, at);
}
Tensor Tensor::take_along_dim(const Tensor& indices, std::optional<int64_t> dim,
                              SourceLocation at) const {
  return tandem::take_along_dim(*this, indices, dim, at);
}
Tensor Tensor::put(const Tensor& index, const Tensor& source, bool accumulate,
                   SourceLocation at) const {
  return tandem::put(*this, index, source, accumulate, at);
}
Tensor Tensor::bernoulli(SourceLocation at) const { return tandem::bernoulli(*this, at); }
Tensor Tensor::bernoulli(double p, SourceLocation at) const {
  return tandem::bernoulli(*this, p, at);
}
Tensor Tensor::multinomial(Dim num_samples, bool replacement, SourceLocation at) const {
  return tandem::multinomial(*this, num_samples, replacement, at);
}

Tensor Tensor::norm(const Number& p, const DimList& dims, bool keepdim, SourceLocation at) const {
  return tandem::norm(*this, p, dims, keepdim, at);
}
}  // namespace tandem
