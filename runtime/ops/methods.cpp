// Methods that are nothing but their function.
#include <tandem/ops/shapes.h>

namespace tandem {

// --- pointwise with parameters

Tensor Tensor::clamp_min(const Located& min) const {
  return tandem::clamp_min(Located(*this, min.location), min);
}
Tensor Tensor::clamp_max(const Located& max) const {
  return tandem::clamp_max(Located(*this, max.location), max);
}
Tensor Tensor::addcmul(const Tensor& tensor1, const Tensor& tensor2, const Located& value) const {
  return tandem::addcmul(*this, tensor1, tensor2, value);
}
Tensor Tensor::addcdiv(const Tensor& tensor1, const Tensor& tensor2, const Located& value) const {
  return tandem::addcdiv(*this, tensor1, tensor2, value);
}
Tensor Tensor::leaky_relu(double negative_slope, SourceLocation at) const {
  return tandem::leaky_relu(*this, negative_slope, at);
}
Tensor Tensor::elu(double alpha, SourceLocation at) const { return tandem::elu(*this, alpha, at); }
Tensor Tensor::celu(double alpha, SourceLocation at) const {
  return tandem::celu(*this, alpha, at);
}
Tensor Tensor::gelu(std::string_view approximate, SourceLocation at) const {
  return tandem::gelu(*this, approximate, at);
}
Tensor Tensor::softplus(double beta, double threshold, SourceLocation at) const {
  return tandem::softplus(*this, beta, threshold, at);
}
Tensor Tensor::hardtanh(const Number& min, const Number& max, SourceLocation at) const {
  return tandem::hardtanh(*this, min, max, at);
}
Tensor Tensor::nan_to_num(double nan, std::optional<double> posinf, std::optional<double> neginf,
                          SourceLocation at) const {
  return tandem::nan_to_num(*this, nan, posinf, neginf, at);
}
Tensor Tensor::addmm(const Tensor& mat1, const Tensor& mat2, SourceLocation at) const {
  return tandem::addmm(*this, mat1, mat2, at);
}

// --- views

Tensor Tensor::reshape_as(const Tensor& other, SourceLocation at) const {
  return tandem::reshape_as(*this, other, at);
}
std::vector<Tensor> Tensor::tensor_split(const std::vector<Dim>& indices, int64_t dim,
                                         SourceLocation at) const {
  return tandem::tensor_split(*this, indices, dim, at);
}
Tensor Tensor::real(SourceLocation at) const { return tandem::real(*this, at); }
Tensor Tensor::imag(SourceLocation at) const { return tandem::imag(*this, at); }
Tensor Tensor::slice_scatter(const Tensor& src, int64_t dim, std::optional<Dim> start,
                             std::optional<Dim> end, Dim step, SourceLocation at) const {
  return tandem::slice_scatter(*this, src, dim, start, end, step, at);
}
Tensor Tensor::select_scatter(const Tensor& src, int64_t dim, Dim index, SourceLocation at) const {
  return tandem::select_scatter(*this, src, dim, index, at);
}
Tensor Tensor::diagonal_scatter(const Tensor& src, Dim offset, int64_t dim0, int64_t dim1,
                                SourceLocation at) const {
  return tandem::diagonal_scatter(*this, src, offset, dim0, dim1, at);
}
Tensor Tensor::as_strided_scatter(const Tensor& src, const Shape& sizes, const Strides& strides,
                                  Dim storage_offset, SourceLocation at) const {
  return tandem::as_strided_scatter(*this, src, sizes, strides, storage_offset, at);
}

// --- index

Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& src,
                         SourceLocation at) const {
  return tandem::index_add(*this, dim, index, src, at);
}
Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& src,
                           SourceLocation at) const {
  return tandem::scatter_add(*this, dim, index, src, at);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Located& src) const {
  return tandem::scatter(*this, dim, index, src);
}
Tensor Tensor::index_copy(int64_t dim, const Tensor& index, const Tensor& src,
                          SourceLocation at) const {
  return tandem::index_copy(*this, dim, index, src, at);
}
Tensor Tensor::index_fill(int64_t dim, const Tensor& index, const Located& value) const {
  return tandem::index_fill(*this, dim, index, value);
}
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& src, SourceLocation at) const {
  return tandem::masked_scatter(*this, mask, src, at);
}

// --- more views, repetitions and places

Tensor Tensor::adjoint(SourceLocation at) const { return tandem::adjoint(*this, at); }
Tensor Tensor::swapdims(int64_t dim0, int64_t dim1, SourceLocation at) const {
  return tandem::swapdims(*this, dim0, dim1, at);
}
Tensor Tensor::moveaxis(const DimList& source, const DimList& destination,
                        SourceLocation at) const {
  return tandem::moveaxis(*this, source, destination, at);
}
Tensor Tensor::roll(const DimList& shifts, const DimList& dims, SourceLocation at) const {
  return tandem::roll(*this, shifts, dims, at);
}
Tensor Tensor::fliplr(SourceLocation at) const { return tandem::fliplr(*this, at); }
Tensor Tensor::flipud(SourceLocation at) const { return tandem::flipud(*this, at); }
Tensor Tensor::rot90(int64_t k, const DimList& dims, SourceLocation at) const {
  return tandem::rot90(*this, k, dims, at);
}
Tensor Tensor::repeat(const Shape& repeats, SourceLocation at) const {
  return tandem::repeat(*this, repeats, at);
}
Tensor Tensor::tile(const Shape& repeats, SourceLocation at) const {
  return tandem::tile(*this, repeats, at);
}
Tensor Tensor::repeat_interleave(Dim repeats, std::optional<int64_t> dim, SourceLocation at) const {
  return tandem::repeat_interleave(*this, repeats, dim, at);
}
Tensor Tensor::repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim,
                                 std::optional<Dim> output_size, SourceLocation at) const {
  return tandem::repeat_interleave(*this, repeats, dim, output_size, at);
}
Tensor Tensor::diag(Dim diagonal, SourceLocation at) const {
  return tandem::diag(*this, diagonal, at);
}
Tensor Tensor::diag_embed(Dim offset, int64_t dim1, int64_t dim2, SourceLocation at) const {
  return tandem::diag_embed(*this, offset, dim1, dim2, at);
}
Tensor Tensor::diagflat(Dim offset, SourceLocation at) const {
  return tandem::diagflat(*this, offset, at);
}

// --- factories

Tensor Tensor::new_empty(const Shape& sizes, std::optional<DType> dtype, SourceLocation at) const {
  return tandem::empty(sizes, dtype.value_or(this->dtype()), at);
}
Tensor Tensor::new_full(const Shape& sizes, const Number& value, std::optional<DType> dtype,
                        SourceLocation at) const {
  return tandem::full(sizes, value, dtype.value_or(this->dtype()), at);
}
Tensor Tensor::new_zeros(const Shape& sizes, std::optional<DType> dtype, SourceLocation at) const {
  return tandem::zeros(sizes, dtype.value_or(this->dtype()), at);
}
Tensor Tensor::new_ones(const Shape& sizes, std::optional<DType> dtype, SourceLocation at) const {
  return tandem::ones(sizes, dtype.value_or(this->dtype()), at);
}

}  // namespace tandem
