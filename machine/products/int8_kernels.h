// Products with matrices of i8 by one thread: once for each instruction set.
#ifndef TANDEM_MACHINE_PRODUCTS_INT8_KERNELS_H
#define TANDEM_MACHINE_PRODUCTS_INT8_KERNELS_H

#include <cstdint>

namespace tandem::machine::products {

/// Rows up to which weights are read once, where they lie, and each row's sum is of its own.
inline constexpr int64_t kFewRows = 16;

/// out [m, n] = (x [m, k] @ weight [n, k]^T) * scales [n], all in rows whose elements lie side by
/// side. What an element's bits depend on is its row of x and of weight alone.
template <class T>
struct WeightProduct {
  int64_t m, n, k;
  const T* x;
  int64_t x_stride;
  const int8_t* weight;
  int64_t weight_stride;
  const T* scales;
  T* out;
  int64_t out_stride;
};

/// A matrix of contiguous rows, or columns (`transposed`), `stride` elements apart.
struct Bytes {
  const int8_t* data;
  int64_t stride;
  bool transposed;
};

/// out [m, n] = a [m, k] @ b [k, n].
struct IntegerProduct {
  int64_t m, n, k;
  Bytes a, b;
  int32_t* out;
  int64_t out_stride;
};

struct WeightKernels {
  /// By sums of products of rows; of any number of rows, best of few.
  void (*multiply)(const WeightProduct<float>& product);
  void (*multiply_f64)(const WeightProduct<double>& product);
  void (*widen)(const int8_t* from, int64_t count, float* to);
};

struct IntegerKernels {
  /// Rows and columns of a tile, and the rows that are best multiplied together; and up to how many
  /// rows a b whose columns are contiguous is read once, where it lies.
  int64_t tile_rows, tile_columns, block_rows, few_rows;
  /// 32-bit words of working memory, aligned to cache lines; and a product, of k > 0.
  int64_t (*scratch)(int64_t m, int64_t n, int64_t k);
  void (*multiply)(const IntegerProduct& product, int32_t* scratch);
};

extern const WeightKernels kWeightsBase, kWeightsAvx2, kWeightsAvx512;
extern const IntegerKernels kIntegersBase, kIntegersAvx2, kIntegersVnni, kIntegersAmx;

/// Those of this processor.
const WeightKernels& weight_kernels();
const IntegerKernels& integer_kernels();

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_INT8_KERNELS_H
