// Ops whose public functions follow from their name and arity: the one list that declares and
// defines the free functions, the methods and the in-place methods.
#ifndef TANDEM_OP_LISTS_H
#define TANDEM_OP_LISTS_H

// clang-format off
// Of one tensor, with the writing form `x.op_()`.
#define TANDEM_UNARY_IN_PLACE_OPS(X)                                                           \
  X(neg) X(abs) X(sign) X(floor) X(ceil) X(round) X(trunc) X(exp) X(exp2) X(expm1) X(log)      \
  X(log2) X(log10) X(log1p) X(sqrt) X(rsqrt) X(reciprocal) X(sin) X(cos) X(tan) X(asin)        \
  X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc)            \
  X(sigmoid) X(logical_not) X(bitwise_not) X(relu) X(relu6) X(selu) X(silu) X(mish)            \
  X(hardsigmoid) X(hardswish) X(logit) X(square) X(frac)
// Of one tensor, without it.
#define TANDEM_UNARY_OPS(X) X(softsign) X(log_sigmoid) X(isnan) X(isinf) X(isfinite)

// Of two tensors, or a tensor and a number on either side; with the writing form `x.op_(y)`.
#define TANDEM_BINARY_IN_PLACE_OPS(X)                                                          \
  X(add) X(sub) X(mul) X(div) X(floor_divide) X(remainder) X(fmod) X(pow) X(atan2) X(maximum)  \
  X(minimum) X(logical_and) X(logical_or) X(logical_xor) X(bitwise_and) X(bitwise_or)          \
  X(bitwise_xor) X(shift_left) X(shift_right) X(hypot) X(copysign) X(xlogy)
// The same, without it.
#define TANDEM_COMPARISON_OPS(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#define TANDEM_BINARY_OPS(X) TANDEM_COMPARISON_OPS(X) X(logaddexp)
// clang-format on

// Reductions over any dims with a form that writes into a given tensor.
#define TANDEM_OUT_REDUCTIONS(X) X(sum) X(prod) X(mean) X(amax) X(amin) X(any) X(all)

#endif  // TANDEM_OP_LISTS_H
