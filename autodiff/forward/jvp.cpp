// The table of rules, in the order of ops.def, what the kinds mean, and the one caller.
#include "autodiff/forward/jvp.h"

#include <fmt/format.h>

#include "autodiff/forward/rules.h"
#include "ir/base/error.h"

namespace tandem::autodiff {
namespace {

const JvpRule* const kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) &jvp_##name,
#include "ir/ops.def"
};

/// The results of `op` on other operands, as tangents.
Tangents emitted(JvpContext& c, std::span<const V> operands) {
  Tangents tangents = c.b.emit_all(c.op, operands, c.attrs);
  for (V& v : tangents)
    if (!ir::is_differentiable(c.b.type(v))) v = V();
  return tangents;
}

bool is_moving(const JvpRule& rule, size_t operand) {
  return rule.moving == kEveryOperand.operands || has_bit(rule.moving, operand);
}

/// On tangents in place of all operands that it is linear in.
Tangents through_linear(const JvpRule& rule, JvpContext& c) {
  ir::ValueList operands;
  bool any = false;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const bool moving = is_moving(rule, i);
    any = any || (moving && c.tangents[i].valid());
    operands.push_back(!moving                 ? c.operands[i]
                       : c.tangents[i].valid() ? c.tangents[i]
                                               : c.b.zeros_like(c.operands[i]));
  }
  return any ? emitted(c, operands) : Tangents(c.results.size());
}

void add_each(Builder& b, Tangents& sums, const Tangents& more) {
  for (size_t i = 0; i < sums.size(); ++i)
    if (more[i].valid()) sums[i] = sums[i].valid() ? b.add(sums[i], more[i]) : more[i];
}

/// On one tangent at a time.
Tangents through_multilinear(const JvpRule& rule, JvpContext& c) {
  Tangents sums(c.results.size());
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (!is_moving(rule, i) || !c.tangents[i].valid()) continue;
    ir::ValueList operands(c.operands);
    operands[i] = c.tangents[i];
    add_each(c.b, sums, emitted(c, operands));
  }
  return sums;
}

/// By the rule of its gradient, of one operand at a time.
Tangents through_gradient(JvpContext& c) {
  Tangents sum(c.results.size());
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (!c.tangents[i].valid()) continue;
    const auto gradient = gradients_of(c, 0, c.tangents[i], i)[i];
    if (gradient) sum[0] = sum[0].valid() ? c.b.add(sum[0], *gradient) : *gradient;
  }
  return sum;
}

/// `moved` [.., n, ..] summed as the op reduces its operand.
V reduced(JvpContext& c, V moved) {
  const auto attr = [&](Attr name) -> const ir::AttrValue& {
    return c.attrs[static_cast<size_t>(ir::attr_index(c.op, name))];
  };
  if (c.op == Op::cross_entropy)
    return std::get<std::string>(attr(Attr::reduction)) == "none" ? c.b.sum(moved, {1})
                                                                  : c.b.sum(moved);
  return c.b.emit(Op::sum, {moved}, {attr(Attr::dims), attr(Attr::keepdim), ir::Dims{}});
}

Tangents through_reduced(JvpContext& c) {
  Tangents tangents(c.results.size());
  for (size_t r = 0; r < c.results.size() && c.tangents[0].valid(); ++r) {
    if (!ir::is_differentiable(c.b.type(c.results[r]))) continue;
    const V slopes = *gradients_of(c, r, c.b.full_like(c.results[r], 1), 0)[0];
    tangents[r] = reduced(c, c.b.mul(slopes, c.tangents[0]));
  }
  return tangents;
}

Tangents through(const JvpRule& rule, JvpContext& c) {
  using Kind = JvpRule::Kind;
  switch (rule.kind) {
    case Kind::Elementwise:
      return through_gradient(c);
    case Kind::Reduced:
      return through_reduced(c);
    case Kind::Linear:
      return through_linear(rule, c);
    case Kind::Multilinear:
      return through_multilinear(rule, c);
    case Kind::Formula:
      return rule.formula(c);
    case Kind::None:
    case Kind::Subgraph:
      break;
  }
  TANDEM_CHECK(false, std::string(ir::name(c.op)) + " has no formula");
  return {};
}

/// Without the tangents of integers, which nothing moves.
ir::ValueList floating_tangents(const JvpContext& c) {
  ir::ValueList tangents(c.tangents);
  for (size_t i = 0; i < tangents.size(); ++i)
    if (!ir::is_differentiable(c.b.type(c.operands[i]))) tangents[i] = V();
  return tangents;
}

/// Whether tangents go where gradients come from.
bool follows_gradient(const JvpRule& rule) {
  return rule.kind == JvpRule::Kind::Elementwise || rule.kind == JvpRule::Kind::None;
}

void check_tangents(const JvpContext& c, const Tangents& tangents) {
  TANDEM_CHECK(tangents.size() == c.results.size(), std::string(ir::name(c.op)));
  for (size_t i = 0; i < tangents.size(); ++i)
    if (tangents[i].valid())
      TANDEM_CHECK(
          c.b.type(tangents[i]) == c.b.type(c.results[i]),
          fmt::format("{}: the tangent of result {} is {}, the result {}", ir::name(c.op), i,
                      ir::to_string(c.b.type(tangents[i])), ir::to_string(c.b.type(c.results[i]))));
}

}  // namespace

Equation::Equation(JvpContext& c)
    : grads(c.results.size()),
      needs(c.operands.size()),
      context{c.b, c.op, c.operands, c.results, c.attrs, grads, {needs.data(), needs.size()}} {}

Gradients gradients_of(JvpContext& c, size_t result, V grad, size_t wanted) {
  Equation equation(c);
  equation.grads[result] = grad;
  equation.needs[wanted] = true;
  return apply_vjp(equation.context);
}

const JvpRule& jvp_rule(Op op) { return *kRules[static_cast<size_t>(op)]; }

std::string no_forward_rule(std::string_view function) {
  return fmt::format(
      "{}: no derivative along a tangent is known; expected operators that Tandem knows, or "
      "detach() before it",
      function);
}

Tangents apply_jvp(const JvpContext& context) {
  const VjpRule& gradient = vjp_rule(context.op);
  const JvpRule& rule = jvp_rule(context.op);
  if (gradient.kind == VjpRule::Kind::ZeroGradient && follows_gradient(rule))
    return Tangents(context.results.size());
  const ir::ValueList tangents = floating_tangents(context);
  bool any = false;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].valid()) continue;
    if (gradient.refuses(i)) ir::fail(ir::Errc::Autograd, not_differentiable(ir::name(context.op)));
    any = true;
  }
  if (!any) return Tangents(context.results.size());
  JvpContext floating{context.b,       context.op,    context.operands,
                      context.results, context.attrs, tangents};
  Tangents of_results = through(rule, floating);
  check_tangents(floating, of_results);
  return of_results;
}

}  // namespace tandem::autodiff
