// How a matrix product is normalised and cut into blocks: arithmetic on shapes alone, without the
// library.
#ifndef TANDEM_MACHINE_LIBRARY_MATMUL_BLOCKS_H
#define TANDEM_MACHINE_LIBRARY_MATMUL_BLOCKS_H

#include <optional>

#include "machine/library/matmul.h"

namespace tandem::machine {

/// A stored matrix as BLAS names it: rows contiguous, or columns (`transposed`), `ld` elements
/// apart.
struct BlasLayout {
  bool transposed = false;
  int64_t ld = 1;
};

/// The layout of a [rows, cols] matrix, or nothing when neither dimension is contiguous.
std::optional<BlasLayout> blas_layout(const MatrixStrides& strides, int64_t rows, int64_t cols);

/// C = A B as C^T = B^T A^T.
MatmulSpec swapped(const MatmulSpec& spec);

/// With outer and batch as one batch where the strides allow it, or one of them is 1.
MatmulSpec merge_batches(const MatmulSpec& spec);

/// With the batch folded into m where B is shared and the rows of A and C run on from one matrix to
/// the next.
MatmulSpec fold_batch(const MatmulSpec& spec);

/// Sums of at most so many products run side by side, whatever they are of.
inline constexpr int64_t kFewProducts = 32;

/// Whether rows of few elements are multiplied with one vector, and what they give lies in a row,
/// as it does in the transposed product.
bool is_column_of_few(const MatmulSpec& spec);

/// Rows or columns of C that are computed as sums along k, at most: of rows twice as many where
/// they are long, since no panels of B are made then.
inline constexpr int64_t kFewColumns = 4, kFewRows = 8;

/// Whether C is one number, or has few columns (rows) while the rows of A (columns of B) are
/// contiguous and long: these are read once, in vectors along k, and a panel would be mostly empty.
bool has_few_columns(const MatmulSpec& spec);
bool has_few_rows(const MatmulSpec& spec);
bool is_of_dots(const MatmulSpec& spec);

/// The cut of a supported, normalised spec with m, n, k > 0, into blocks for `algorithm`, Sgemm,
/// Panels or Dots; in place of Sgemm for Primitive where that pays, if `primitives` may be taken.
MatmulBlocks choose_blocks(const MatmulSpec& spec, BlockAlgorithm algorithm, bool primitives);

/// Counts the blocks that cut the spec.
void set_grid(MatmulBlocks& blocks, const MatmulSpec& spec);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_MATMUL_BLOCKS_H
