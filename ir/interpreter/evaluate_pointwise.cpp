// Evaluation rules of pointwise primitives.
#include <cmath>
#include <numeric>

#include "ir/base/error.h"
#include "ir/interpreter/evaluate_elements.h"

namespace tandem::ir::evaluate {
namespace {

[[noreturn]] void fail_division_by_zero(Op op) {
  fail(Errc::Argument, std::string(name(op)) +
                           ": integer division by zero; expected a divisor other than 0, got 0");
}

int bits_of(DType dtype) { return dtype == DType::Bool ? 1 : static_cast<int>(8 * size_of(dtype)); }

// ATen's div_floor_floating.
double floor_divide_of(double a, double b) {
  if (b == 0) return a / b;
  const double mod = std::fmod(a, b);
  double quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

int64_t floor_divide_of(int64_t a, int64_t b) {
  if (b == -1) return sub_of(int64_t{0}, a);  // the smallest integer wraps
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

double remainder_of(double a, double b) {
  const double mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

int64_t remainder_of(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t mod = a % b;
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

double fmod_of(double a, double b) { return std::fmod(a, b); }
int64_t fmod_of(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

double pow_of(double a, double b) { return std::pow(a, b); }
int64_t pow_of(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = mul_of(result, base);
    base = mul_of(base, base);
  }
  return result;
}

/// f(a, b) where integers must not be divided by zero.
template <class F>
Tensor division(const Context& c, F f) {
  return map_any(c, [&]<class T>(T a, T b) {
    if (std::same_as<T, int64_t> && b == 0) fail_division_by_zero(c.op);
    return f(a, b);
  });
}

}  // namespace

double maximum_of(double a, double b) {
  if (is_nan(a) || is_nan(b)) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

double minimum_of(double a, double b) {
  if (is_nan(a) || is_nan(b)) return a + b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

// --- arithmetic
#define ANY_BINARY(op, expression)                                        \
  Tensor op(const Context& c) {                                           \
    return map_any(c, []<class T>(T a, T b) -> T { return expression; }); \
  }
ANY_BINARY(add, add_of(a, b))
ANY_BINARY(sub, sub_of(a, b))
ANY_BINARY(mul, mul_of(a, b))
ANY_BINARY(pow, pow_of(a, b))
ANY_BINARY(maximum, maximum_of(a, b))
ANY_BINARY(minimum, minimum_of(a, b))
#undef ANY_BINARY

Tensor floor_divide(const Context& c) {
  return division(c, [](auto a, auto b) { return floor_divide_of(a, b); });
}
Tensor div_floor(const Context& c) { return floor_divide(c); }
Tensor remainder(const Context& c) {
  return division(c, [](auto a, auto b) { return remainder_of(a, b); });
}
Tensor fmod(const Context& c) {
  return division(c, [](auto a, auto b) { return fmod_of(a, b); });
}

Tensor fma(const Context& c) {
  if (c.result().dtype == DType::F64 || c.in_f64)
    return map_floats(c, [](double x, double y, double z) { return std::fma(x, y, z); });
  return map_floats(c, [](double x, double y, double z) {
    return std::fma(static_cast<float>(x), static_cast<float>(y), static_cast<float>(z));
  });
}

Tensor neg(const Context& c) {
  if (is_floating(c.result().dtype)) return map_floats(c, [](double a) { return -a; });
  return map_ints(c, [](int64_t a) { return sub_of(int64_t{0}, a); });
}

Tensor abs(const Context& c) {
  if (is_floating(c.result().dtype)) return map_floats(c, [](double a) { return std::fabs(a); });
  return map_ints(c, [](int64_t a) { return a < 0 ? sub_of(int64_t{0}, a) : a; });
}

Tensor sign(const Context& c) {
  return map_any(c, []<class T>(T a) -> T { return (a > 0) - (a < 0); });
}

// --- functions of floating operands
#define FLOAT_UNARY(op, expression)                            \
  Tensor op(const Context& c) {                                \
    return map_floats(c, [](double x) { return expression; }); \
  }
#define FLOAT_BINARY(op, expression)                                     \
  Tensor op(const Context& c) {                                          \
    return map_floats(c, [](double x, double y) { return expression; }); \
  }
FLOAT_BINARY(div, x / y)
FLOAT_BINARY(atan2, std::atan2(x, y))
FLOAT_UNARY(floor, std::floor(x))
FLOAT_UNARY(ceil, std::ceil(x))
FLOAT_UNARY(round, std::nearbyint(x))
FLOAT_UNARY(trunc, std::trunc(x))
FLOAT_UNARY(exp, std::exp(x))
FLOAT_UNARY(exp2, std::exp2(x))
FLOAT_UNARY(expm1, std::expm1(x))
FLOAT_UNARY(log, std::log(x))
FLOAT_UNARY(log2, std::log2(x))
FLOAT_UNARY(log10, std::log10(x))
FLOAT_UNARY(log1p, std::log1p(x))
FLOAT_UNARY(sqrt, std::sqrt(x))
FLOAT_UNARY(rsqrt, 1 / std::sqrt(x))
FLOAT_UNARY(reciprocal, 1 / x)
FLOAT_UNARY(sin, std::sin(x))
FLOAT_UNARY(cos, std::cos(x))
FLOAT_UNARY(tan, std::tan(x))
FLOAT_UNARY(asin, std::asin(x))
FLOAT_UNARY(acos, std::acos(x))
FLOAT_UNARY(atan, std::atan(x))
FLOAT_UNARY(sinh, std::sinh(x))
FLOAT_UNARY(cosh, std::cosh(x))
FLOAT_UNARY(tanh, std::tanh(x))
FLOAT_UNARY(asinh, std::asinh(x))
FLOAT_UNARY(acosh, std::acosh(x))
FLOAT_UNARY(atanh, std::atanh(x))
FLOAT_UNARY(erf, std::erf(x))
FLOAT_UNARY(erfc, std::erfc(x))
FLOAT_UNARY(sigmoid, 1 / (1 + std::exp(-x)))
#undef FLOAT_UNARY
#undef FLOAT_BINARY

// --- comparison, logic, bits
#define COMPARISON(op, relation)                                        \
  Tensor op(const Context& c) {                                         \
    return map_to_bool(c, [](auto a, auto b) { return a relation b; }); \
  }
COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)
#undef COMPARISON

#define INT_BINARY(op, expression)                                                  \
  Tensor op(const Context& c) {                                                     \
    return map_ints(c, [](int64_t a, int64_t b) -> int64_t { return expression; }); \
  }
INT_BINARY(logical_and, a&& b)
INT_BINARY(logical_or, a || b)
INT_BINARY(logical_xor, a != b)
INT_BINARY(bitwise_and, a& b)
INT_BINARY(bitwise_or, a | b)
INT_BINARY(bitwise_xor, a ^ b)
#undef INT_BINARY

Tensor gcd(const Context& c) {
  return map_ints(c, [](int64_t a, int64_t b) {
    const auto magnitude = [](int64_t x) {
      return x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    };
    return static_cast<int64_t>(std::gcd(magnitude(a), magnitude(b)));
  });
}

Tensor logical_not(const Context& c) {
  return map_ints(c, [](int64_t a) { return !a; });
}

Tensor bitwise_not(const Context& c) {
  const bool is_bool = c.result().dtype == DType::Bool;
  return map_ints(c, [=](int64_t a) { return is_bool ? !a : ~a; });
}

Tensor shift_left(const Context& c) {
  const int bits = bits_of(c.result().dtype);
  return map_ints(c, [=](int64_t a, int64_t count) {
    return count < 0 || count >= bits ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << count);
  });
}

Tensor shift_right(const Context& c) {
  const int bits = bits_of(c.result().dtype);
  return map_ints(c, [=](int64_t a, int64_t count) {
    return count < 0 || count >= bits ? (a < 0 ? -1 : 0) : a >> count;
  });
}

// --- selection, conversion, identity
Tensor where(const Context& c) {
  Tensor result = zeros(c.result());
  const int64_t* condition = elements<int64_t>(c.operand(0));
  by_category(c.result().dtype, [&]<class T>(T) {
    const T *self = elements<T>(c.operand(1)), *other = elements<T>(c.operand(2));
    T* out = elements<T>(result);
    for (int64_t i = 0, n = result.numel(); i < n; ++i) out[i] = condition[i] ? self[i] : other[i];
  });
  return result;
}

Tensor convert(const Context& c) {
  const DType to = c.result().dtype;
  const bool from_float = is_floating(c.operand(0).dtype());
  if (from_float == is_floating(to)) return map_any(c, []<class T>(T a) -> T { return a; });
  if (from_float)
    return map_as<int64_t, double>(c, [=](double a) { return rounded_to(to, a).to_int(); });
  if (to == DType::F32 && !c.in_f64)  // in one step: by way of double it would round twice
    return map_as<double, int64_t>(c, [](int64_t a) { return static_cast<float>(a); });
  return map_as<double, int64_t>(c, [](int64_t a) { return static_cast<double>(a); });
}

Tensor bitcast(const Context& c) { return copied(view_dtype(c)); }

Tensor clone(const Context& c) { return copied(c.operand(0)); }
Tensor stop_gradient(const Context& c) { return copied(c.operand(0)); }
Tensor stop_backward(const Context& c) { return copied(c.operand(0)); }
Tensor keep_history(const Context& c) { return copied(c.operand(1)); }
Tensor keep_backward(const Context& c) { return copied(c.operand(1)); }

}  // namespace tandem::ir::evaluate
