// Tensors with the values of another, in other places of memory.
#ifndef TANDEM_TESTS_SUPPORT_LAYOUTS_H
#define TANDEM_TESTS_SUPPORT_LAYOUTS_H

#include <tandem/ops.h>
#include <tandem/tensor.h>

namespace tandem::testing {

using Layout = Tensor (*)(const Tensor&);

inline Tensor transposed(const Tensor& t) {
  return t.transpose(0, -1).contiguous().transpose(0, -1);
}

/// With a gap behind every element, and an offset.
inline Tensor gapped(const Tensor& t) {
  Shape sizes = t.sizes();
  sizes.push_back(3);
  const Tensor part = zeros(sizes, t.dtype()).select(-1, 1);
  part.copy_(t);
  return part;
}

/// A part of a larger one in every dimension.
inline Tensor inner(const Tensor& t) {
  Shape sizes = t.sizes();
  for (Dim& d : sizes) d = d + 2;
  Tensor part = zeros(sizes, t.dtype());
  for (int d = 0; d < t.dim(); ++d) part = part.narrow(d, 1, t.sizes()[d]);
  part.copy_(t);
  return part;
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_LAYOUTS_H
