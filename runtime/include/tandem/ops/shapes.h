// More views, joins, repetitions and paddings, named and defined as in ATen. Those of which ATen
// has methods are methods of Tensor too.
#ifndef TANDEM_OPS_SHAPES_H
#define TANDEM_OPS_SHAPES_H

#include <tandem/ops.h>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

// --- views: the result shares storage with `self`
TANDEM_API Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1, TANDEM_AT);
TANDEM_API Tensor moveaxis(const Tensor& self, const DimList& source, const DimList& destination,
                           TANDEM_AT);
/// Of matrices: the last two dimensions swapped (there are no complex tensors); of one element: it.
TANDEM_API Tensor adjoint(const Tensor& self, TANDEM_AT);
/// At least so many dimensions: self itself, or a view with sizes of 1 ([n] as [1, n], as [1, n,
/// 1], [n, m] as [n, m, 1]).
TANDEM_API Tensor atleast_1d(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor atleast_2d(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor atleast_3d(const Tensor& self, TANDEM_AT);
TANDEM_API std::vector<Tensor> atleast_1d(std::span<const Tensor> tensors, TANDEM_AT);
TANDEM_API std::vector<Tensor> atleast_2d(std::span<const Tensor> tensors, TANDEM_AT);
TANDEM_API std::vector<Tensor> atleast_3d(std::span<const Tensor> tensors, TANDEM_AT);
/// Each expanded to the sizes that they have together.
TANDEM_API std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, TANDEM_AT);
TANDEM_API std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, TANDEM_AT);
/// Of vectors [n], [m], ...: each as [n, m, ...], along its own dimension. indexing "xy": the first
/// two dimensions swapped.
TANDEM_API std::vector<Tensor> meshgrid(std::span<const Tensor> tensors,
                                        std::string_view indexing = "ij", TANDEM_AT);
TANDEM_API std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors,
                                        std::string_view indexing = "ij", TANDEM_AT);
/// Of vectors [n], [m], ...: all choices of an element of each, [n m ..., vectors].
TANDEM_API Tensor cartesian_prod(std::span<const Tensor> tensors, TANDEM_AT);
TANDEM_API Tensor cartesian_prod(std::initializer_list<Tensor> tensors, TANDEM_AT);
/// All choices of r elements of a vector, in their order: [choices, r].
TANDEM_API Tensor combinations(const Tensor& self, int64_t r = 2, bool with_replacement = false,
                               TANDEM_AT);
/// What sizes come to when tensors of them are broadcast.
TANDEM_API Shape broadcast_shapes(const std::vector<Shape>& shapes, TANDEM_AT);
/// Parts of these lengths, which add up to the dimension.
TANDEM_API std::vector<Tensor> split(const Tensor& self, const std::vector<Dim>& lengths,
                                     int64_t dim = 0, TANDEM_AT);
template <std::integral I>
std::vector<Tensor> split(const Tensor& self, const std::vector<I>& lengths, int64_t dim = 0,
                          TANDEM_AT) {
  return split(self, std::vector<Dim>(lengths.begin(), lengths.end()), dim, at);
}
/// A number of sections (0-d) or the places of the cuts (1-d), of i64. Not inside a trace.
TANDEM_API std::vector<Tensor> tensor_split(const Tensor& self, const Tensor& indices_or_sections,
                                            int64_t dim = 0, TANDEM_AT);
/// Cut before each of `indices`.
TANDEM_API std::vector<Tensor> hsplit(const Tensor& self, const std::vector<Dim>& indices,
                                      TANDEM_AT);
TANDEM_API std::vector<Tensor> vsplit(const Tensor& self, const std::vector<Dim>& indices,
                                      TANDEM_AT);
/// Equal parts along the third dimension, or cut before each of `indices`.
TANDEM_API std::vector<Tensor> dsplit(const Tensor& self, Dim sections, TANDEM_AT);
TANDEM_API std::vector<Tensor> dsplit(const Tensor& self, const std::vector<Dim>& indices,
                                      TANDEM_AT);

// --- joins
#define X(op)                                                       \
  TANDEM_API Tensor op(std::span<const Tensor> tensors, TANDEM_AT); \
  TANDEM_API Tensor op(std::initializer_list<Tensor> tensors, TANDEM_AT);
