// Elements of a value, as far as they are known before anything runs.
#ifndef TANDEM_CODEGEN_NODES_ELEMENTS_H
#define TANDEM_CODEGEN_NODES_ELEMENTS_H

#include <vector>

#include "codegen/nodes/view.h"

namespace tandem::codegen {

/// Elements of a value: from `offset` on in steps of each run; those of an access at positions from
/// data are all that it may reach.
struct Elements {
  int64_t offset = 0;
  std::vector<Run> runs;
};

Elements elements_of(const View& view);

/// False if the two may have an element in common.
bool are_apart(const Elements& a, const Elements& b);
bool are_apart(const std::vector<Elements>& a, const std::vector<Elements>& b);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_NODES_ELEMENTS_H
