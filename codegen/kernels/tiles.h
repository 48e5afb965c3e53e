// Tiles: how a group runs whose accesses are not all contiguous along the same dim.
#ifndef TANDEM_CODEGEN_KERNELS_TILES_H
#define TANDEM_CODEGEN_KERNELS_TILES_H

#include "codegen/kernels/schedule.h"

namespace tandem::codegen {

/// The row dim that `v` is contiguous along while it steps over the columns, or -1.
int row_dim_along(const View& v, const Dims& dims);

/// Whether the group does nothing but copy between memories of which just one is contiguous along
/// row dim `dim`: such a tile needs no local copy.
bool is_transposition(const Program& p, const Group& g, const Dims& dims, int dim);

/// The tiles that the group runs in; dim -1 for none. Those of a transposition are strips.
Tile tile_of(const Program& p, const Group& g);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_TILES_H
