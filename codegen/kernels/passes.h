// Which pass over a row computes which node of a group. A reduction of a row is known after the
// pass that it runs in; what depends on it belongs to a later pass. A value that a later pass needs
// again is computed anew, or kept if that is cheaper. A sum of columns runs where it costs least.
#ifndef TANDEM_CODEGEN_KERNELS_PASSES_H
#define TANDEM_CODEGEN_KERNELS_PASSES_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// All indices are positions in group.nodes.
struct Passes {
  struct Pass {
    std::vector<int> rows;     // row nodes that can be computed before this pass, ascending
    std::vector<int> compute;  // element nodes and reductions, as they run (pass_order.h)
    std::vector<int> reload;   // element nodes kept by an earlier pass
  };
  std::vector<Pass> passes;
  std::vector<int> ready;  // per node: the pass in which it is first computed
  std::vector<bool> kept;  // per node: later passes read it back
};

/// `is_stored`: by value, whether its memory is written.
Passes make_passes(const Program& program, const Group& group, int64_t cols,
                   const std::vector<bool>& is_stored);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_PASSES_H
