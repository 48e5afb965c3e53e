// How vjp_*.cpp write rules: a rule is one formula per operand, each with the values it reads, e.g.
//   const VjpRule vjp_mul = rule(wrt<kOther>([](Args a) { return a.g * a.x(1); }),
//                                wrt<kSelf>([](Args a) { return a.g * a.x(0); }));
#ifndef TANDEM_AUTODIFF_RULES_H
#define TANDEM_AUTODIFF_RULES_H

#include "autodiff/vjp.h"

namespace tandem::autodiff {

// One rule per op; an op without a definition in a vjp_*.cpp does not link.
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  extern const VjpRule vjp_##name;
#include "ir/ops.def"

using V = ir::ValueId;
using ir::Attr;
using ir::Builder;
using ir::Dim;
using ir::Number;
using ir::Op;
using ir::Shape;

/// A value together with its builder, so that formulas read as formulas.
struct Term {
  Builder* b;
  V v;
  operator V() const { return v; }  // NOLINT(google-explicit-constructor)
};

#define TANDEM_TERM_BINARY(spelling, method)                                           \
  inline Term spelling(Term p, Term q) { return {p.b, p.b->method(p.v, q.v)}; }        \
  inline Term spelling(Term p, const Number& q) { return {p.b, p.b->method(p.v, q)}; } \
  inline Term spelling(const Number& p, Term q) { return {q.b, q.b->method(p, q.v)}; }
#define TANDEM_TERM_UNARY(spelling, method) \
  inline Term spelling(Term p) { return {p.b, p.b->method(p.v)}; }
TANDEM_TERM_BINARY(operator+, add)
TANDEM_TERM_BINARY(operator-, sub)
TANDEM_TERM_BINARY(operator*, mul)
TANDEM_TERM_BINARY(operator/, div)
TANDEM_TERM_BINARY(operator<, lt)
TANDEM_TERM_BINARY(operator<=, le)
TANDEM_TERM_BINARY(operator>, gt)
TANDEM_TERM_BINARY(operator>=, ge)
TANDEM_TERM_BINARY(operator&&, logical_and)
TANDEM_TERM_BINARY(operator||, logical_or)
TANDEM_TERM_BINARY(equal, eq)
TANDEM_TERM_BINARY(pow, pow)
TANDEM_TERM_BINARY(div_floor, div_floor)
TANDEM_TERM_UNARY(operator-, neg)
TANDEM_TERM_UNARY(operator!, logical_not)
TANDEM_TERM_UNARY(abs, abs)
TANDEM_TERM_UNARY(sign, sign)
TANDEM_TERM_UNARY(trunc, trunc)
TANDEM_TERM_UNARY(exp, exp)
TANDEM_TERM_UNARY(log, log)
TANDEM_TERM_UNARY(log1p, log1p)
TANDEM_TERM_UNARY(rsqrt, rsqrt)
TANDEM_TERM_UNARY(sin, sin)
TANDEM_TERM_UNARY(cos, cos)
TANDEM_TERM_UNARY(sinh, sinh)
TANDEM_TERM_UNARY(cosh, cosh)
TANDEM_TERM_UNARY(tanh, tanh)
TANDEM_TERM_UNARY(erf, erf)
TANDEM_TERM_UNARY(sigmoid, sigmoid)
TANDEM_TERM_UNARY(isnan, isnan)
#undef TANDEM_TERM_BINARY
#undef TANDEM_TERM_UNARY
inline Term where(Term c, Term p, Term q) { return {p.b, p.b->where(c.v, p.v, q.v)}; }
inline Term where(Term c, Term p, const Number& q) { return {p.b, p.b->where(c.v, p.v, q)}; }
inline Term where(Term c, const Number& p, Term q) { return {q.b, q.b->where(c.v, p, q.v)}; }
/// `p` without what stands where `c` holds.
inline Term zero_where(Term c, Term p) { return where(c, 0, p); }

/// What a formula sees: the result's gradient, the operands, the result.
struct Args {
  explicit Args(VjpContext& context)
      : c(context),
        b(context.b),
        g{&context.b, context.grads[0]},
        y{&context.b, context.results[0]} {}
  VjpContext& c;
  Builder& b;
  Term g, y;  // of the first result; g is invalid if only others have gradients
  Term x(int i = 0) const { return {&b, c.operands[i]}; }
  Term result(int i) const { return {&b, c.results[i]}; }
  Shape sizes(int i = 0) const { return b.sizes(c.operands[i]); }
  template <class T>
  const T& attr(Attr name) const {
    return c.attr<T>(name);
  }
};

inline constexpr Reads operator|(Reads p, Reads q) {
  return {p.operands | q.operands, p.results | q.results};
}
inline constexpr Reads kNothing{}, kSelf{1, 0}, kOther{2, 0}, kThird{4, 0}, kResult{0, 1},
    kSecondResult{0, 2};

/// What flows through an op of several results: the sum of `parts`, each on the gradient of the
/// result in its place, where that arrived.
template <class... F>
Term through_results(Args a, F... parts) {
  std::optional<Term> sum;
  const auto add = [&](V g, auto part) {
    if (g.valid()) sum = sum ? *sum + part(Term{&a.b, g}) : part(Term{&a.b, g});
  };
  int i = 0;
  (add(a.c.grads[i++], parts), ...);
  return *sum;
}

/// The formula of one operand's gradient and the values it reads.
template <Reads R, class F>
struct Partial {
  static constexpr Reads kReads = R;
  static std::optional<V> gradient(VjpContext& c) { return V(F{}(Args(c))); }
};
template <Reads R, class F>
constexpr Partial<R, F> wrt(F) {
  return {};
}

/// An operand that no gradient flows to.
struct NoGradient {
  static constexpr Reads kReads{};
  static std::optional<V> gradient(VjpContext&) { return {}; }
};

/// An operand of a pointwise op that the result does not change with, but that is on its path: as
/// in ATen its gradient is zeros, not undefined.
inline constexpr auto kZeros = wrt<kNothing>([](Args a) { return a.b.zeros_like(a.g); });

/// The rule of an op with one partial per operand.
template <class... P>
constexpr VjpRule rule(P...) {
  return {VjpRule::Kind::Differentiable,
          [](VjpContext& c) {
            int i = 0;
            return Gradients{(c.needs(i++) ? P::gradient(c) : std::nullopt)...};
          },
          [](std::span<const bool> needs) {
            Reads reads;
            int i = 0;
            ((reads = needs[i++] ? reads | P::kReads : reads), ...);
            return reads;
          }};
}

inline Gradients apply_nothing(VjpContext& c) { return Gradients(c.operands.size()); }
inline Reads read_nothing(std::span<const bool>) { return {}; }
inline constexpr VjpRule kZeroGradient{VjpRule::Kind::ZeroGradient, apply_nothing, read_nothing};
inline constexpr VjpRule kSubgraph{VjpRule::Kind::Subgraph, nullptr, read_nothing};

/// Gradient of a reduction over `dims`, back at the operand's `sizes`: [.., ..] -> [.., n, ..].
V spread(Builder& b, V grad, const Shape& sizes, const ir::Axes& dims, bool keepdim);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_RULES_H
