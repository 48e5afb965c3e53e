// Products of f32 matrices by loops of ours: operands are brought into panels, and tiles of the
// result are summed in registers.
#ifndef TANDEM_MACHINE_PRODUCTS_PANELS_H
#define TANDEM_MACHINE_PRODUCTS_PANELS_H

#include <cstdint>

namespace tandem::machine::products {

/// A matrix of contiguous rows, or columns (`transposed`), `stride` elements apart.
struct Operand {
  const float* data;
  int64_t stride;
  bool transposed;
};

/// Columns from `first` on, where a panel begins, of a matrix of n columns that pack() brought into
/// panels.
struct PackedColumns {
  constexpr PackedColumns() = default;
  constexpr PackedColumns(const float* columns, int64_t all, int64_t first_column)
      : data(columns), n(all), first(first_column) {}  // (Else a pointer alone would do as one.)

  const float* data = nullptr;
  int64_t n = 0, first = 0;
};

/// C [m, n] = A [m, k] B [k, n], or C += A B, or a bias + A B; C's rows are contiguous. An
/// element's bits depend on its row of A and column of B, and what these are added to, alone: on no
/// stride, nor on where a larger product was cut into these. Memory outside of the matrices is not
/// touched.
struct Product {
  int64_t m, n, k;
  Operand a, b;
  float* c;
  int64_t c_stride;
  bool adds;
  const float* bias = nullptr;  // [n], of a product that does not add to C
  PackedColumns packed;         // B's; if it has data, b is not read
};

/// Nanoseconds that the parts of a product take on one thread, its operands in the second-level
/// cache.
struct PanelRates {
  double multiply;                   // a multiplication and its addition
  double tile;                       // a tile of each part of k, besides its sums
  double read_a;                     // an element of A, for each panel of B
  double fetch_a;                    // at first, where it lies
  double pack_rows, pack_columns;    // or packed, of rows or columns
  double pack_b, pack_transposed_b;  // an element of B
};

/// A vector of `k` elements, `stride` apart.
struct Vector {
  const float* data;
  int64_t stride;
};

/// Contiguous lines, rows or columns, `stride` apart.
struct Lines {
  const float* data;
  int64_t count, stride;
};

/// A result with an element for each line and each of a few.
template <class T>
struct Grid {
  T* data;
  int64_t line, few;  // how far elements lie apart
  T* at(int64_t i, int64_t j) const { return data + i * line + j * few; }
};

/// The sum of k products of each line with each of a few, plus what `start` has, if anything: it
/// may be the sums' own place.
struct Dots {
  Lines lines, few;
  int64_t k;
  Grid<float> sums;
  Grid<const float> start;
};

/// What one instruction set computes products with.
struct Panels {
  /// Rows and columns of a tile, columns of a vector, the rows of A that are packed together and
  /// the longest part of k: what a cut should know.
  int64_t tile_rows, tile_columns, vector_columns, block_rows, depth;
  PanelRates rates;
  /// Floats of working memory, aligned to cache lines, for products of at most these sizes.
  int64_t (*scratch)(int64_t m, int64_t n, int64_t k);
  void (*multiply)(const Product& product, float* scratch);
  /// Whether A, so stored, is packed for n columns of B: for few it costs more than it saves.
  bool (*packs)(bool transposed, int64_t stride, int64_t n);
  /// Columns of the panel that comes next where `left` columns are left.
  int64_t (*panel_columns)(int64_t left);
  /// What B [k, n] takes in panels, and its columns from `j` on, one panel's, brought there.
  int64_t (*packed_floats)(int64_t n, int64_t k);
  void (*pack)(const Operand& b, int64_t n, int64_t k, int64_t j, float* to);
  /// The sum of k products, whose bits depend on no stride.
  float (*dot)(const Vector& a, const Vector& b, int64_t k);
  /// The bits of each sum depend on its two lines alone, and on what it is added to.
  void (*dots)(const Dots& x);
};

extern const Panels kPanelsAvx2, kPanelsAvx512;

/// Those of this processor; null if it has no AVX2, where the library's products are taken.
const Panels* panels();

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_PANELS_H
