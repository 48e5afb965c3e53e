// The order in which a reduction combines its elements: what the attribute `order` = [lanes, block]
// of sum, prod, amax, ... means. decomps sets it from sizes alone; every kernel realises it at any
// vector width and thread count, so that a recomputed or differently fused copy has the same bits.
#ifndef TANDEM_IR_REDUCTION_ORDER_H
#define TANDEM_IR_REDUCTION_ORDER_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "dim.h"
#include "ir/base/error.h"

namespace tandem::ir {

/// A Core reduction runs over one contiguous run of dims, so its operand is [outer, n, inner] in
/// row-major order and its result [outer, inner]. inner == 1 is a row reduction, inner > 1 a column
/// reduction. Element i of a result's run is operand[o, i, c], i in [0, n).
struct ReductionRun {
  int64_t outer = 1, n = 1, inner = 1;
};

/// How the n elements of one result are combined:
///  1. The run is cut into blocks of `block` consecutive elements; the last may be shorter.
///  2. In a block that starts at element s, element s + i goes to lane i % lanes. Every lane starts
///     at the identity (+0 for sum, 1 for prod, -inf for amax, inf for amin; false, true) and takes
///     its elements in ascending order: acc = acc + x.
///  3. The lanes of a block are combined by halving: for w = lanes / 2, lanes / 4, ..., 1:
///     lane[j] = lane[j] + lane[j + w] for j < w. Lane 0 is the block's partial.
///  4. Partials are combined by pairs of neighbours until one is left: p[i] = p[2 i] + p[2 i + 1];
///     an odd last one moves up unchanged. That one is the result; without blocks (n == 0) it is
///     the identity.
/// A lane that a short tail does not reach keeps its value. (Adding +0 there, or multiplying by 1,
/// gives the same bits: a sum that starts at +0 is never -0.)
/// `lanes` is a power of two, at least 1; `block` is at least 1. argmax and argmin carry an order
/// too, but their result (the lowest index of the extremum) does not depend on it; nor do integer
/// and bool reductions. Floating amax and amin only depend on it in the sign of a zero.
struct ReductionOrder {
  int64_t lanes = 1;
  int64_t block = 1;
  int64_t blocks(int64_t n) const { return (n + block - 1) / block; }
  friend bool operator==(const ReductionOrder&, const ReductionOrder&) = default;
};

/// The order that `attr` = [lanes, block] stands for; [] (not set yet) is one lane and one block.
inline ReductionOrder reduction_order(std::span<const Dim> attr, int64_t n) {
  if (attr.empty()) return {1, std::max<int64_t>(n, 1)};
  TANDEM_CHECK(attr.size() == 2 && attr[0] >= 1 && attr[1] >= 1, "order: expected [lanes, block]");
  return {attr[0], attr[1]};
}

/// `sizes` with `dims` (ascending, neighbours) as [outer, n, inner].
inline ReductionRun reduction_run(const Shape& sizes, std::span<const Axis> dims) {
  ReductionRun run;
  const int64_t first = dims.front(), last = dims.back();
  TANDEM_CHECK(last - first + 1 == static_cast<int64_t>(dims.size()),
               "a reduction in order runs over neighbouring dims");
  for (int d = 0; d < sizes.rank(); ++d)
    (d < first ? run.outer : d <= last ? run.n : run.inner) *= int64_t{sizes[d]};
  return run;
}

/// The definition above as code: combines load(0), ..., load(n - 1). `combine(a, b)` rounds to the
/// result's dtype.
template <class T, class Load, class Combine>
T reduce_in_order(const ReductionOrder& order, int64_t n, const T& identity, Load load,
                  Combine combine) {
  std::vector<T> partials;
  for (int64_t start = 0; start < n; start += order.block) {
    std::vector<T> lane(static_cast<size_t>(order.lanes), identity);
    const int64_t length = std::min(order.block, n - start);
    for (int64_t i = 0; i < length; ++i) {
      T& acc = lane[static_cast<size_t>(i % order.lanes)];
      acc = combine(acc, load(start + i));
    }
    for (size_t w = lane.size() / 2; w >= 1; w /= 2)
      for (size_t j = 0; j < w; ++j) lane[j] = combine(lane[j], lane[j + w]);
    partials.push_back(lane[0]);
  }
  while (partials.size() > 1) {
    const size_t pairs = partials.size() / 2;
    for (size_t i = 0; i < pairs; ++i) partials[i] = combine(partials[2 * i], partials[2 * i + 1]);
    if (partials.size() % 2 == 1) partials[pairs] = partials.back();
    partials.resize((partials.size() + 1) / 2);
  }
  return partials.empty() ? identity : partials[0];
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_REDUCTION_ORDER_H
