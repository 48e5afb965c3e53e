// Indices as tensors of positions, one for each dimension, and those joined to one of places.
#ifndef TANDEM_RUNTIME_INDEXING_PLACES_H
#define TANDEM_RUNTIME_INDEXING_PLACES_H

#include <vector>

#include "runtime/ops/call.h"

namespace tandem::runtime {

bool is_mask(const Tensor& index);

/// The dims of self that a mask at `first` stands for; Error{Shape} if it does not fit.
std::vector<int> masked_dims(const Shape& self, const Tensor& mask, int first);

/// With positions in place of masks; a tensor for each dimension. Error{Trace} of a mask in a
/// trace.
std::vector<Tensor> without_masks(const Shape& self, const std::vector<Tensor>& tensors);

/// The dims that have an index, in order; Error{DType} if one holds no integers.
std::vector<int> indexed_dims(const std::vector<Tensor>& indices);

/// Whether the dims are next to each other: the positions then stand in their place, else in front.
bool are_adjacent(const std::vector<int>& dims);

/// The sizes that the indices have together.
Shape common_sizes(Call& c, const std::vector<Tensor>& indices, const std::vector<int>& dims);

/// By dim of self, of those in `counted`: how far apart neighbours along it are, if places are
/// counted in row-major order of these.
std::vector<Dim> steps_along(const std::vector<int>& counted, const Shape& self);

/// Which place each position is, along dims with these steps: [n].
V places(Call& c, V self, const std::vector<Tensor>& indices, const std::vector<int>& dims,
         const std::vector<Dim>& steps);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_INDEXING_PLACES_H
