#include "ir/strides.h"

#include <algorithm>
#include <utility>

namespace tandem::ir {
namespace {

bool is_empty(const Shape& sizes) {
  return std::ranges::any_of(sizes, [](Dim d) { return d == 0; });
}

}  // namespace

Dims memory_order(const Strides& strides) {
  Dims order;
  for (int d = 0; d < strides.rank(); ++d) order.push_back(d);
  std::ranges::sort(order, {}, [&](Dim d) { return std::pair(-strides[static_cast<int>(d)], d); });
  return order;
}

Dim extent(const Shape& sizes, const Strides& strides) {
  Dim reach = 1;
  for (int d = 0; d < sizes.rank(); ++d) {
    if (sizes[d] == 0) return 0;
    reach += (sizes[d] - 1) * strides[d];
  }
  return reach;
}

bool self_overlaps(const Shape& sizes, const Strides& strides) {
  if (is_empty(sizes)) return false;
  const Dims order = memory_order(strides);
  Dim reach = 0;  // the largest distance within the dimensions seen so far, smallest stride first
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<int>(order[i]);
    if (sizes[d] == 1) continue;
    if (strides[d] <= reach) return true;
    reach += (sizes[d] - 1) * strides[d];
  }
  return false;
}

bool is_dense(const Shape& sizes, const Strides& strides) {
  if (is_empty(sizes)) return true;
  const Dims order = memory_order(strides);
  Dim expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<int>(order[i]);
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

}  // namespace tandem::ir
