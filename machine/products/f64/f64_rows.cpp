#include "machine/products/f64/f64_rows.h"

#include "machine/cpu.h"

namespace tandem::machine::products {

void add_f64_product(const F64Rows& p) {
  for_this_processor<AddF64Product>(add_product<double>, add_product_avx2, add_product_avx512)(p);
}

}  // namespace tandem::machine::products
