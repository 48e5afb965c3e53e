// Slabs: groups that need of one another only what lies in the same slice of a dim that all of them
// have (a channel of a batch norm: its images are summed, the sums become a factor, the images are
// read again). Run one slice after the other, all but the first find theirs in the near caches.
// The bits are those of the groups alone.
#ifndef TANDEM_CODEGEN_FUSION_SLABS_H
#define TANDEM_CODEGEN_FUSION_SLABS_H

#include <optional>
#include <span>

#include "codegen/fusion/bundle.h"
#include "codegen/kernels/schedule.h"

namespace tandem::codegen {

/// The dims of a domain, of which `slab` counts the slabs.
struct SlabDims {
  Dims dims;
  size_t slab = 0;
};
/// Of `count` slabs that begin `inner` elements apart; nothing if the domain's loops cannot have
/// such a dim, or have it among several of a column sum's columns.
std::optional<SlabDims> slab_dims(const Domain& domain, int64_t inner, int64_t count);

/// From one slab of what a node of the domain writes to the next, in elements, if no element
/// belongs to two.
std::optional<int64_t> written_stride(const Node& node, const Domain& domain, const SlabDims& dims,
                                      int64_t count);

class SlabFinder {
 public:
  /// `stored`: by root, whether some group reads what another one writes, or it is an output.
  SlabFinder(const Program& program, const Table<RootId, bool>& stored)
      : program_(program), stored_(stored) {}
  struct Found {
    Slabs slabs;
    std::vector<size_t> members;  // positions of the groups, ascending
  };
  /// What is worth running slab by slab with the first of `groups`, if anything is: groups after
  /// it, of which none needs one that lies between them.
  Found find(std::span<const Group> groups) const;

 private:
  std::vector<RootId> read_inside(std::span<const Group> groups,
                                  std::span<const size_t> members) const;

  const Program& program_;
  const Table<RootId, bool>& stored_;
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_SLABS_H
