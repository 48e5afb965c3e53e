// f32 matrix products, by loops of ours or oneDNN's. A long sum over k is cut into chunks by the
// shape alone, and the output into blocks: of oneDNN's by the shape alone too, since the library
// may sum otherwise in another block; of ours as suits the number of threads. Each block is
// computed by one thread, and the blocks run on our pool. So the bits do not depend on the number
// of threads, and no thread of OpenMP is ever started.
#ifndef TANDEM_MACHINE_LIBRARY_MATMUL_H
#define TANDEM_MACHINE_LIBRARY_MATMUL_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "machine/products/panel_cut.h"

namespace tandem::machine {

/// Whether a product is summed in an order that leading dimensions do not change, if it may not
/// depend on them (MatmulSpec::stride_free). Beyond these sizes the library packs operands or not
/// by their leading dimensions, and cuts k otherwise for it; and products with vectors go through
/// other kernels.
bool can_be_stride_free(int64_t m, int64_t n, int64_t k);
/// Whether it is so in any case, where no batch stride is 0: by loops of ours, if k is not cut.
bool is_stride_free(int64_t m, int64_t n, int64_t k);

/// Strides in elements of a batch of matrices.
struct MatrixStrides {
  int64_t batch = 0, row = 0, col = 0, outer = 0;
  bool operator==(const MatrixStrides&) const = default;
};

/// How f32 numbers are multiplied: as such; or, where AMX makes that faster, in three or in two
/// parts of bf16 (products/split_bf16.h).
enum class MatmulPrecision : uint8_t { Highest, High, Medium };

/// C = A B, or C += A B, for `outer` times `batch` matrices A [m, k], B [k, n] and C [m, n]. In
/// each operand one of row and col is 1 and the other is at least the extent it steps over (strides
/// of dimensions of size 1 are ignored); batch and outer strides of A and B may be 0. C overlaps
/// neither A nor B nor itself.
struct MatmulSpec {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixStrides a, b, c;
  bool accumulate = false;
  int64_t outer = 1;
  /// Equal sizes give equal bits at any strides, if the same ones are 1; at a price where dense
  /// operands would allow a faster algorithm. Only where can_be_stride_free, and without
  /// accumulate.
  bool stride_free = false;
  bool plus_zero = false;  // 0 is added to each element, so none is -0; only where stride_free
  MatmulPrecision precision = MatmulPrecision::Highest;
  int64_t matrices() const { return outer * batch; }
  bool operator==(const MatmulSpec&) const = default;
};

/// A spec of dense row-major matrices; `transpose_a` says that A is stored as [k, m], `transpose_b`
/// B as [n, k].
MatmulSpec dense_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, bool transpose_a = false,
                        bool transpose_b = false);

/// Whether the strides are ones that Matmul takes. Others need a copy of the operand first.
bool matmul_supports(const MatmulSpec& spec);

/// What computes a block: dnnl_sgemm, a oneDNN matmul primitive (dense operands), or of ours
/// (products/panels.h) panels or, where C has few rows or columns, sums along k.
enum class BlockAlgorithm { Sgemm, Primitive, Panels, Dots };

/// How the work is cut; a pure function of the spec and of what computes blocks.
struct MatmulBlocks {
  int64_t batch = 1, m = 0, n = 0, k = 0;                      // extents of one block
  int64_t grid_batch = 0, grid_m = 0, grid_n = 0, grid_k = 0;  // how many there are
  BlockAlgorithm algorithm = BlockAlgorithm::Sgemm;
  int64_t grain = 1;  // the fewest blocks worth a thread
  int64_t units() const { return grid_batch * grid_m * grid_n * grid_k; }
};

class BlockPrimitive;

class Matmul {
 public:
  /// Plans the product and creates (or finds) the library's primitives, which may take
  /// milliseconds. Throws Error (unsupported) when matmul_supports(spec) is false.
  explicit Matmul(const MatmulSpec& spec);

  /// Bytes of scratch that run needs, 64-byte aligned; often 0.
  size_t scratch_bytes() const;

  /// Computes the product on the pool. With a `bias` [n] (where the spec accumulates and C is
  /// row-major) every row of C starts as the bias. Safe to call from several threads, each with its
  /// own scratch. With `packed`, what pack() made of B, that is read instead; the bits are the
  /// same. Throws Error (out_of_memory) when there is no memory to pack operands.
  void run(const float* a, const float* b, float* c, void* scratch, const float* bias = nullptr,
           const float* packed = nullptr) const;

  /// Floats that B takes when it is brought into order once for several products with it; 0 where
  /// that saves little, since it is read by many rows of A.
  int64_t packed_floats() const;
  /// `to`: aligned to cache lines.
  void pack(const float* b, float* to) const;

  /// The same with scratch borrowed from the arenas.
  void run(const float* a, const float* b, float* c) const;

  /// How k is cut, whatever the number of threads; of products of the library all of it.
  const MatmulBlocks& blocks() const { return blocks_; }

 private:
  /// How so many threads share the work: of panels m and n are cut as suits them, k never.
  MatmulBlocks blocks_for(int threads, bool b_packed) const;

  MatmulSpec spec_;       // normalised: C has unit column stride, batches merged or folded into m
                          // where that is possible
  bool swapped_ = false;  // the transposed product is computed: a and b change places
  MatmulBlocks blocks_;
  products::RememberedCut cut_;
  int split_parts_ = 0;  // of bf16, if products are computed so; then there are no blocks
  std::shared_ptr<BlockPrimitive> full_,
      last_;  // for blocks of blocks_.m rows, and for the last, shorter, one
};

/// The Matmul of `spec`, created on first use and kept for later calls (up to a bound). Thread
/// safe.
std::shared_ptr<const Matmul> shared_matmul(const MatmulSpec& spec);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_MATMUL_H
