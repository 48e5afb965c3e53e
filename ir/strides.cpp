#include "ir/strides.h"

#include <algorithm>

namespace tandem::ir {
namespace {

bool is_empty(const Shape& sizes) {
  return std::ranges::any_of(sizes, [](Dim d) { return d == 0; });
}

/// The dimensions from the largest stride to the smallest.
InlineVector<int, 8> memory_order(const Shape& sizes, const Strides& strides) {
  InlineVector<int, 8> order;
  for (int d = 0; d < sizes.rank(); ++d) order.push_back(d);
  // A dimension of one element has no extent: only the others' strides say anything.
  const auto stride = [&](int d) { return sizes[d] > 1 ? strides[d] : Dim(0); };
  std::ranges::sort(order, [&](int a, int b) {
    return stride(a) > stride(b) || (stride(a) == stride(b) && a < b);
  });
  return order;
}

}  // namespace

bool self_overlaps(const Shape& sizes, const Strides& strides) {
  if (is_empty(sizes)) return false;
  const InlineVector<int, 8> order = memory_order(sizes, strides);
  Dim reach = 0;  // the largest distance within the dimensions seen so far, smallest stride first
  for (size_t i = order.size(); i-- > 0;) {
    const int d = order[i];
    if (sizes[d] == 1) continue;
    if (strides[d] <= reach) return true;
    reach += (sizes[d] - 1) * strides[d];
  }
  return false;
}

bool is_dense(const Shape& sizes, const Strides& strides) {
  if (is_empty(sizes)) return true;
  const InlineVector<int, 8> order = memory_order(sizes, strides);
  Dim expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const int d = order[i];
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

}  // namespace tandem::ir
