// The table of rules, in the order of ops.def, and its one caller.
#include "autodiff/vjp.h"

#include <fmt/format.h>

#include <algorithm>

#include "autodiff/rules.h"
#include "ir/base/error.h"

namespace tandem::autodiff {
namespace {

const VjpRule* const kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) &vjp_##name,
#include "ir/ops.def"
};

void check_gradients(const VjpContext& c, const Gradients& gradients) {
  TANDEM_CHECK(gradients.size() == c.operands.size(), std::string(ir::name(c.op)));
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i])
      TANDEM_CHECK(c.b.type(*gradients[i]) == c.b.type(c.operands[i]),
                   fmt::format("{}: the gradient of operand {} is {}, the operand {}",
                               ir::name(c.op), i, ir::to_string(c.b.type(*gradients[i])),
                               ir::to_string(c.b.type(c.operands[i]))));
}

/// needs_grad without the operands of integral dtype.
ir::InlineVector<bool, 8> floating_only(const VjpContext& c) {
  ir::InlineVector<bool, 8> needs(c.operands.size());
  for (size_t i = 0; i < c.operands.size(); ++i)
    needs[i] = c.needs_grad[i] && ir::is_differentiable(c.b.dtype(c.operands[i]));
  return needs;
}

}  // namespace

const VjpRule& vjp_rule(ir::Op op) { return *kRules[static_cast<size_t>(op)]; }

std::string not_differentiable(std::string_view operator_name) {
  if (operator_name == ir::name(ir::Op::while_loop))
    return "while_loop: no gradient, since nothing bounds what would have to be kept; expected "
           "max_steps, scan or fori_loop";
  return fmt::format(
      "{}: not differentiable; expected detach() before it, or an operator that has a gradient",
      operator_name);
}

Gradients apply_vjp(VjpContext& context) {
  const VjpRule& rule = vjp_rule(context.op);
  if (rule.kind == VjpRule::Kind::NotDifferentiable)
    ir::fail(ir::Errc::Autograd, not_differentiable(ir::name(context.op)));
  TANDEM_CHECK(rule.kind != VjpRule::Kind::Subgraph,
               "ops with subgraphs are differentiated by who owns the subgraphs");
  const auto needs = floating_only(context);
  for (size_t i = 0; i < needs.size(); ++i)
    if (needs[i] && rule.refuses(i))
      ir::fail(ir::Errc::Autograd, not_differentiable(ir::name(context.op)));
  VjpContext masked{context.b,     context.op, context.operands, context.results, context.attrs,
                    context.grads, needs};
  if (rule.refusal != nullptr)
    if (const std::string why = rule.refusal(masked); !why.empty())
      ir::fail(ir::Errc::Autograd, why);
  Gradients gradients = rule.apply(masked);
  check_gradients(masked, gradients);
  return gradients;
}

}  // namespace tandem::autodiff
