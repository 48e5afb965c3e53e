// The operations as free functions, named and defined as in ATen. Outside a trace they run at once,
// inside they are recorded; the same ones are methods of Tensor. Operands promote and broadcast.
// Dimensions may be negative. The trailing parameter is the place of the call: leave it out.
#ifndef TANDEM_OPS_H
#define TANDEM_OPS_H

#include <tandem/autograd.h>
#include <tandem/indexing.h>
#include <tandem/results.h>
#include <tandem/scalar.h>
#include <tandem/tensor.h>

#include <string_view>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

// --- factories
TANDEM_API Tensor empty(const Shape& sizes, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor full(const Shape& sizes, const Number& value, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor zeros(const Shape& sizes, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor ones(const Shape& sizes, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor empty_like(const Tensor& like, std::optional<DType> dtype = {}, TANDEM_AT);
TANDEM_API Tensor full_like(const Tensor& like, const Number& value,
                            std::optional<DType> dtype = {}, TANDEM_AT);
TANDEM_API Tensor zeros_like(const Tensor& like, std::optional<DType> dtype = {}, TANDEM_AT);
TANDEM_API Tensor ones_like(const Tensor& like, std::optional<DType> dtype = {}, TANDEM_AT);
/// [0, end), i64 unless a number is floating (then f32) or `dtype` is given.
TANDEM_API Tensor arange(const Number& end, std::optional<DType> dtype = {}, TANDEM_AT);
TANDEM_API Tensor arange(const Number& start, const Number& end, const Number& step = 1,
                         std::optional<DType> dtype = {}, TANDEM_AT);
/// The identity matrix [n, n] or [n, m].
TANDEM_API Tensor eye(Dim n, std::optional<Dim> m = {}, DType dtype = f32, TANDEM_AT);
/// A 0-d tensor.
TANDEM_API Tensor tensor(const Number& value, std::optional<DType> dtype = {});
/// One dimension of numbers: f32 if one is floating, else i64, or bool.
TANDEM_API Tensor tensor(std::initializer_list<Number> values, std::optional<DType> dtype = {});
TANDEM_API Tensor tensor(std::initializer_list<std::initializer_list<Number>> rows,
                         std::optional<DType> dtype = {});
/// A copy of row-major `values`, stored as `dtype`.
TANDEM_API Tensor from_numbers(std::span<const Number> values, const Shape& sizes, DType dtype);
/// A copy of row-major elements of type T.
template <class T>
Tensor from_data(std::span<const T> values, const Shape& sizes);
template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& sizes) {
  return from_data(std::span<const T>(values.data(), values.size()), sizes);
}
/// A tensor over foreign memory, which `deleter` frees when the last tensor is gone. `strides` in
/// elements. Writing a read-only one is an Error{Mutation}.
TANDEM_API Tensor from_blob(void* data, const Shape& sizes, const Strides& strides, DType dtype,
                            std::function<void(void*)> deleter = {}, bool read_only = false);

// --- random; the same seed gives the same bits, eager or compiled
TANDEM_API void manual_seed(uint64_t seed);
TANDEM_API Tensor rand(const Shape& sizes, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor randn(const Shape& sizes, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor rand_like(const Tensor& like, std::optional<DType> dtype = {}, TANDEM_AT);
TANDEM_API Tensor randn_like(const Tensor& like, std::optional<DType> dtype = {}, TANDEM_AT);
/// Integers in [low, high).
TANDEM_API Tensor randint(int64_t low, int64_t high, const Shape& sizes, DType dtype = i64,
                          TANDEM_AT);
/// Zeros elements with probability p and scales the others by 1 / (1 - p); the identity outside
/// training.
TANDEM_API Tensor dropout(const Tensor& self, double p = 0.5, bool training = true, TANDEM_AT);
TANDEM_API const Tensor& dropout_(const Tensor& self, double p = 0.5, bool training = true,
                                  TANDEM_AT);

// --- pointwise
#define X(op) TANDEM_API Tensor op(const Tensor& self, TANDEM_AT);
TANDEM_UNARY_IN_PLACE_OPS(X)
TANDEM_UNARY_OPS(X)
TANDEM_MADE_UNARY_IN_PLACE(X)
TANDEM_MADE_UNARY(X)
#undef X
#define X(op) TANDEM_API Tensor op(const Located& self, const Located& other);
TANDEM_BINARY_IN_PLACE_OPS(X)
TANDEM_BINARY_OPS(X)
TANDEM_MADE_BINARY_IN_PLACE(X)
TANDEM_MADE_BINARY(X)
#undef X
#define X(name, op) TANDEM_API Tensor name(const Tensor& self, TANDEM_AT);
TANDEM_UNARY_ALIASES(X)
#undef X
#define X(name, op) TANDEM_API Tensor name(const Located& self, const Located& other);
TANDEM_BINARY_ALIASES(X)
#undef X
/// self + alpha * other; self - alpha * other; other - alpha * self.
TANDEM_API Tensor add(const Located& self, const Located& other, const Number& alpha);
TANDEM_API Tensor sub(const Located& self, const Located& other, const Number& alpha);
TANDEM_API Tensor rsub(const Located& self, const Located& other, const Number& alpha = 1);
/// Rounded as `rounding_mode` says, "trunc" or "floor": of integers an integer.
TANDEM_API Tensor div(const Located& self, const Located& other, std::string_view rounding_mode);
TANDEM_API Tensor divide(const Located& self, const Located& other, std::string_view rounding_mode);
/// To `decimals` places after the point, or before it.
TANDEM_API Tensor round(const Tensor& self, int64_t decimals, TANDEM_AT);
/// Of self clamped to [eps, 1 - eps].
TANDEM_API Tensor logit(const Tensor& self, double eps, TANDEM_AT);
/// As mantissa and exponent; of 0, infinite and NaN itself and 0.
TANDEM_API MantissaAndExponent frexp(const Tensor& self, TANDEM_AT);
/// self itself.
TANDEM_API Tensor positive(const Tensor& self, TANDEM_AT);
/// The n-th derivative of digamma.
TANDEM_API Tensor polygamma(int64_t n, const Tensor& self, TANDEM_AT);
/// The logarithm of the multivariate gamma function of dimension p.
TANDEM_API Tensor mvlgamma(const Tensor& self, int64_t p, TANDEM_AT);
/// |self - other| <= atol + rtol * |other|, by element.
TANDEM_API Tensor isclose(const Tensor& self, const Tensor& other, double rtol = 1e-5,
                          double atol = 1e-8, bool equal_nan = false, TANDEM_AT);
/// Whether all elements are close. Looks at the elements: not inside a trace.
TANDEM_API bool allclose(const Tensor& self, const Tensor& other, double rtol = 1e-5,
                         double atol = 1e-8, bool equal_nan = false, TANDEM_AT);
/// Whether sizes and elements are equal; NaN equals nothing. Not inside a trace.
TANDEM_API bool equal(const Tensor& self, const Tensor& other, TANDEM_AT);
TANDEM_API Tensor leaky_relu(const Tensor& self, double negative_slope = 0.01, TANDEM_AT);
TANDEM_API Tensor elu(const Tensor& self, double alpha = 1, TANDEM_AT);
TANDEM_API Tensor celu(const Tensor& self, double alpha = 1, TANDEM_AT);
TANDEM_API Tensor gelu(const Tensor& self, std::string_view approximate = "none", TANDEM_AT);
TANDEM_API Tensor softplus(const Tensor& self, double beta = 1, double threshold = 20, TANDEM_AT);
TANDEM_API Tensor hardtanh(const Tensor& self, const Number& min = -1, const Number& max = 1,
                           TANDEM_AT);
TANDEM_API Tensor clamp(const Tensor& self, std::optional<Number> min,
                        std::optional<Number> max = {}, TANDEM_AT);
/// By element; a bound may be undefined. max where min is above it.
TANDEM_API Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max = {}, TANDEM_AT);
TANDEM_API Tensor clip(const Tensor& self, std::optional<Number> min,
                       std::optional<Number> max = {}, TANDEM_AT);
TANDEM_API Tensor clip(const Tensor& self, const Tensor& min, const Tensor& max = {}, TANDEM_AT);
TANDEM_API Tensor clamp_min(const Located& self, const Located& min);
TANDEM_API Tensor clamp_max(const Located& self, const Located& max);
TANDEM_API Tensor hardshrink(const Tensor& self, double lambd = 0.5, TANDEM_AT);
TANDEM_API Tensor softshrink(const Tensor& self, double lambd = 0.5, TANDEM_AT);
TANDEM_API Tensor tanhshrink(const Tensor& self, TANDEM_AT);
/// `value` where self <= threshold.
TANDEM_API Tensor threshold(const Tensor& self, const Number& threshold, const Number& value,
                            TANDEM_AT);
/// self * weight where self < 0: one weight, or one for each of self's channels, dimension 1.
TANDEM_API Tensor prelu(const Tensor& self, const Tensor& weight, TANDEM_AT);
/// leaky_relu with a slope between lower and upper: their mean, in training drawn by element.
TANDEM_API Tensor rrelu(const Tensor& self, double lower = 1.0 / 8, double upper = 1.0 / 3,
                        bool training = false, TANDEM_AT);
/// The first half along dim times the sigmoid of the second.
TANDEM_API Tensor glu(const Tensor& self, int64_t dim = -1, TANDEM_AT);
TANDEM_API Tensor softmin(const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API Tensor softmin(const Tensor& self, int64_t dim, DType dtype, TANDEM_AT);
TANDEM_API Tensor where(const Tensor& condition, const Located& self, const Located& other);
TANDEM_API Tensor lerp(const Tensor& self, const Tensor& end, const Located& weight);
/// self + value * tensor1 * tensor2.
TANDEM_API Tensor addcmul(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                          const Located& value = 1);
/// self + value * tensor1 / tensor2.
TANDEM_API Tensor addcdiv(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                          const Located& value = 1);
TANDEM_API Tensor nan_to_num(const Tensor& self, double nan = 0, std::optional<double> posinf = {},
                             std::optional<double> neginf = {}, TANDEM_AT);
TANDEM_API Tensor masked_fill(const Tensor& self, const Tensor& mask, const Located& value);
TANDEM_API Tensor tril(const Tensor& self, Dim diagonal = 0, TANDEM_AT);
TANDEM_API Tensor triu(const Tensor& self, Dim diagonal = 0, TANDEM_AT);
TANDEM_API Tensor to(const Tensor& self, DType dtype, TANDEM_AT);
/// A copy without gaps, its dimensions in the order in which self's lie in memory.
TANDEM_API Tensor clone(const Tensor& self, TANDEM_AT);

// --- reductions; no dims means all; a dtype is what self is converted to first, and the result's
TANDEM_API Tensor sum(const Tensor& self, const DimList& dims, bool keepdim, DType dtype,
                      TANDEM_AT);
TANDEM_API Tensor sum(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                      TANDEM_AT);
TANDEM_API Tensor prod(const Tensor& self, const DimList& dims, bool keepdim, DType dtype,
                       TANDEM_AT);
TANDEM_API Tensor prod(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                       TANDEM_AT);
TANDEM_API Tensor mean(const Tensor& self, const DimList& dims, bool keepdim, DType dtype,
                       TANDEM_AT);
TANDEM_API Tensor mean(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                       TANDEM_AT);
TANDEM_API Tensor amax(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                       TANDEM_AT);
TANDEM_API Tensor amin(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                       TANDEM_AT);
TANDEM_API Tensor any(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                      TANDEM_AT);
TANDEM_API Tensor all(const Tensor& self, const DimList& dims = {}, bool keepdim = false,
                      TANDEM_AT);
TANDEM_API Tensor var(const Tensor& self, const DimList& dims = {}, double correction = 1,
                      bool keepdim = false, TANDEM_AT);
/// (Where names of tandem are used without `tandem::`, write x.std(): `std` alone is a namespace.)
TANDEM_API Tensor std(const Tensor& self, const DimList& dims = {}, double correction = 1,
                      bool keepdim = false, TANDEM_AT);
TANDEM_API VarMean var_mean(const Tensor& self, const DimList& dims = {}, double correction = 1,
                            bool keepdim = false, TANDEM_AT);
TANDEM_API StdMean std_mean(const Tensor& self, const DimList& dims = {}, double correction = 1,
                            bool keepdim = false, TANDEM_AT);
TANDEM_API Tensor logsumexp(const Tensor& self, const DimList& dims, bool keepdim = false,
                            TANDEM_AT);
/// The square root of the sum of squares of all elements, 0-d.
TANDEM_API Tensor norm(const Tensor& self, TANDEM_AT);
/// The p-norm along dims, or of all elements; p may be 0, infinite, or "fro": 2.
TANDEM_API Tensor norm(const Tensor& self, const Number& p, const DimList& dims = {},
                       bool keepdim = false, TANDEM_AT);
/// (A template: text is a truth value too, and 0 a null pointer, so that a Number would be as
/// near.)
TANDEM_API Tensor norm_of_name(const Tensor& self, std::string_view p, const DimList& dims,
                               bool keepdim, const SourceLocation& at);
template <size_t N>
Tensor norm(const Tensor& self, const char (&p)[N], const DimList& dims = {}, bool keepdim = false,
            TANDEM_AT) {
  return norm_of_name(self, p, dims, keepdim, at);
}
TANDEM_API Tensor softmax(const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API Tensor softmax(const Tensor& self, int64_t dim, DType dtype, TANDEM_AT);
TANDEM_API Tensor log_softmax(const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API Tensor log_softmax(const Tensor& self, int64_t dim, DType dtype, TANDEM_AT);
/// Over all elements, 0-d.
TANDEM_API Tensor max(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor min(const Tensor& self, TANDEM_AT);
/// Along one dimension. (The gradient goes to the element that the index names.)
TANDEM_API ValuesAndIndices max(const Tensor& self, int64_t dim, bool keepdim = false, TANDEM_AT);
TANDEM_API ValuesAndIndices min(const Tensor& self, int64_t dim, bool keepdim = false, TANDEM_AT);
/// Along one dimension, or over all elements.
TANDEM_API MinMax aminmax(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false,
                          TANDEM_AT);
/// Without a dimension: the position among all elements in row-major order.
TANDEM_API Tensor argmax(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false,
                         TANDEM_AT);
TANDEM_API Tensor argmin(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false,
                         TANDEM_AT);
/// Over the trailing dimensions `normalized_shape`; weight and bias, if defined, have these sizes.
TANDEM_API Tensor layer_norm(const Tensor& self, const Shape& normalized_shape,
                             const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                             TANDEM_AT);
/// The same with what it computed on the way, 1 in the normalized dimensions.
TANDEM_API NormAndStatistics native_layer_norm(const Tensor& self, const Shape& normalized_shape,
                                               const Tensor& weight, const Tensor& bias, double eps,
                                               TANDEM_AT);

// --- losses; reduction: "none", "mean" or "sum"
/// logits [n, c, d...] and labels [n, d...] (i64), or [c] and a 0-d label. Labels of ignore_index
/// count for nothing. Or the target is floating and of the logits' sizes: the probability of each
/// class.
TANDEM_API Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                                std::string_view reduction = "mean", int64_t ignore_index = -100,
                                double label_smoothing = 0, TANDEM_AT);
/// log-probabilities [n, c, d...] and labels [n, d...] (i64), or [c] and one label. Labels of
/// ignore_index count for nothing.
TANDEM_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                           std::string_view reduction = "mean", int64_t ignore_index = -100,
                           TANDEM_AT);
TANDEM_API Tensor mse_loss(const Tensor& input, const Tensor& target,
                           std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor l1_loss(const Tensor& input, const Tensor& target,
                          std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                                   std::string_view reduction = "mean", TANDEM_AT);

// --- contractions
TANDEM_API Tensor matmul(const Tensor& self, const Tensor& other, TANDEM_AT);
TANDEM_API Tensor mm(const Tensor& self, const Tensor& mat2, TANDEM_AT);
TANDEM_API Tensor bmm(const Tensor& self, const Tensor& mat2, TANDEM_AT);
/// self + mat1 @ mat2; self broadcasts.
TANDEM_API Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, TANDEM_AT);
/// x @ weight^T + bias; weight [out, in], bias [out] or undefined.
TANDEM_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, TANDEM_AT);
/// query [..., t, d], key [..., s, d], value [..., s, e], broadcast in ...; mask: true to attend,
/// or added to the scores; zeros for a row that attends to nothing; scale 1 / sqrt(d) if left out.
TANDEM_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                               const Tensor& value, const Tensor& mask = {},
                                               bool is_causal = false,
                                               std::optional<double> scale = {}, TANDEM_AT);

// --- views: the result shares storage with `self`
/// One size may be -1. Error{Shape} if the strides do not allow it; reshape then copies.
TANDEM_API Tensor view(const Tensor& self, const Shape& sizes, TANDEM_AT);
TANDEM_API Tensor reshape(const Tensor& self, const Shape& sizes, TANDEM_AT);
TANDEM_API Tensor permute(const Tensor& self, const DimList& dims, TANDEM_AT);
TANDEM_API Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1, TANDEM_AT);
/// -1 keeps a size.
TANDEM_API Tensor expand(const Tensor& self, const Shape& sizes, TANDEM_AT);
/// Python's self[..., start:end:step, ...] along dim.
TANDEM_API Tensor slice(const Tensor& self, int64_t dim, std::optional<Dim> start = {},
                        std::optional<Dim> end = {}, Dim step = 1, TANDEM_AT);
TANDEM_API Tensor select(const Tensor& self, int64_t dim, Dim index, TANDEM_AT);
/// Without those of `dims` (of all dimensions if it is left out) whose size is 1.
TANDEM_API Tensor squeeze(const Tensor& self, const DimList& dims = DimList::every(), TANDEM_AT);
TANDEM_API Tensor unsqueeze(const Tensor& self, int64_t dim, TANDEM_AT);
TANDEM_API Tensor flatten(const Tensor& self, int64_t start_dim = 0, int64_t end_dim = -1,
                          TANDEM_AT);
TANDEM_API Tensor diagonal(const Tensor& self, Dim offset = 0, int64_t dim0 = 0, int64_t dim1 = 1,
                           TANDEM_AT);
/// Any strided view of the memory that `self` lies in: `storage_offset` counts from its start, in
/// elements, and is self's own if left out. The gradient goes to what self, or the tensor that it
/// is a view of, shows of that memory. Error{Index} for what lies outside of it.
TANDEM_API Tensor as_strided(const Tensor& self, const Shape& sizes, const Strides& strides,
                             std::optional<Dim> storage_offset = {}, TANDEM_AT);
/// The memory as elements of another dtype: the last size changes with the bytes of an element.
/// No gradient flows through it.
TANDEM_API Tensor view(const Tensor& self, DType dtype, TANDEM_AT);
TANDEM_API Tensor view_as(const Tensor& self, const Tensor& other, TANDEM_AT);
TANDEM_API Tensor reshape_as(const Tensor& self, const Tensor& other, TANDEM_AT);
TANDEM_API Tensor expand_as(const Tensor& self, const Tensor& other, TANDEM_AT);
TANDEM_API Tensor broadcast_to(const Tensor& self, const Shape& sizes, TANDEM_AT);
TANDEM_API Tensor alias(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor detach(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor narrow(const Tensor& self, int64_t dim, Dim start, Dim length, TANDEM_AT);
/// The dimensions `source` at the places `destination`, the others in their order.
TANDEM_API Tensor movedim(const Tensor& self, const DimList& source, const DimList& destination,
                          TANDEM_AT);
TANDEM_API Tensor swapaxes(const Tensor& self, int64_t dim0, int64_t dim1, TANDEM_AT);
/// Of a matrix: transposed; of one dimension or none: itself.
TANDEM_API Tensor t(const Tensor& self, TANDEM_AT);
/// The last two dimensions swapped.
TANDEM_API Tensor matrix_transpose(const Tensor& self, TANDEM_AT);
/// Dimension `dim` as several; one of `sizes` may be -1.
TANDEM_API Tensor unflatten(const Tensor& self, int64_t dim, const Shape& sizes, TANDEM_AT);
TANDEM_API Tensor ravel(const Tensor& self, TANDEM_AT);
/// Windows of `length` along dim, `step` apart: [.., n, ..] to [.., windows, .., length].
TANDEM_API Tensor unfold(const Tensor& self, int64_t dim, Dim length, Dim step, TANDEM_AT);
/// `chunks` parts (the last ones shorter or missing).
TANDEM_API std::vector<Tensor> chunk(const Tensor& self, Dim chunks, int64_t dim = 0, TANDEM_AT);
/// Parts of `size` (the last one shorter).
TANDEM_API std::vector<Tensor> split(const Tensor& self, Dim size, int64_t dim = 0, TANDEM_AT);
/// Parts of these lengths, which add up to the dimension.
TANDEM_API std::vector<Tensor> split_with_sizes(const Tensor& self, const std::vector<Dim>& lengths,
                                                int64_t dim = 0, TANDEM_AT);
template <std::integral I>
std::vector<Tensor> split_with_sizes(const Tensor& self, const std::vector<I>& lengths,
                                     int64_t dim = 0, TANDEM_AT) {
  return split_with_sizes(self, std::vector<Dim>(lengths.begin(), lengths.end()), dim, at);
}
/// `sections` parts, of which the first may be longer by one.
TANDEM_API std::vector<Tensor> tensor_split(const Tensor& self, Dim sections, int64_t dim = 0,
                                            TANDEM_AT);
/// Cut before each of `indices`.
TANDEM_API std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<Dim>& indices,
                                            int64_t dim = 0, TANDEM_AT);
template <std::integral I>
std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<I>& indices, int64_t dim = 0,
                                 TANDEM_AT) {
  return tensor_split(self, std::vector<Dim>(indices.begin(), indices.end()), dim, at);
}
/// Equal parts along the last of one or the second dimension; along the first.
TANDEM_API std::vector<Tensor> hsplit(const Tensor& self, Dim sections, TANDEM_AT);
TANDEM_API std::vector<Tensor> vsplit(const Tensor& self, Dim sections, TANDEM_AT);
TANDEM_API std::vector<Tensor> unbind(const Tensor& self, int64_t dim = 0, TANDEM_AT);
/// There are no complex tensors: real is the tensor itself, imag an Error.
TANDEM_API Tensor real(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor imag(const Tensor& self, TANDEM_AT);

// --- shapes
TANDEM_API Tensor cat(std::span<const Tensor> tensors, int64_t dim = 0, TANDEM_AT);
TANDEM_API Tensor cat(std::initializer_list<Tensor> tensors, int64_t dim = 0, TANDEM_AT);
TANDEM_API Tensor stack(std::span<const Tensor> tensors, int64_t dim = 0, TANDEM_AT);
TANDEM_API Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim = 0, TANDEM_AT);
/// `padding` as in PyTorch: [before, after] of the last dimension, then of the one before it, ...
TANDEM_API Tensor pad(const Tensor& self, const std::vector<Dim>& padding, const Number& value = 0,
                      TANDEM_AT);
template <std::integral I>
Tensor pad(const Tensor& self, const std::vector<I>& padding, const Number& value = 0, TANDEM_AT) {
  return pad(self, std::vector<Dim>(padding.begin(), padding.end()), value, at);
}
TANDEM_API Tensor flip(const Tensor& self, const DimList& dims, TANDEM_AT);
TANDEM_API Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim,
                                std::optional<Dim> start = {}, std::optional<Dim> end = {},
                                Dim step = 1, TANDEM_AT);
TANDEM_API Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, Dim index,
                                 TANDEM_AT);
TANDEM_API Tensor diagonal_scatter(const Tensor& self, const Tensor& src, Dim offset = 0,
                                   int64_t dim0 = 0, int64_t dim1 = 1, TANDEM_AT);
/// Of the memory of a contiguous copy of self.
TANDEM_API Tensor as_strided_scatter(const Tensor& self, const Tensor& src, const Shape& sizes,
                                     const Strides& strides, Dim storage_offset = 0, TANDEM_AT);

// --- index
TANDEM_API Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index, TANDEM_AT);
TANDEM_API Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, TANDEM_AT);
TANDEM_API Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                            TANDEM_AT);
TANDEM_API Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index,
                              const Tensor& src, TANDEM_AT);
