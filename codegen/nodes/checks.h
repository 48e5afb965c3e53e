// Which nodes can fail on data: on an index out of range, an integer divided by zero. What was
// checked before cannot fail again, so the gradient of an embedding, which adds at the positions
// that the embedding read, cannot.
#ifndef TANDEM_CODEGEN_NODES_CHECKS_H
#define TANDEM_CODEGEN_NODES_CHECKS_H

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/nodes/program.h"

namespace tandem::codegen {

class Checks {
 public:
  /// Whether `node`, which runs after all that were asked about, can fail. What it checks is known
  /// from then on.
  bool can_fail(const Node& node);

 private:
  /// The elements that a view reads: its root, where it begins, sizes and strides.
  using Elements = std::tuple<RootId, int64_t, std::vector<std::pair<int64_t, int64_t>>>;
  static Elements elements(const View& index);

  std::map<Elements, int64_t> below_;  // what these elements are known to be less than
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_NODES_CHECKS_H
