// Which sweep over a row computes which node of a group. A reduction of a row is known after the
// sweep that it runs in; what depends on it belongs to a later sweep. A value that a later sweep
// needs again is computed anew, or kept if that is cheaper. A sum of columns runs where it costs
// least. Reductions of rows run in one loop over the row; what steps unevenly inside it takes
// several (the channels of a group norm), and a sweep behind all of them.
#ifndef TANDEM_CODEGEN_KERNELS_SWEEPS_H
#define TANDEM_CODEGEN_KERNELS_SWEEPS_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// All indices are positions in group.nodes.
struct Sweeps {
  struct Sweep {
    std::vector<int> rows;     // row nodes that can be computed before this sweep, ascending
    std::vector<int> compute;  // element nodes and reductions, as they run (sweep_order.h)
    std::vector<int> reload;   // element nodes kept by an earlier sweep
    bool uneven = false;       // something in it steps inside rows
  };
  std::vector<Sweep> sweeps;
  std::vector<int> ready;  // per node: the sweep in which it is first computed
  std::vector<bool> kept;  // per node: later sweeps read it back
};

/// `is_stored`: by root, whether its memory is written.
Sweeps make_sweeps(const Program& program, const Group& group, int64_t cols,
                   const Table<RootId, bool>& is_stored);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_SWEEPS_H
