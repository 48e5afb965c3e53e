// What one thread does of a product of bf16 matrices.
#ifndef TANDEM_MACHINE_PRODUCTS_BF16_TILES_H
#define TANDEM_MACHINE_PRODUCTS_BF16_TILES_H

#include <cstdint>

namespace tandem::machine::products {

/// A matrix of contiguous rows, or columns (`transposed`), `stride` elements apart.
struct Bf16Operand {
  const uint16_t* data;
  int64_t stride;
  bool transposed;

  const uint16_t* at(int64_t row, int64_t column) const {
    return data + (transposed ? column * stride + row : row * stride + column);
  }
};

/// C [m, n] = A [m, k] B [k, n], or C += A B. Summed in f32 and rounded once: to C, or, if there
/// are sums, to those instead. C's rows are contiguous, and so are those of the sums.
struct Bf16Product {
  int64_t m, n, k;
  Bf16Operand a, b;
  uint16_t* c;
  float* sums;
  int64_t c_stride;  // of C, or of the sums
  bool adds;         // to C, not to sums
};

/// What one instruction set computes products with. An element's bits depend on its row, its
/// column, k, and the way it is computed alone. Memory outside of the matrices is not touched.
struct Bf16Tiles {
  /// Rows and columns of a tile, and the longest part of k that columns are packed of.
  int64_t rows, columns, depth;
  /// Floats of working memory, aligned to cache lines, for products of at most these sizes.
  int64_t (*scratch)(int64_t m, int64_t n, int64_t k);
  void (*multiply)(const Bf16Product& product, float* scratch);
  /// The same of few rows, contiguous ones, by contiguous columns: nothing is packed.
  void (*multiply_few)(const Bf16Product& product);
};

extern const Bf16Tiles kBf16TilesAvx512;

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_BF16_TILES_H
