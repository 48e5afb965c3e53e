// Evaluation rules of pointwise composites: activations and the like, by their definition.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/half.h"
#include "ir/interpreter/evaluate_elements.h"

namespace tandem::ir::evaluate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double softplus_of(double x) { return x > 30 ? x + std::exp(-x) : std::log1p(std::exp(x)); }
double relu_of(double x) { return maximum_of(x, 0.0); }
int64_t relu_of(int64_t x) { return x > 0 ? x : 0; }

template <class T>
T clamp_of(T x, T low, T high) {
  return minimum_of(maximum_of(x, low), high);
}

/// The number of a 16-bit dtype that follows `a` towards `b`: patterns of magnitudes are in order.
double next_half(bool is_bf16, double a, double b) {
  const auto number = [=](int bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    return static_cast<double>(is_bf16 ? bf16_to_float(pattern) : f16_to_float(pattern));
  };
  if (a == b) return b;
  if (a == 0) return std::copysign(number(1), b);
  const auto magnitude = static_cast<float>(std::fabs(a));
  const int bits = is_bf16 ? float_to_bf16(magnitude) : float_to_f16(magnitude);
  return std::copysign(number((a < b) == (a > 0) ? bits + 1 : bits - 1), a);
}

/// The same of any dtype.
double next_of(DType dtype, double a, double b) {
  if (is_nan(a) || is_nan(b)) return a + b;
  if (dtype == DType::F64) return std::nextafter(a, b);
  if (dtype == DType::F32) return std::nextafter(static_cast<float>(a), static_cast<float>(b));
  return next_half(dtype == DType::BF16, a, b);
}

/// The elements of self for which keep(row, column) holds, zero elsewhere.
template <class F>
Tensor masked_matrix(const Context& c, F keep) {
  Tensor result = zeros(c.result());
  const Shape& sizes = c.result().sizes;
  const int64_t rows = sizes[sizes.rank() - 2], columns = sizes.back();
  by_category(c.result().dtype, [&]<class T>(T) {
    const T* in = elements<T>(c.operand(0));
    T* out = elements<T>(result);
    for (int64_t i = 0, n = result.numel(); i < n; ++i)
      if (keep(i / columns % rows, i % columns)) out[i] = in[i];
  });
  return result;
}

}  // namespace

#define FLOAT_UNARY(op, expression)                            \
  Tensor op(const Context& c) {                                \
    return map_floats(c, [](double x) { return expression; }); \
  }
FLOAT_UNARY(silu, x / (1 + std::exp(-x)))
FLOAT_UNARY(mish, x* std::tanh(softplus_of(x)))
FLOAT_UNARY(softsign, x / (1 + std::fabs(x)))
FLOAT_UNARY(hardsigmoid, clamp_of(x + 3, 0.0, 6.0) / 6)
FLOAT_UNARY(hardswish, x* clamp_of(x + 3, 0.0, 6.0) / 6)
FLOAT_UNARY(log_sigmoid, std::fmin(x, 0.0) - std::log1p(std::exp(-std::fabs(x))))
FLOAT_UNARY(logit, std::log(x / (1 - x)))
FLOAT_UNARY(frac, x - std::trunc(x))
FLOAT_UNARY(entr, is_nan(x) ? x : x > 0 ? -x * std::log(x) : x == 0 ? 0 : -kInfinity)
#undef FLOAT_UNARY

Tensor relu(const Context& c) {
  return map_any(c, []<class T>(T x) { return relu_of(x); });
}

Tensor relu6(const Context& c) {
  return map_any(c, []<class T>(T x) { return clamp_of(x, T(0), T(6)); });
}

Tensor square(const Context& c) {
  return map_any(c, []<class T>(T x) { return mul_of(x, x); });
}

Tensor leaky_relu(const Context& c) {
  const double slope = c.attr<double>(Attr::alpha);
  return map_floats(c, [=](double x) { return x > 0 ? x : x * slope; });
}

Tensor elu(const Context& c) {
  const double alpha = c.attr<double>(Attr::alpha);
  return map_floats(c, [=](double x) { return x > 0 ? x : alpha * std::expm1(x); });
}

Tensor selu(const Context& c) {
  static constexpr double kAlpha = 1.6732632423543772848170429916717;
  static constexpr double kScale = 1.0507009873554804934193349852946;
  return map_floats(c, [](double x) { return kScale * (x > 0 ? x : kAlpha * std::expm1(x)); });
}

Tensor celu(const Context& c) {
  const double alpha = c.attr<double>(Attr::alpha);
  return map_floats(c, [=](double x) { return x > 0 ? x : alpha * std::expm1(x / alpha); });
}

Tensor gelu(const Context& c) {
  const double root_half = std::sqrt(0.5), root = std::sqrt(2 / std::numbers::pi);
  if (c.attr<std::string>(Attr::approximate) == "tanh")
    return map_floats(
        c, [=](double x) { return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x))); });
  return map_floats(c, [=](double x) { return 0.5 * x * std::erfc(-x * root_half); });
}

