// A product of dense matrices, as the library's of bf16 and f64 are given it.
#ifndef TANDEM_MACHINE_PRODUCTS_DENSE_PRODUCT_H
#define TANDEM_MACHINE_PRODUCTS_DENSE_PRODUCT_H

#include <compare>
#include <cstdint>

namespace tandem::machine {

/// Of dense matrices A [batch, m, k], B [batch, k, n] and C [batch, m, n], or C += A B.
struct DenseProduct {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;  // stored as [k, m], as [n, k]
  bool accumulate = false;
  auto operator<=>(const DenseProduct&) const = default;
};

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_PRODUCTS_DENSE_PRODUCT_H