/// self with src's elements (or a number) at index: of several for one place the last in row-major
/// order.
TANDEM_API Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Located& src);
TANDEM_API Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& src, TANDEM_AT);
/// `value` is a number or has one element; positions may count from the end.
TANDEM_API Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index,
                             const Located& value);
/// self with src's elements, one after the other, where mask is true.
TANDEM_API Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& src,
                                 TANDEM_AT);
/// self with alpha * src added.
TANDEM_API Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                            const Number& alpha, TANDEM_AT);
/// self with what `reduce` makes of each place's elements: "sum", "prod", "mean", "amax" or "amin"
/// of those of src, and with include_self of self's own. (ATen's gradient of extrema without self
/// counts it where it is equal; here it does not.)
TANDEM_API Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index,
                                 const Tensor& src, std::string_view reduce,
                                 bool include_self = true, TANDEM_AT);
/// reduce: "add" or "multiply".
TANDEM_API Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Located& src,
                          std::string_view reduce);
/// The same for slices of self: "prod", "mean", "amax" or "amin".
TANDEM_API Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index,
                               const Tensor& source, std::string_view reduce,
                               bool include_self = true, TANDEM_AT);

/// padding_idx: a row that takes no gradient. max_norm: rows of a greater norm_type-norm that are
/// read are scaled down in the table; not inside a trace. scale_grad_by_freq: the gradient of a row
/// is divided by how often it is read. sparse: must be false.
struct EmbeddingOptions {
  std::optional<int64_t> padding_idx = {};
  std::optional<double> max_norm = {};
  double norm_type = 2;
  bool scale_grad_by_freq = false, sparse = false;
};
/// Rows of weight [n, d] at indices [...]: [..., d].
TANDEM_API Tensor embedding(const Tensor& weight, const Tensor& indices, TANDEM_AT);
TANDEM_API Tensor embedding(const Tensor& weight, const Tensor& indices,
                            const EmbeddingOptions& options, TANDEM_AT);
