// The specification of each level, as a check. Every graph:
// - Inputs: names are not empty and unique; values in ascending order; alias_of names another
//   input, without cycles; only floating tensors require gradients; an rng is i64 [2].
// - Equations: operands are defined before; operands, attributes and result types are as the op's
//   row says; a token has at most one use, and only ops with subgraphs and ordered ones take or
//   give one.
// - Outputs: values exist. Strides of inputs and outputs fit the value's rank; none is negative.
// - Targets: of a Tangent (Joint, Core) a Result or MutatedInput output, of MutatedInput and
//   Gradient an input, of the same type. In a Backward graph they are the joint graph's, so they
//   are only not negative. Other roles have none.
// - Epilogue: indices exist; a write is of a MutatedInput output to its target; chains are views
//   that fit; results refer to earlier results; a change names an input and a result.
// - Subgraphs: at most kMaxNesting deep, verified like graphs, but with any roles; Functional or of
//   the same level (in Core and later: Core or the same). call: operands and results are body's
//   inputs and outputs. custom_function: the same with forward; backward maps (forward's Saved
//   outputs, a tangent for each other output) to gradients, whose target is an operand. hook:
//   backward maps a value to one of the same type. cond, while_loop, scan: bodies take what the
//   operands are and give what the results are, or slices of these along dimension 0; a predicate
//   is a bool.
// By level:
// - Traced: in-place equations of ops that have that form, without results; no epilogue results or
//   writes. Other levels: no in-place equations.
// - Core, Forward, Backward: only primitives.
// - Joint, Core: no output but a Gradient or Token depends on a tangent; what depends on one takes
// no
//   token that does not.
// - Traced, Functional, Forward: no equation of the backward half.
// - Roles: those in the table of ir/README.md.
#ifndef TANDEM_IR_VERIFY_VERIFY_H
#define TANDEM_IR_VERIFY_VERIFY_H

#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <string_view>

namespace tandem::ir {

/// Graphs that may lie one inside another. What reads, checks and lowers them calls itself for
/// each.
inline constexpr int kMaxNesting = 64;

/// Throws Error{Graph} that names the equation and prints its surroundings if `graph` breaks a rule
/// of its level.
TANDEM_API void verify(const Graph& graph);

/// verify(), but what it finds is Tandem's own fault: throws InternalError that names the pass.
/// Called after every pass in tests, in dev builds and with TANDEM_VERIFY=1.
void verify_after(std::string_view pass, const Graph& graph);

/// Whether passes are verified in this process.
bool verification_enabled();

}  // namespace tandem::ir

#endif  // TANDEM_IR_VERIFY_VERIFY_H
