// JVP rules: for every op, how tangents of its operands become tangents of its results. One table
// serves the forward-mode pass and eager dual numbers; like VJP rules they are written against
// Builder, and are made of differentiable equations.
#ifndef TANDEM_AUTODIFF_FORWARD_JVP_H
#define TANDEM_AUTODIFF_FORWARD_JVP_H

#include <span>
#include <string>
#include <string_view>

#include "ir/build/builder.h"

namespace tandem::autodiff {

/// What a rule sees: all values of the equation may be read.
struct JvpContext {
  ir::Builder& b;
  ir::Op op;
  std::span<const ir::ValueId> operands;
  std::span<const ir::ValueId> results;
  std::span<const ir::AttrValue> attrs;
  std::span<const ir::ValueId> tangents;  // by operand: invalid where zero; at least one is not
};

/// Tangents by result, invalid where zero (symbolic: nothing is computed).
using Tangents = ir::ValueList;

struct JvpRule {
  enum class Kind : uint8_t {
    Elementwise,  // a diagonal or symmetric Jacobian: the VJP rule, on tangents
    Reduced,      // each element goes into one result: the gradients of ones times the tangents
    Linear,       // the op itself, on the tangents
    Multilinear,  // the op itself, on one tangent at a time
    Formula,
    None,      // as the VJP rule says: no tangent goes through it, or to ask for one is an Error
    Subgraph,  // call, custom_function, hook: who owns the subgraphs knows
  };
  Kind kind = Kind::None;
  uint32_t moving = 0;  // Linear, Multilinear: bit i: in operand i (all ones: in every one)
  Tangents (*formula)(JvpContext&) = nullptr;
};

const JvpRule& jvp_rule(ir::Op op);

/// What an Error says of a tangent through a function of the user's own.
std::string no_forward_rule(std::string_view function);

/// Runs op's rule; tangents have the types of what they belong to. Error{Autograd} for an op that
/// is not differentiable (by an operand with a tangent); ops with subgraphs are the caller's.
Tangents apply_jvp(const JvpContext& context);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_FORWARD_JVP_H