/// mode: "sum", "mean" or "max". offsets: where each bag begins among indices [n], and with
/// include_last_offset where the last one ends. per_sample_weights: as the indices; of sums.
/// padding_idx: what is left out of its bag. The others: as those of embedding.
struct EmbeddingBagOptions {
  Tensor offsets = {};
  std::string_view mode = "mean";
  Tensor per_sample_weights = {};
  bool include_last_offset = false;
  std::optional<int64_t> padding_idx = {};
  std::optional<double> max_norm = {};
  double norm_type = 2;
  bool scale_grad_by_freq = false, sparse = false;
};
/// The rows at the indices of each bag in one: [bags, d]. Bags are the rows of indices [bags, n],
/// or lie between offsets. Empty ones give zeros.
TANDEM_API Tensor embedding_bag(const Tensor& weight, const Tensor& indices,
                                const EmbeddingBagOptions& options = {}, TANDEM_AT);
/// [..., classes] of i64: 1 at the label. Without a number of classes: one more than the largest
/// label, not inside a trace.
TANDEM_API Tensor one_hot(const Tensor& labels, Dim classes, TANDEM_AT);
TANDEM_API Tensor one_hot(const Tensor& labels, TANDEM_AT);

// --- operators
inline Tensor operator+(const Located& a, const Located& b) { return add(a, b); }
inline Tensor operator-(const Located& a, const Located& b) { return sub(a, b); }
inline Tensor operator*(const Located& a, const Located& b) { return mul(a, b); }
inline Tensor operator/(const Located& a, const Located& b) { return div(a, b); }
inline Tensor operator%(const Located& a, const Located& b) { return remainder(a, b); }
inline Tensor operator==(const Located& a, const Located& b) { return eq(a, b); }
inline Tensor operator!=(const Located& a, const Located& b) { return ne(a, b); }
inline Tensor operator<(const Located& a, const Located& b) { return lt(a, b); }
inline Tensor operator<=(const Located& a, const Located& b) { return le(a, b); }
inline Tensor operator>(const Located& a, const Located& b) { return gt(a, b); }
inline Tensor operator>=(const Located& a, const Located& b) { return ge(a, b); }
inline Tensor operator&(const Located& a, const Located& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Located& a, const Located& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Located& a, const Located& b) { return bitwise_xor(a, b); }
TANDEM_API Tensor operator-(const Located& a);
TANDEM_API Tensor operator~(const Located& a);

template <class T>
Tensor from_data(std::span<const T> values, const Shape& sizes) {
  constexpr DType dtype = [] {
    if constexpr (std::same_as<T, double>) return f64;
    if constexpr (std::same_as<T, float>) return f32;
    if constexpr (std::same_as<T, bool>) return boolean;
    if constexpr (std::same_as<T, uint8_t>) return u8;
    static_assert(std::is_arithmetic_v<T> && !std::same_as<T, long double>);
    return sizeof(T) == 8 ? i64 : sizeof(T) == 4 ? i32 : sizeof(T) == 2 ? i16 : i8;
  }();
  const std::vector<Number> numbers(values.begin(), values.end());
  return from_numbers({numbers.data(), numbers.size()}, sizes, dtype);
}

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_H
