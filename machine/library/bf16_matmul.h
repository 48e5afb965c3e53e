// bf16 matrix products through oneDNN, where the processor has instructions for them: sums in f32,
// rounded once. A product is cut into blocks of its output by its shape alone, each one a
// single-threaded primitive, as f32 ones are (matmul.h).
#ifndef TANDEM_MACHINE_LIBRARY_BF16_MATMUL_H
#define TANDEM_MACHINE_LIBRARY_BF16_MATMUL_H

#include <compare>
#include <cstdint>

namespace tandem::machine {

/// Of dense matrices A [batch, m, k], B [batch, k, n] and C [batch, m, n], or C += A B.
struct Bf16Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;  // stored as [k, m], as [n, k]
  bool accumulate = false;
  auto operator<=>(const Bf16Product&) const = default;
};

/// Whether the processor has such instructions (AVX512_BF16, or AMX); TANDEM_ISA may lower it.
bool has_bf16_products();

/// Computes the product on the pool. Matrices of bf16, which do not overlap. Throws Error
/// (out_of_memory) when the library cannot get its buffers.
void multiply_bf16(const Bf16Product& product, const void* a, const void* b, void* c);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_BF16_MATMUL_H
