// Branches and scans that are differentiated: custom_function equations, whose backward is a branch
// or a scan in the other direction. Each body is computed again there from its operands, of a scan
// from the carries of each step, which are kept.
#ifndef TANDEM_AUTODIFF_CONTROL_GRADIENT_H
#define TANDEM_AUTODIFF_CONTROL_GRADIENT_H

#include <vector>

#include "ir/graph.h"

namespace tandem::autodiff {

/// The halves of a custom_function. `forward` gives the equation's results, then further ones that
/// nobody but `backward` reads, which takes no tangents of these.
struct Halves {
  ir::Graph forward, backward;
};

/// Whether an equation of `op` has halves: cond and scan have.
bool has_halves(ir::Op op);
/// `needs`: by operand of `e`, whether its gradient is wanted.
Halves halves_of(const ir::Graph& graph, ir::EquationId e, const std::vector<bool>& needs);

struct WithHalves {
  ir::Graph graph;
  std::vector<bool> own;  // by equation: whether it was made here
};
/// `functional` with custom_functions in place of the branches and loops that have halves and that
/// an active value goes into.
WithHalves with_halves(ir::Graph functional, ir::ValueMap<bool> (*find_active)(const ir::Graph&));

/// joint of `graph` for gradients of these inputs from tangents of these outputs.
ir::Graph joint_for(ir::Graph graph, const std::vector<bool>& needs,
                    const std::vector<bool>& arrives);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_CONTROL_GRADIENT_H
