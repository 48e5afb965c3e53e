// Writes at positions and by masks, as x.index_put_({...}, values) asks for.
#ifndef TANDEM_RUNTIME_INDEXING_INDEX_PUT_H
#define TANDEM_RUNTIME_INDEXING_INDEX_PUT_H

#include <tandem/tensor.h>

#include <vector>

namespace tandem::runtime {

/// `self` with values at these places, in memory of its own. `tensors`: as many as are given of the
/// first dims of self, undefined ones for all of a dim.
Tensor put(const Tensor& self, const std::vector<Tensor>& tensors, const Located& values,
           bool accumulate);

/// Writes the values at these places of `self`, and nothing else where memory allows.
void put_into(const Tensor& self, const std::vector<Tensor>& tensors, const Located& values,
              bool accumulate);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_INDEXING_INDEX_PUT_H
