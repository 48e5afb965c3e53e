// Products of small matrices where they lie, by plain loops.
#ifndef TANDEM_MACHINE_PRODUCTS_DENSE_ROWS_H
#define TANDEM_MACHINE_PRODUCTS_DENSE_ROWS_H

#include <cstdint>
#include <type_traits>

namespace tandem::machine::products {

/// C [m, n] += A [m, k] B [k, n], of dense rows.
template <class T>
struct DenseRows {
  int64_t m, n, k;
  const T* a;
  const T* b;
  T* c;
};

/// By one thread. Rows of C gather multiples of rows of B, so the inner loop runs over memory in
/// order. Integers wrap.
template <class T>
void add_product(const DenseRows<T>& p) {
  // (Small integers would be multiplied as int, which overflows.)
  using U =
      std::conditional_t<std::is_integral_v<T>, std::make_unsigned<std::common_type_t<T, int32_t>>,
                         std::type_identity<T>>;
  using W = typename U::type;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t l = 0; l < p.k; ++l) {
      const auto factor = static_cast<W>(p.a[i * p.k + l]);
      const T* const from = p.b + l * p.n;
      T* const to = p.c + i * p.n;
#pragma GCC ivdep
      for (int64_t j = 0; j < p.n; ++j)
        to[j] = static_cast<T>(static_cast<W>(to[j]) + factor * static_cast<W>(from[j]));
    }
}

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_DENSE_ROWS_H
