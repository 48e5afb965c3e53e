// Bundles: groups that cannot share an iteration space, but share a kernel: row by row, as they
// write regions of the same rows of one value (the parts of a concatenation), so that its memory is
// written in order, and once; or slab by slab (slabs.h).
#ifndef TANDEM_CODEGEN_FUSION_BUNDLE_H
#define TANDEM_CODEGEN_FUSION_BUNDLE_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// Groups that run slab by slab: of `count` slabs, which lie along a dim that all of them have, all
/// groups run one after the other, as if they were alone.
struct Slabs {
  int64_t count = 0;           // 0: they run row by row
  std::vector<int64_t> inner;  // by group: elements of its domain from a slab's to the next one's
  std::vector<RootId> inside;  // roots that nothing else reads: a slab of each is enough
  friend bool operator==(const Slabs&, const Slabs&) = default;
};

/// Groups of one kernel; more than one without slabs only if all have one row dim of the same size
/// and one column dim, no tiles, no reductions, and none reads what another one writes.
struct Bundle {
  std::vector<Group> groups;
  Slabs slabs = {};
  friend bool operator==(const Bundle&, const Bundle&) = default;
};

/// The groups in the same order, neighbours together where that is worth it. `stored`: as
/// stored_roots gives it.
std::vector<Bundle> bundle(const Program& program, std::vector<Group> groups,
                           const Table<RootId, bool>& stored);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_BUNDLE_H