TANDEM_STACKS(X)
/// Matrices (vectors as rows) along the diagonal, zeros elsewhere.
X(block_diag)
#undef X
#define X(op)                                                                        \
  TANDEM_API Tensor op(std::span<const Tensor> tensors, int64_t dim = 0, TANDEM_AT); \
  TANDEM_API Tensor op(std::initializer_list<Tensor> tensors, int64_t dim = 0, TANDEM_AT);
TANDEM_CAT_ALIASES(X)
#undef X

// --- elements in other places; the results are copies
/// Each of `dims` turned by its shift, or without dims all elements in row-major order by one.
TANDEM_API Tensor roll(const Tensor& self, const DimList& shifts, const DimList& dims = {},
                       TANDEM_AT);
TANDEM_API Tensor fliplr(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor flipud(const Tensor& self, TANDEM_AT);
/// Turned by k quarters, from the first of the two `dims` towards the second.
TANDEM_API Tensor rot90(const Tensor& self, int64_t k = 1, const DimList& dims = {0, 1}, TANDEM_AT);
/// So many times along each dimension; more repeats than dimensions add some in front.
TANDEM_API Tensor repeat(const Tensor& self, const Shape& repeats, TANDEM_AT);
/// As repeat, with ones for what `repeats` lacks.
TANDEM_API Tensor tile(const Tensor& self, const Shape& repeats, TANDEM_AT);
/// Each element so many times in a row, along `dim` or of all in row-major order.
TANDEM_API Tensor repeat_interleave(const Tensor& self, Dim repeats,
                                    std::optional<int64_t> dim = {}, TANDEM_AT);
/// Each its own number of times (one number, or one for each). `output_size`, which the numbers add
/// up to, must be given inside a trace: there one that does not fit is an Error{Index} when it
/// runs.
TANDEM_API Tensor repeat_interleave(const Tensor& self, const Tensor& repeats,
                                    std::optional<int64_t> dim = {},
                                    std::optional<Dim> output_size = {}, TANDEM_AT);
/// Each position so many times: of {1, 0, 2} it is [0, 2, 2]. Not inside a trace.
TANDEM_API Tensor repeat_interleave(const Tensor& repeats, TANDEM_AT);
/// A vector as a diagonal of a matrix, or a copy of a matrix's diagonal.
TANDEM_API Tensor diag(const Tensor& self, Dim diagonal = 0, TANDEM_AT);
/// The last dimension as diagonals of matrices, which lie in the result's dim1 and dim2.
TANDEM_API Tensor diag_embed(const Tensor& self, Dim offset = 0, int64_t dim1 = -2,
                             int64_t dim2 = -1, TANDEM_AT);
TANDEM_API Tensor diagflat(const Tensor& self, Dim offset = 0, TANDEM_AT);
/// `padding` as in PyTorch: [before, after] of the last dimension, then of the one before it, ...;
/// negative ones cut. mode "constant" (`value`, or 0), "reflect" (about the outermost elements),
/// "replicate" (them) or "circular". (Other than in PyTorch any number of dimensions.)
TANDEM_API Tensor pad(const Tensor& self, const std::vector<Dim>& padding, std::string_view mode,
                      const std::optional<Number>& value = {}, TANDEM_AT);
/// (Text is a truth value too, so that a Number would be as near.)
inline Tensor pad(const Tensor& self, const std::vector<Dim>& padding, const char* mode,
                  const std::optional<Number>& value = {}, TANDEM_AT) {
  return pad(self, padding, std::string_view(mode), value, at);
}

// --- factories
/// From `start` to `end` at equal distances, both included.
TANDEM_API Tensor linspace(const Number& start, const Number& end, Dim steps, DType dtype = f32,
                           TANDEM_AT);
/// base to the power of linspace(start, end, steps).
TANDEM_API Tensor logspace(const Number& start, const Number& end, Dim steps, double base = 10,
                           DType dtype = f32, TANDEM_AT);
/// The places in a [rows, columns] matrix on and below (above) a diagonal: [2, n].
TANDEM_API Tensor tril_indices(Dim rows, Dim columns, Dim offset = 0, DType dtype = i64, TANDEM_AT);
TANDEM_API Tensor triu_indices(Dim rows, Dim columns, Dim offset = 0, DType dtype = i64, TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_SHAPES_H
