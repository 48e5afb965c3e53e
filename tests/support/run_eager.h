// An interpreter of Traced graphs over eager tensors: each equation goes through the runtime's
// dispatch, gradients come from the tape.
#ifndef TANDEM_TESTS_SUPPORT_RUN_EAGER_H
#define TANDEM_TESTS_SUPPORT_RUN_EAGER_H

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tools/files.h"

namespace tandem::testing {

/// Takes and returns what tools::run_graph does with gradients. Throws what eager execution throws
/// (a program may write what the tape saved).
tools::Tensors run_eager(const ir::Graph& traced, const tools::Tensors& tensors);

/// Takes besides a direction for each input that moves, by its name; gives no gradients, but the
/// tangent of each result that requires grad, as "moved:" and its name.
tools::Tensors run_moving(const ir::Graph& traced, const tools::Tensors& tensors,
                          const tools::Tensors& directions);

/// What run_eager gives for each of `examples`, by one run under vmap; inputs and tangents that are
/// called in `shared` are the first one's for all.
std::vector<tools::Tensors> run_batched(const ir::Graph& traced,
                                        const std::vector<tools::Tensors>& examples,
                                        const std::set<std::string>& shared);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RUN_EAGER_H
