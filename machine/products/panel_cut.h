// How a product in panels is cut into blocks for so many threads. No bit of it depends on that.
#ifndef TANDEM_MACHINE_PRODUCTS_PANEL_CUT_H
#define TANDEM_MACHINE_PRODUCTS_PANEL_CUT_H

#include <atomic>
#include <cstdint>

#include "machine/products/panels.h"

namespace tandem::machine::products {

/// Products [m, k] x [k, n] of so many matrices, each in `chunks` parts of k that are summed apart;
/// how A and B are stored; and whether B is in panels already.
struct PanelWork {
  int64_t matrices, m, n, k, chunks, a_stride;
  bool a_transposed, b_transposed, b_packed = false;
};

/// Rows and columns of the blocks of C, and how many blocks at least are worth a thread. But for
/// the last ones rows are whole tiles, or as many in each block as can be; columns are whole
/// vectors.
struct PanelCut {
  int64_t m, n, grain;
};

/// The cut that `threads` threads are expected to finish first. (Blocks of a packed B begin where
/// its panels do.)
PanelCut cut_for(const Panels& panels, const PanelWork& work, int threads);

/// The cut of one product for the number of threads that last asked for it, and for a B that is
/// packed or not. Thread safe.
class RememberedCut {
 public:
  PanelCut of(const Panels& panels, const PanelWork& work, int threads) const;

 private:
  struct Entry {
    uint64_t threads : 9, grain : 5, b_packed : 1, row_blocks : 7, equal_rows : 1, vectors : 25;
  };
  mutable std::atomic<Entry> last_{};
};

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_PANEL_CUT_H
