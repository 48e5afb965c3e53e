// Definitions of products with weights of i8.
#include <algorithm>
#include <cmath>

#include "ir/interpreter/evaluate.h"

namespace tandem::ir::evaluate {
namespace {

/// Of a row of `x` and a row of `w`, both [.., k].
template <class T>
T dot(const T* x, const int64_t* w, int64_t k) {
  T sum = 0;
  for (int64_t l = 0; l < k; ++l) sum += x[l] * static_cast<T>(w[l]);
  return sum;
}

/// (x @ w^T) * scales, of which row i is times `factor(i)` too.
template <class T, class Factor>
Tensor scaled_product(const Context& c, const T* x, Factor factor) {
  const int64_t m = c.result().sizes[0], n = c.result().sizes[1], k = c.operand(0).sizes()[1];
  const Tensor result = zeros(c.result());
  const int64_t* w = elements<int64_t>(c.operand(1));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      elements<double>(result)[i * n + j] = static_cast<double>(dot(x + i * k, w + j * k, k)) *
                                            factor(i) * elements<double>(c.operand(2))[j];
  return result;
}

/// As compiled code rounds: to f32, but in f64 where self is.
double rounded(const Context& c, double x) {
  return c.in_f64 || c.operand(0).dtype() == DType::F64 ? x : static_cast<float>(x);
}

/// NaN as 0.
int64_t nearest_i8(double x) {
  return std::isnan(x) ? 0 : static_cast<int64_t>(std::clamp(std::nearbyint(x), -128.0, 127.0));
}

double largest_magnitude(const double* row, int64_t k) {
  double largest = 0;
  for (int64_t l = 0; l < k; ++l) {
    const double x = std::abs(row[l]);
    if (std::isnan(x) || x > largest) largest = x;
    if (std::isnan(x)) break;
  }
  return largest;
}

}  // namespace

Tensor weight_int8pack_mm(const Context& c) {
  return scaled_product(c, elements<double>(c.operand(0)), [](int64_t) { return 1.0; });
}

Tensor dynamic_int8pack_mm(const Context& c) {
  const int64_t m = c.operand(0).sizes()[0], k = c.operand(0).sizes()[1];
  const double* x = elements<double>(c.operand(0));
  std::vector<int64_t> values(static_cast<size_t>(m * k));
  std::vector<double> scales(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) {
    const double scale = rounded(c, largest_magnitude(x + i * k, k) / 127);
    scales[static_cast<size_t>(i)] = scale;
    for (int64_t l = 0; l < k; ++l)
      values[static_cast<size_t>(i * k + l)] = nearest_i8(rounded(c, x[i * k + l] / scale));
  }
  return scaled_product(c, values.data(),
                        [&](int64_t i) { return scales[static_cast<size_t>(i)]; });
}

Tensor int_mm(const Context& c) {
  const int64_t m = c.result().sizes[0], n = c.result().sizes[1], k = c.operand(0).sizes()[1];
  const Tensor result = zeros(c.result());
  const int64_t *a = elements<int64_t>(c.operand(0)), *b = elements<int64_t>(c.operand(1));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        elements<int64_t>(result)[i * n + j] += a[i * k + l] * b[l * n + j];
  return result;
}

}  // namespace tandem::ir::evaluate
