// Activations: pointwise composites of one tensor and numbers. x is the operand. Subexpressions
// that gradients share are written as in autodiff/, so that they merge.
#include <numbers>

#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {

// max(x, 0); NaN stays NaN
V relu(Context& c) { return c.b.maximum(c[0], 0); }

// min(max(x, 0), 6)
V relu6(Context& c) { return c.b.minimum(c.b.maximum(c[0], 0), 6); }

// x > 0 ? x : x alpha
V leaky_relu(Context& c) {
  Builder& b = c.b;
  return b.where(b.gt(c[0], 0), c[0], b.mul(c[0], c.attr<double>(Attr::alpha)));
}

// x > 0 ? x : alpha expm1(x)
V elu(Context& c) {
  Builder& b = c.b;
  return b.where(b.gt(c[0], 0), c[0], b.mul(b.expm1(c[0]), c.attr<double>(Attr::alpha)));
}

// x > 0 ? scale x : alpha scale expm1(x)
V selu(Context& c) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  Builder& b = c.b;
  return b.where(b.gt(c[0], 0), b.mul(c[0], kScale), b.mul(b.expm1(c[0]), kAlpha * kScale));
}

// x > 0 ? x : alpha expm1(x / alpha)
V celu(Context& c) {
  const double alpha = c.attr<double>(Attr::alpha);
  Builder& b = c.b;
  return b.where(b.gt(c[0], 0), c[0], b.mul(b.expm1(b.div(c[0], alpha)), alpha));
}

// x sigmoid(x)
V silu(Context& c) { return c.b.mul(c[0], c.b.sigmoid(c[0])); }

// x tanh(softplus(x))
V mish(Context& c) {
  Builder& b = c.b;
  return b.mul(c[0], b.tanh(b.emit(Op::softplus, {c[0]}, {1.0, 20.0})));
}

namespace {

// x (1 + erf(x / sqrt 2)) / 2
V gelu_exact(Builder& b, V x) {
  const V cdf = b.mul(b.add(b.erf(b.mul(x, 1 / std::numbers::sqrt2)), 1), 0.5);
  return b.mul(x, cdf);
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
V gelu_tanh(Builder& b, V x) {
  constexpr double kBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const V cube = b.mul(b.mul(x, x), x);
  const V t = b.tanh(b.mul(b.add(x, b.mul(cube, 0.044715)), kBeta));
  return b.mul(x, b.mul(b.add(t, 1), 0.5));
}

}  // namespace

V gelu(Context& c) {
  const bool approximate = c.attr<std::string>(Attr::approximate) == "tanh";
  return (approximate ? gelu_tanh : gelu_exact)(c.b, c[0]);
}

// x beta > threshold ? x : log1p(exp(x beta)) / beta
V softplus(Context& c) {
  const double beta = c.attr<double>(Attr::beta);
  Builder& b = c.b;
  const V scaled = b.mul(c[0], beta);
  return b.where(b.gt(scaled, c.attr<double>(Attr::alpha)), c[0],
                 b.div(b.log1p(b.exp(scaled)), beta));
}

// x / (1 + |x|)
V softsign(Context& c) { return c.b.div(c[0], c.b.add(c.b.abs(c[0]), 1)); }

// min(max(x, min), max)
V hardtanh(Context& c) { return c.b.minimum(c.b.maximum(c[0], c[1]), c[2]); }

// min(max(x + 3, 0), 6) / 6
V hardsigmoid(Context& c) {
  Builder& b = c.b;
  return b.div(b.minimum(b.maximum(b.add(c[0], 3), 0), 6), 6);
}

// x min(max(x + 3, 0), 6) / 6
V hardswish(Context& c) {
  Builder& b = c.b;
  return b.div(b.mul(c[0], b.minimum(b.maximum(b.add(c[0], 3), 0), 6)), 6);
}

// min(x, 0) - log1p(exp(-|x|))
V log_sigmoid(Context& c) {
  Builder& b = c.b;
  return b.sub(b.minimum(c[0], 0), b.log1p(b.exp(b.neg(b.abs(c[0])))));
}

// log(x / (1 - x))
V logit(Context& c) { return c.b.log(c.b.div(c[0], c.b.sub(1, c[0]))); }

}  // namespace tandem::decomps::rules
