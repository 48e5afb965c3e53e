// What stands in Python's x[...], for x.index({...}), x.index_put({...}, values) and
// x.index_put_({...}, values):
//
//     x.index({0, Slice{1, 5, 2}, newaxis, ellipsis, mask, positions})
//
// Positions, ranges and newaxis make views. Tensors of positions (i64, i32), which broadcast to
// each other and may count from the end, and masks (bool or u8) make copies: what they choose
// stands where their dimensions were if those are next to each other, else in front.
#ifndef TANDEM_INDEXING_H
#define TANDEM_INDEXING_H

#include <tandem/tensor.h>

namespace tandem {

/// Python's start:end:step.
struct Slice {
  std::optional<Dim> start = {}, end = {};
  Dim step = 1;
};

/// A new dimension of size 1.
struct NewAxis {};
inline constexpr NewAxis newaxis{};  // NOLINT(readability-identifier-naming): Python's

/// All of the dimensions that no other index stands for.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis{};  // NOLINT(readability-identifier-naming): Python's

/// One of the indices. Without a value, as an undefined tensor: all of its dimension.
struct Index {
  enum class Kind : uint8_t { Range, Position, NewAxis, Ellipsis, Flag, Places };

  Index() = default;
  Index(const Slice& slice) : range(slice) {}          // NOLINT
  Index(NewAxis) : kind(Kind::NewAxis) {}              // NOLINT
  Index(Ellipsis) : kind(Kind::Ellipsis) {}            // NOLINT
  Index(Dim i) : kind(Kind::Position), position(i) {}  // NOLINT
  template <std::integral I>
  Index(I i)  // NOLINT: a bool is a new dimension, of size 1 or 0
      : kind(std::same_as<I, bool> ? Kind::Flag : Kind::Position), position(i) {}
  Index(const Tensor& t) : kind(t.defined() ? Kind::Places : Kind::Range), places(t) {}  // NOLINT

  Kind kind = Kind::Range;
  Dim position = 0;
  Slice range;
  Tensor places;
};

struct TANDEM_API Indices {
  Indices(std::initializer_list<Index> list);
  Indices(const std::vector<Tensor>& tensors);                       // NOLINT
  Indices(std::vector<Index> indices) : list(std::move(indices)) {}  // NOLINT

  std::vector<Index> list;
};

/// self[indices]: a view if no tensor is among them. A mask is read eagerly; inside a trace, where
/// sizes may not depend on data, it is an Error{Trace}.
TANDEM_API Tensor index(const Tensor& self, const Indices& indices,
                        SourceLocation at = SourceLocation::current());
/// self with `values` (broadcast) at self[indices]. `accumulate`: adds. A mask alone among the
/// tensors: `values` has as many rows as it has true elements (else Error{Index}), or one for all
/// of them; this runs inside a trace as well.
TANDEM_API Tensor index_put(const Tensor& self, const Indices& indices, const Located& values,
                            bool accumulate = false);
TANDEM_API const Tensor& index_put_out(const Tensor& out, const Tensor& self,
                                       const Indices& indices, const Located& values,
                                       bool accumulate = false);
/// The places of the elements that are not zero, in row-major order: [size, dimensions] of i64.
/// What does not fit is left out; rows that are left over are `fill_value`.
TANDEM_API Tensor nonzero_static(const Tensor& self, Dim size, int64_t fill_value = -1,
                                 SourceLocation at = SourceLocation::current());

/// Of positions in the elements of a tensor of these sizes, in row-major order: those along each
/// dimension.
TANDEM_API std::vector<Tensor> unravel_index(const Tensor& indices, const Shape& shape,
                                             SourceLocation at = SourceLocation::current());

}  // namespace tandem

#endif  // TANDEM_INDEXING_H
