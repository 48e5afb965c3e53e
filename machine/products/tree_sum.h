// Partial sums, added in an order that follows from how many there are.
#ifndef TANDEM_MACHINE_PRODUCTS_TREE_SUM_H
#define TANDEM_MACHINE_PRODUCTS_TREE_SUM_H

#include <cstdint>

namespace tandem::machine {

/// Adds `count` rows of `n` elements, `step` elements apart, into the first by a balanced tree.
inline void add_by_tree(float* rows, int64_t n, int64_t count, int64_t step) {
  for (int64_t width = 1; width < count; width *= 2)
    for (int64_t i = 0; i + width < count; i += 2 * width) {
      float* const to = rows + i * step;
      const float* const from = to + width * step;
      for (int64_t j = 0; j < n; ++j) to[j] += from[j];
    }
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_PRODUCTS_TREE_SUM_H
