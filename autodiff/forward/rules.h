// How the rules of tangents are written: by kind, or as a formula, e.g.
//   const JvpRule jvp_mm = multilinear(kSelf | kOther);
//   const JvpRule jvp_matrix_exp =
//       formula([](Along a) { return matrix_exp_along(a.x(), a.t()); });
#ifndef TANDEM_AUTODIFF_FORWARD_RULES_H
#define TANDEM_AUTODIFF_FORWARD_RULES_H

#include "autodiff/forward/jvp.h"
#include "autodiff/rules.h"

namespace tandem::autodiff {

// One rule per op; an op without a definition in this folder does not link.
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  extern const JvpRule jvp_##name;
#include "ir/ops.def"

/// The equation as the formulas of gradients see it, to which none arrived yet.
struct Equation {
  explicit Equation(JvpContext& c);

  ir::ValueList grads;
  ir::InlineVector<bool, 8> needs;
  VjpContext context;
};

/// What a formula sees: operands, results, and the operands' tangents.
struct Along : private Equation, Args {
  explicit Along(JvpContext& c) : Equation(c), Args(Equation::context), tangents(c.tangents) {}
  Along(const Along&) = delete;  // the context lies in it
  Along& operator=(const Along&) = delete;

  bool moves(size_t operand) const {
    return operand < tangents.size() && tangents[operand].valid();
  }
  Term t(size_t operand = 0) const { return {&b, tangents[operand]}; }

  std::span<const V> tangents;
};

/// The part of an operand that through_operands leaves to others.
struct NoPart {};

/// The sum of `parts`, each of the tangent of the operand in its place, where it has one; empty
/// where none has.
template <class... F>
std::optional<Term> through_operands(const Along& a, F... parts) {
  std::optional<Term> sum;
  const auto add = [&](size_t operand, auto part) {
    if constexpr (!std::is_same_v<decltype(part), NoPart>)
      if (a.moves(operand)) sum = sum ? *sum + part(a.t(operand)) : part(a.t(operand));
  };
  size_t i = 0;
  (add(i++, parts), ...);
  return sum;
}

inline V as_value(Term t) { return t.v; }
inline V as_value(V v) { return v; }
inline V as_value(const std::optional<Term>& t) { return t ? t->v : V(); }

/// The tangents of an op's results, in order.
template <class... T>
Tangents results(const T&... tangents) {
  return {as_value(tangents)...};
}

inline Tangents as_tangents(Tangents all) { return all; }
template <class T>
Tangents as_tangents(const T& one) {
  return results(one);
}

template <class F>
constexpr JvpRule formula(F) {
  return {JvpRule::Kind::Formula, 0, [](JvpContext& c) { return as_tangents(F{}(Along(c))); }};
}

constexpr JvpRule linear(Reads in) { return {JvpRule::Kind::Linear, in.operands}; }
constexpr JvpRule multilinear(Reads in) { return {JvpRule::Kind::Multilinear, in.operands}; }
inline constexpr Reads kEveryOperand{~0u, 0};
inline constexpr JvpRule kElementwise{JvpRule::Kind::Elementwise};
inline constexpr JvpRule kNoTangent{JvpRule::Kind::None};
inline constexpr JvpRule kOfSubgraph{JvpRule::Kind::Subgraph};

/// Gradients of the operands from `grad` of result `result` alone, where they are `wanted`.
Gradients gradients_of(JvpContext& c, size_t result, V grad, size_t wanted);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_FORWARD_RULES_H
