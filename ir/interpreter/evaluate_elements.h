// Internal to the interpreter: loops of pointwise evaluation rules.
#ifndef TANDEM_IR_INTERPRETER_EVALUATE_ELEMENTS_H
#define TANDEM_IR_INTERPRETER_EVALUATE_ELEMENTS_H

#include "evaluate.h"

namespace tandem::ir::evaluate {

/// Element i of the result is f(element i of each operand); all are of category T, the result of R.
template <class R, class T, class F>
Tensor map_as(const Context& c, F f) {
  Tensor result = zeros(c.result());
  R* out = elements<R>(result);
  const int64_t n = result.numel();
  const auto in = [&](int i) { return elements<T>(c.operand(i)); };
  if constexpr (std::invocable<F, T>)
    for (int64_t i = 0; i < n; ++i) out[i] = f(in(0)[i]);
  else if constexpr (std::invocable<F, T, T>)
    for (int64_t i = 0; i < n; ++i) out[i] = f(in(0)[i], in(1)[i]);
  else if constexpr (std::invocable<F, T, T, T>)
    for (int64_t i = 0; i < n; ++i) out[i] = f(in(0)[i], in(1)[i], in(2)[i]);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = f(in(0)[i], in(1)[i], in(2)[i], in(3)[i]);
  return result;
}

/// Of floating operands.
template <class F>
Tensor map_floats(const Context& c, F f) {
  return map_as<double, double>(c, f);
}

/// Of integers and bool.
template <class F>
Tensor map_ints(const Context& c, F f) {
  return map_as<int64_t, int64_t>(c, f);
}

/// Of any dtype, the operands' own.
template <class F>
Tensor map_any(const Context& c, F f) {
  return by_category(c.result().dtype, [&]<class T>(T) { return map_as<T, T>(c, f); });
}

/// Of any dtype to bool.
template <class F>
Tensor map_to_bool(const Context& c, F f) {
  return by_category(c.operand(0).dtype(), [&]<class T>(T) { return map_as<int64_t, T>(c, f); });
}

// Arithmetic of both categories; 64-bit integers wrap.
inline double add_of(double a, double b) { return a + b; }
inline double sub_of(double a, double b) { return a - b; }
inline double mul_of(double a, double b) { return a * b; }
inline int64_t add_of(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t sub_of(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t mul_of(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

inline bool is_nan(double v) { return v != v; }
inline bool is_nan(int64_t) { return false; }

/// IEEE 754-2019 maximum: NaN if either is; +0 is above -0.
double maximum_of(double a, double b);
double minimum_of(double a, double b);
inline int64_t maximum_of(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t minimum_of(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace tandem::ir::evaluate

#endif  // TANDEM_IR_INTERPRETER_EVALUATE_ELEMENTS_H
