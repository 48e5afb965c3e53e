// VJP rules: for every op, how gradients of its results become gradients of its operands. One table
// serves the joint pass and the eager tape; rules are written against Builder, so they can be
// recorded, run at once, and differentiated again.
#ifndef TANDEM_AUTODIFF_VJP_H
#define TANDEM_AUTODIFF_VJP_H

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/build/builder.h"

namespace tandem::autodiff {

/// What a rule sees. Values outside what the rule declares to read (VjpRule::reads) may be looked
/// at for their types only.
struct VjpContext {
  ir::Builder& b;
  ir::Op op;
  std::span<const ir::ValueId> operands;
  std::span<const ir::ValueId> results;
  std::span<const ir::AttrValue> attrs;
  std::span<const ir::ValueId> grads;  // by result: invalid where none arrived; at least one did
  std::span<const bool> needs_grad;    // by operand: nothing need be computed where false

  template <class T>
  const T& attr(ir::Attr name) const {
    return std::get<T>(attrs[ir::attr_index(op, name)]);
  }
  ir::ValueId operand(int i) const { return operands[i]; }
  bool needs(int i) const { return needs_grad[i]; }
};

/// One gradient per operand; empty where it is zero or not needed (symbolic zero: nothing is
/// computed).
using Gradients = std::vector<std::optional<ir::ValueId>>;

/// Bit `i` of a mask of operands or results. Longer lists (cat's) have no bits: no rule reads any
/// of them, or refuses one.
constexpr bool has_bit(uint32_t mask, size_t i) { return i < 32 && (mask >> i & 1) != 0; }

/// Which values a rule reads, given which operands need gradients: bit i of `operands` is operand
/// i, bit i of `results` result i. This is what the eager tape holds.
struct Reads {
  uint32_t operands = 0;
  uint32_t results = 0;
};

struct VjpRule {
  enum class Kind : uint8_t {
    Differentiable,
    ZeroGradient,       // blocks gradients, or its results have none: nothing flows to the operands
    NotDifferentiable,  // a deliberate gap: asking for the gradient is an Error{Autograd} that
                        // names the op
    Subgraph,  // call, custom_function, hook: handled by joint and tape, which own the subgraphs
  };
  Kind kind = Kind::NotDifferentiable;
  Gradients (*apply)(VjpContext&) = nullptr;
  Reads (*reads)(std::span<const bool> needs_grad) = nullptr;
  uint32_t refused = 0;  // bit i: of operand i there is no derivative, as if NotDifferentiable
  /// Why there is none for operands of these types and attributes; "" where there is one. Null:
  /// there always is.
  std::string (*refusal)(const VjpContext&) = nullptr;

  bool refuses(size_t operand) const {
    return kind == Kind::NotDifferentiable || has_bit(refused, operand);
  }
};

const VjpRule& vjp_rule(ir::Op op);

/// What an Error says of a gradient through an operator that has none.
std::string not_differentiable(std::string_view operator_name);

/// Runs op's rule on the context; results are checked against the operands' types. Operands of
/// integral dtype have no gradient, whatever needs_grad says. Error{Autograd} for an op that is not
/// differentiable; ops with subgraphs are the caller's (joint.h says what those map).
Gradients apply_vjp(VjpContext& context);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_VJP_H
