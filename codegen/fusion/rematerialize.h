// Rematerialization: what is cheap is computed again where another kernel reads it, so that it need
// not lie in memory in between.
#ifndef TANDEM_CODEGEN_FUSION_REMATERIALIZE_H
#define TANDEM_CODEGEN_FUSION_REMATERIALIZE_H

#include <vector>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

struct Fusion {
  Program program;
  std::vector<Group> groups;
};

/// The groups of a program in which a large value of a few short pointwise nodes has nodes of its
/// own in every group that reads it, where that makes no group read more large values than before.
Fusion fuse_lean(Program program);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_REMATERIALIZE_H
