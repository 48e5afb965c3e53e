#include "machine/products/f64/f64_rows.h"

#include "machine/cpu.h"

namespace tandem::machine::products {

/// Rows of C gather multiples of rows of B: the inner loop runs over memory in order.
void add_product_base(const F64Rows& p) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t l = 0; l < p.k; ++l) {
      const double factor = p.a[i * p.k + l];
#pragma GCC ivdep
      for (int64_t j = 0; j < p.n; ++j) p.c[i * p.n + j] += factor * p.b[l * p.n + j];
    }
}

void add_product(const F64Rows& p) {
  static AddF64Product* const add =
      for_this_processor<AddF64Product>(add_product_base, add_product_avx2, add_product_avx512);
  add(p);
}

}  // namespace tandem::machine::products
