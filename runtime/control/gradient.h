// Branches and scans that are differentiated: custom_function equations, whose backward is a branch
// or a scan in the other direction. Each body is computed again there from its operands, of a scan
// from the carries of each step, which are kept.
#ifndef TANDEM_RUNTIME_CONTROL_GRADIENT_H
#define TANDEM_RUNTIME_CONTROL_GRADIENT_H

#include <tandem/control_flow.h>

#include "ir/graph.h"

namespace tandem::control {

/// Whether a gradient flows to one of them in this thread's grad mode.
bool wants_gradient(const Tensors& operands);

/// `operands`: the predicate, then the branches'. `written`: of which the program writes contents
/// behind the equation.
Tensors differentiable_cond(const Tensors& operands, const ir::Graph& then,
                            const ir::Graph& otherwise, const std::vector<bool>& written);

/// A scan's attributes beside its body.
struct ScanShape {
  size_t carries, constants;
  int64_t length;
  bool reverse;
};
/// `operands`: carries, constants, xs. `results`: the types of the carries and of the stacked ys.
Tensors differentiable_scan(const Tensors& operands, const ir::Graph& body, const ScanShape& shape,
                            const std::vector<ir::Type>& results, const std::vector<bool>& written);

}  // namespace tandem::control

#endif  // TANDEM_RUNTIME_CONTROL_GRADIENT_H