Tensor softplus(const Context& c) {
  const double beta = c.attr<double>(Attr::beta), threshold = c.attr<double>(Attr::alpha);
  return map_floats(c, [=](double x) {
    return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
  });
}

Tensor hardtanh(const Context& c) {
  return map_any(c, []<class T>(T x, T low, T high) { return clamp_of(x, low, high); });
}

Tensor clamp_min(const Context& c) {
  return map_any(c, []<class T>(T x, T low) { return maximum_of(x, low); });
}

Tensor clamp_max(const Context& c) {
  return map_any(c, []<class T>(T x, T high) { return minimum_of(x, high); });
}

Tensor clamp(const Context& c) {
  return map_any(c, []<class T>(T x, T low, T high) { return clamp_of(x, low, high); });
}

Tensor heaviside(const Context& c) {
  return map_any(c, []<class T>(T x, T at_zero) { return x == 0 ? at_zero : T(x > 0); });
}

Tensor nextafter(const Context& c) {
  const DType dtype = c.result().dtype;
  return map_floats(c, [=](double a, double b) { return next_of(dtype, a, b); });
}

Tensor lerp(const Context& c) {
  return map_floats(c, [](double self, double end, double weight) {
    const double span = end - self;
    return std::fabs(weight) < 0.5 ? self + weight * span : end - span * (1 - weight);
  });
}

Tensor addcmul(const Context& c) {
  const Number& value = c.attr<Number>(Attr::value);
  return map_any(c, [&]<class T>(T self, T a, T b) {
    return add_of(self, mul_of(mul_of(number_as<T>(value), a), b));
  });
}

Tensor addcdiv(const Context& c) {
  const double value = c.attr<Number>(Attr::value).to_double();
  return map_floats(c, [=](double self, double a, double b) { return self + value * a / b; });
}

Tensor hypot(const Context& c) {
  return map_floats(c, [](double a, double b) { return std::hypot(a, b); });
}

Tensor copysign(const Context& c) {
  return map_floats(c, [](double a, double b) { return std::copysign(a, b); });
}

Tensor logaddexp(const Context& c) {
  return map_floats(c, [](double a, double b) {
    if (std::isinf(a) && a == b) return a;
    return maximum_of(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
  });
}

Tensor logaddexp2(const Context& c) {
  return map_floats(c, [](double a, double b) {
    if (std::isinf(a) && a == b) return a;
    return maximum_of(a, b) + std::log2(1 + std::exp2(-std::fabs(a - b)));
  });
}

Tensor xlog1py(const Context& c) {
  return map_floats(c, [](double x, double y) {
    return is_nan(y) ? y : x == 0 ? 0.0 : x * std::log1p(y);
  });
}

Tensor xlogy(const Context& c) {
  return map_floats(c, [](double x, double y) {
    return is_nan(y) ? y : x == 0 ? 0.0 : x * std::log(y);
  });
}

Tensor isnan(const Context& c) {
  return map_to_bool(c, [](auto a) { return is_nan(a); });
}

Tensor isinf(const Context& c) {
  return map_to_bool(c, [](auto a) { return std::isinf(static_cast<double>(a)); });
}

Tensor isfinite(const Context& c) {
  return map_to_bool(c, [](auto a) { return std::isfinite(static_cast<double>(a)); });
}

Tensor nan_to_num(const Context& c) {
  if (is_integral(c.result().dtype)) return copied(c.operand(0));
  return map_floats(c, [](double x, double nan, double posinf, double neginf) {
    return is_nan(x) ? nan : !std::isinf(x) ? x : x > 0 ? posinf : neginf;
  });
}

Tensor masked_fill(const Context& c) {
  Tensor result = copied(c.operand(0));
  const int64_t* mask = elements<int64_t>(c.operand(1));
  by_category(c.result().dtype, [&]<class T>(T) {
    const T* value = elements<T>(c.operand(2));
    T* out = elements<T>(result);
    for (int64_t i = 0, n = result.numel(); i < n; ++i)
      if (mask[i]) out[i] = value[i];
  });
  return result;
}

Tensor tril(const Context& c) {
  const int64_t offset = c.attr<Dim>(Attr::offset);
  return masked_matrix(c, [=](int64_t row, int64_t column) { return column - row <= offset; });
}

Tensor triu(const Context& c) {
  const int64_t offset = c.attr<Dim>(Attr::offset);
  return masked_matrix(c, [=](int64_t row, int64_t column) { return column - row >= offset; });
}

Tensor copy(const Context& c) { return copied(c.operand(1)); }

Tensor fill(const Context& c) {
  Tensor result = zeros(c.result());
  const Number value = is_floating(c.result().dtype)
                           ? c.attr<Number>(Attr::value)
                           : rounded_to(c.result().dtype, c.attr<Number>(Attr::value));
  by_category(c.result().dtype, [&]<class T>(T) {
    std::fill_n(elements<T>(result), result.numel(), number_as<T>(value));
  });
  return result;
}

}  // namespace tandem::ir::evaluate
