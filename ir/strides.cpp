#include "ir/strides.h"

#include <algorithm>
#include <utility>

namespace tandem::ir {
namespace {

bool is_empty(const Shape& sizes) {
  return std::ranges::any_of(sizes, [](Dim d) { return d == 0; });
}

/// Whether an element of `t` lies at `place`. Strides without overlap nest: from the largest on
/// (`order`), the indices are the digits of the place.
bool has_element_at(const Placed& t, const Axes& order, Dim place) {
  Dim rest = place - t.offset;
  for (const Axis wide : order) {
    const auto d = static_cast<int>(wide);
    if (t.sizes[d] == 1) continue;
    if (rest / t.strides[d] >= t.sizes[d]) return false;
    rest = rest % t.strides[d];
  }
  return rest == 0;
}

/// Whether test(place) holds of each element; of those that repeat one, once.
template <class Test>
bool all_places(const Placed& t, Test test) {
  Shape index = Shape::filled(t.sizes.rank(), 0);
  Dim place = t.offset;
  for (;;) {
    if (!test(place)) return false;
    int d = t.sizes.rank() - 1;
    for (; d >= 0 && (t.strides[d] == 0 || index[d] + 1 == t.sizes[d]); --d) {
      place -= index[d] * t.strides[d];
      index[d] = 0;
    }
    if (d < 0) return true;
    index[d] += 1;
    place += t.strides[d];
  }
}

}  // namespace

Axes memory_order(const Strides& strides) {
  Axes order;
  for (int d = 0; d < strides.rank(); ++d) order.push_back(d);
  const auto apart = [&](Dim d) {
    const Dim stride = strides[static_cast<int>(d)];
    return stride < 0 ? Dim(-stride) : stride;
  };
  std::ranges::sort(order, {}, [&](Dim d) { return std::pair(-apart(d), d); });
  return order;
}

Dim extent(const Shape& sizes, const Strides& strides, const char* what) {
  if (is_empty(sizes)) return 0;
  Dim reach = 1;
  for (int d = 0; d < sizes.rank(); ++d)
    reach = checked_add(reach, checked_mul(sizes[d] - 1, strides[d], what), what);
  return reach;
}

Dim end_of(const Placed& t, const char* what) {
  return checked_add(t.offset, extent(t.sizes, t.strides, what), what);
}

bool holds(const Placed& whole, const Placed& part) {
  if (is_empty(part.sizes)) return true;
  if (part.offset < whole.offset || end_of(part) > end_of(whole)) return false;
  if (is_dense(whole.sizes, whole.strides)) return true;
  const Axes order = memory_order(whole.strides);
  return all_places(part, [&](Dim place) { return has_element_at(whole, order, place); });
}

bool self_overlaps(const Shape& sizes, const Strides& strides) {
  if (is_empty(sizes)) return false;
  const Axes order = memory_order(strides);
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
  const Axes order = memory_order(strides);
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
