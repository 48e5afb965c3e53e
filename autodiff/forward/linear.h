// Which functions of one gradient give of a sum the sum of what they give of its terms.
#ifndef TANDEM_AUTODIFF_FORWARD_LINEAR_H
#define TANDEM_AUTODIFF_FORWARD_LINEAR_H

#include "ir/graph.h"

namespace tandem::autodiff {

/// Whether `body`, of one input and one output, is linear in it, roundings aside. Asks the rules of
/// its equations, each by itself: "no" of what is linear only as a whole, and of loops and
/// branches.
bool is_linear(const ir::Graph& body);

/// Whether the hooks of a Functional graph are.
bool has_linear_hooks(const ir::Graph& graph);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_FORWARD_LINEAR_H
