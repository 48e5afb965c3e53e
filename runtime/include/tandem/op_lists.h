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
  X(hardsigmoid) X(hardswish) X(logit) X(square) X(frac) X(lgamma) X(digamma) X(erfinv) X(i0)
// Of one tensor, without it.
#define TANDEM_UNARY_OPS(X) X(softsign) X(log_sigmoid) X(isnan) X(isinf) X(isfinite)

// Of two tensors, or a tensor and a number on either side; with the writing form `x.op_(y)`.
#define TANDEM_BINARY_IN_PLACE_OPS(X)                                                          \
  X(add) X(sub) X(mul) X(div) X(floor_divide) X(remainder) X(fmod) X(pow) X(atan2) X(maximum)  \
  X(minimum) X(logical_and) X(logical_or) X(logical_xor) X(bitwise_and) X(bitwise_or)          \
  X(bitwise_xor) X(shift_left) X(shift_right) X(hypot) X(copysign) X(xlogy)  \
  X(gcd) X(heaviside) X(nextafter)
// The same, without it.
#define TANDEM_COMPARISON_OPS(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#define TANDEM_BINARY_OPS(X) TANDEM_COMPARISON_OPS(X) X(logaddexp) X(logaddexp2)

// Functions that are made of other operations: they have no row in ops.def.
#define TANDEM_MADE_UNARY_IN_PLACE(X) X(deg2rad) X(rad2deg) X(sinc)
#define TANDEM_MADE_UNARY(X) X(angle) X(signbit) X(isneginf) X(isposinf)
#define TANDEM_MADE_BINARY_IN_PLACE(X) X(float_power) X(ldexp) X(lcm) X(igamma) X(igammac)
#define TANDEM_MADE_BINARY(X) X(fmax) X(fmin)

// X(name, op): ATen's second names, in all forms.
#define TANDEM_UNARY_ALIASES(X)                                                                \
  X(absolute, abs) X(negative, neg) X(arccos, acos) X(arccosh, acosh) X(arcsin, asin)          \
  X(arcsinh, asinh) X(arctan, atan) X(arctanh, atanh) X(fix, trunc) X(sgn, sign)
#define TANDEM_BINARY_ALIASES(X)                                                               \
  X(subtract, sub) X(multiply, mul) X(divide, div) X(true_divide, div) X(arctan2, atan2)       \
  X(bitwise_left_shift, shift_left) X(bitwise_right_shift, shift_right) X(greater, gt)         \
  X(greater_equal, ge) X(less, lt) X(less_equal, le) X(not_equal, ne)

// Of tandem::special: rows of ops.def, and what is made of other operations.
#define TANDEM_SPECIAL_UNARY_OPS(X)                                                            \
  X(entr) X(erfcx) X(i0e) X(i1) X(i1e) X(log_ndtr) X(ndtri)
#define TANDEM_SPECIAL_BINARY_OPS(X) X(xlog1py) X(zeta)
// Second names.
#define TANDEM_SPECIAL_ALIASES(X) X(psi, digamma) X(gammaln, lgamma) X(expit, sigmoid)
#define TANDEM_SPECIAL_BINARY_ALIASES(X) X(gammainc, igamma) X(gammaincc, igammac)
// clang-format on

// Joins of tensors, and other names of cat; with forms that write into a given tensor.
#define TANDEM_STACKS(X) X(hstack) X(vstack) X(row_stack) X(dstack) X(column_stack)
#define TANDEM_CAT_ALIASES(X) X(concat) X(concatenate)

// Reductions over any dims with a form that writes into a given tensor.
#define TANDEM_OUT_REDUCTIONS(X) X(sum) X(prod) X(mean) X(amax) X(amin) X(any) X(all)

#endif  // TANDEM_OP_LISTS_H
