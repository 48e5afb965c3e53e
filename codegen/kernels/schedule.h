// Schedule: how a group's domain runs over loops: units for threads, rows, and sweeps over columns.
#ifndef TANDEM_CODEGEN_KERNELS_SCHEDULE_H
#define TANDEM_CODEGEN_KERNELS_SCHEDULE_H

#include <vector>

#include "codegen/fusion/fuse.h"
#include "codegen/kernels/kernel_writer.h"

namespace tandem::codegen {

/// The dims of a domain, outermost first; dims before `row_dims` count rows, the others columns.
struct Dims {
  std::vector<int64_t> sizes;
  size_t row_dims = 0;
  int64_t rows = 1, cols = 1;

  size_t count() const { return sizes.size(); }
};
Dims dims_of(const Domain& domain);

/// The view's stride over each of the dims [first, last).
std::vector<int64_t> strides_over(const View& v, const Dims& dims, size_t first, size_t last);

struct Schedule {
  Dims dims;
  std::vector<DimLoops> loops;  // per dim; of column dims only what all sweeps share
  std::vector<LoopId> rows;     // loops to open, outermost first
  int64_t col_chunk = 0;        // columns of a unit
  LoopId chunk_loop;            // unit loop over chunks of columns, or none
  LoopId block_loop;            // unit loop over a partial reduction's blocks, or none
  int tile_dim = -1;            // of a unit that is a tile: its row dim, or -1
  LoopId tile_loop;             // unit loop over chunks of the tile dim
  int64_t tile_rows = 0;        // of a tile
  int64_t units = 1;
};

/// A row dim that some accesses are contiguous along instead of along the columns (or -1): units
/// are then tiles of about `rows` of it and `columns`, so that each cache line that such an access
/// touches is used up while it is near.
struct Tile {
  int dim = -1;
  int64_t rows = 64, columns = 64;
  bool along_rows = false;  // a unit's neighbour lies along `dim` rather than along the columns
};

/// What an element of the group costs in its sweeps, in nanoseconds.
double cost_per_element(const Program& p, const Group& g, const Table<RootId, bool>& is_stored);

/// Declares the unit and row loops in `writer`. `cost`: nanoseconds per element.
Schedule make_schedule(const Domain& domain, double cost, const Tile& tile, KernelWriter& writer);

/// The schedule of a group that runs slab by slab, inside unit loop `slab`: of dims of which dim
/// `slab_dim` counts the slabs.
Schedule make_slab_schedule(Dims dims, size_t slab_dim, LoopId slab, KernelWriter& writer);

/// The smallest number of `units` that pays for a thread: of `total` elements that cost `cost`
/// each.
int64_t grain_of(int64_t units, double total, double cost);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_SCHEDULE_H
