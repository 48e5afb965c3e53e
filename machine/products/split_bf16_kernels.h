// Products of f32 matrices in parts of bf16 by one thread: what AMX computes of split_bf16.h.
#ifndef TANDEM_MACHINE_PRODUCTS_SPLIT_BF16_KERNELS_H
#define TANDEM_MACHINE_PRODUCTS_SPLIT_BF16_KERNELS_H

#include <cstdint>

#include "machine/products/panels.h"

namespace tandem::machine::products {

/// Lines (rows of A, columns of B) of a panel, and how much of k a step of it holds.
inline constexpr int64_t kSplitLines = 32, kSplitStep = 32;

/// bf16 numbers of a panel: each of `parts` parts of each element, zeros beyond the last.
constexpr int64_t split_panel(int64_t depth, int parts) {
  return (depth + kSplitStep - 1) / kSplitStep * kSplitStep * kSplitLines * parts;
}

/// Rows [lines, depth] of A, or columns [depth, lines] of B.
struct SplitSource {
  Operand operand;  // from the first element on
  int64_t lines, depth;
};

/// Panels, `size` numbers apart, and the largest magnitude in each; infinity or NaN where one is.
struct SplitPanels {
  uint16_t* data;
  int64_t size;
  float* largest;
  SplitPanels from(int64_t panel) const { return {data + panel * size, size, largest + panel}; }
};

/// Brings up to kSplitPanels panels' lines there.
inline constexpr int64_t kSplitPanels = 4;
void split_rows(const SplitSource& a, int parts, const SplitPanels& to);
void split_columns(const SplitSource& b, int parts, const SplitPanels& to);

/// C [m, n] (at most kSplitLines of each) = `start` + the product of a panel of rows and one of
/// columns; where the magnitudes in them are too large or too small for parts, of their sources.
struct SplitTile {
  SplitSource a, b;
  const uint16_t *a_panel, *b_panel;
  bool in_parts;
  float* c;
  int64_t c_stride;
  const float* start;  // rows `start_stride` apart: C itself, or a bias; null: zero
  int64_t start_stride;
};

/// While it lives this thread's tiles have the shape that multiply() expects. (Whoever else uses
/// tiles sets them anew, and so do we.)
class SplitTiles {
 public:
  SplitTiles();
  ~SplitTiles();
  SplitTiles(const SplitTiles&) = delete;
  SplitTiles& operator=(const SplitTiles&) = delete;
  void multiply(const SplitTile& tile, int parts) const;
};

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_SPLIT_BF16_KERNELS_H
