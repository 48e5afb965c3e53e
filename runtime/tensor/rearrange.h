// Changes of a tensor itself: t_, resize_, set_, detach_ and their like. The handle's tensor takes
// over sizes, strides, storage, traced value and history of another one.
#ifndef TANDEM_RUNTIME_TENSOR_REARRANGE_H
#define TANDEM_RUNTIME_TENSOR_REARRANGE_H

#include <tandem/tensor.h>

namespace tandem::runtime {

/// What `t` is a view of, inside a trace the traced one; undefined if it is none.
Tensor base_of(const Tensor& t);

/// `self` shows what `shown`, a view of it, shows. Its history becomes shown's, unless it is a
/// leaf.
void take_arrangement(const Tensor& self, const Tensor& shown);
/// `self` becomes a second tensor over the memory of `other`, which has no history.
void take_memory(const Tensor& self, const Tensor& other);
/// The memory grows to hold `sizes`, which `self` has from now on, contiguous.
void grow(const Tensor& self, const Shape& sizes);
/// `self` leaves its history behind and requires no grad.
void drop_history(const Tensor& self);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TENSOR_REARRANGE_H
