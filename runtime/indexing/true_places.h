// Where masks are true.
#ifndef TANDEM_RUNTIME_INDEXING_TRUE_PLACES_H
#define TANDEM_RUNTIME_INDEXING_TRUE_PLACES_H

#include <tandem/tensor.h>

#include <vector>

namespace tandem::runtime {

/// Of the true elements in row-major order the positions along each dimension: [n, dimensions].
Tensor true_places(const Tensor& mask);

/// The same as a vector [n] for each dimension.
std::vector<Tensor> true_positions(const Tensor& mask);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_INDEXING_TRUE_PLACES_H
