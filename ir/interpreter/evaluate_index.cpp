// Evaluation rules of index and random ops.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/base/error.h"
#include "ir/interpreter/evaluate_elements.h"
#include "ir/random.h"

namespace tandem::ir::evaluate {
namespace {

/// Index `i` of operand 1, checked against `size`.
int64_t checked_index(const Context& c, int64_t i, int64_t size) {
  const int64_t index = elements<int64_t>(c.operand(1))[i];
  if (index < 0 || index >= size)
    fail(Errc::Index, fmt::format("{}: index out of range; expected 0 <= index < {}, got {}",
                                  name(c.op), size, index));
  return index;
}

int dim_of(const Context& c) { return static_cast<int>(c.attr<int64_t>(Attr::dim)); }

/// Calls f(outer, k, index k of operand 1, inner) for all positions of operand 0 in the dims before
/// and after `dim`, seen as [outer, size, inner].
struct Slices {
  int64_t outer = 1, size, inner = 1;
  Slices(const Shape& sizes, int dim) : size(sizes[dim]) {
    for (int d = 0; d < sizes.rank(); ++d)
      if (d != dim) (d < dim ? outer : inner) *= int64_t{sizes[d]};
  }
};

template <class F>
void for_each_slice(const Context& c, F f) {
  const Slices slices(c.operand(0).sizes(), dim_of(c));
  const int64_t count = c.operand(1).numel();
  for (int64_t k = 0; k < count; ++k) checked_index(c, k, slices.size);  // also if nothing is read
  for (int64_t o = 0; o < slices.outer; ++o)
    for (int64_t k = 0; k < count; ++k) {
      const int64_t index = checked_index(c, k, slices.size);
      for (int64_t i = 0; i < slices.inner; ++i)
        f((o * slices.size + index) * slices.inner + i, (o * count + k) * slices.inner + i);
    }
}

/// Calls f(position in self, number of the index element, index) for every element of operand 1.
template <class F>
void for_each_gathered(const Context& c, F f) {
  const int dim = dim_of(c);
  const Shape& self = c.operand(0).sizes();
  const Strides strides = contiguous_strides(self);
  for_each_index(c.operand(1).sizes(), [&](Shape index, int64_t i) {
    const Shape at = index;
    index[dim] = checked_index(c, i, self[dim]);
    f(position_of(index, strides), i, at);
  });
}

struct Rng {
  uint64_t key, counter;
  Rng(const Context& c, int operand)
      : key(elements<int64_t>(c.operand(operand))[0]),
        counter(elements<int64_t>(c.operand(operand))[1] + c.attr<Dim>(Attr::offset)) {}
  uint32_t word32(int64_t i) const { return random_word32(key, counter, i); }
  uint64_t word64(int64_t i) const { return random_word64(key, counter, i); }
};

double uniform32(uint32_t word, int digits) { return std::ldexp(word >> (32 - digits), -digits); }

/// The normal of a 32-bit word; in f64 the same formula without rounding.
double normal32(uint32_t word, bool in_f64) {
  if (!in_f64) return normal_from_word(word);
  ScalarArithmetic<double> a;
  return standard_normal(a, normal_formula(DType::F32), (word >> 31) != 0,
                         static_cast<double>((word >> 8 & 0x7fffff) * 2 + 1));
}

/// Elements f32(word) or, for f64, f64(word).
template <class F32, class F64>
Tensor random_elements(const Context& c, F32 from_word32, F64 from_word64) {
  const Rng rng(c, 0);
  Tensor result = zeros(c.result());
  double* out = elements<double>(result);
  const int64_t n = result.numel();
  if (c.result().dtype == DType::F64)
    for (int64_t i = 0; i < n; ++i) out[i] = from_word64(rng.word64(i));
  else
    for (int64_t i = 0; i < n; ++i) out[i] = from_word32(rng.word32(i));
  return result;
}

}  // namespace

Tensor index_select(const Context& c) {
  Tensor result = zeros(c.result());
  by_category(c.result().dtype, [&]<class T>(T) {
    const T* self = elements<T>(c.operand(0));
    T* out = elements<T>(result);
    for_each_slice(c, [&](int64_t from, int64_t to) { out[to] = self[from]; });
  });
  return result;
}

Tensor gather(const Context& c) {
  Tensor result = zeros(c.result());
  by_category(c.result().dtype, [&]<class T>(T) {
    const T* self = elements<T>(c.operand(0));
    T* out = elements<T>(result);
    for_each_gathered(c, [&](int64_t from, int64_t i, const Shape&) { out[i] = self[from]; });
  });
  return result;
}

Tensor index_add(const Context& c) {
  Tensor result = copied(c.operand(0));
  by_category(c.result().dtype, [&]<class T>(T) {
    const T* src = elements<T>(c.operand(2));
    T* out = elements<T>(result);
    for_each_slice(c, [&](int64_t to, int64_t from) { out[to] = add_of(out[to], src[from]); });
  });
  return result;
}

namespace {

/// Operand 0 with write(place, element of operand 2) for each element of operand 1.
template <class Write>
Tensor scattered(const Context& c, Write write) {
  Tensor result = copied(c.operand(0));
  const Strides src_strides = contiguous_strides(c.operand(2).sizes());
  by_category(c.result().dtype, [&]<class T>(T) {
    const T* src = elements<T>(c.operand(2));
    T* out = elements<T>(result);
    for_each_gathered(c, [&](int64_t to, int64_t, const Shape& at) {
      write(out[to], src[position_of(at, src_strides)]);
    });
  });
  return result;
}

}  // namespace

Tensor scatter_add(const Context& c) {
  return scattered(c, [](auto& to, auto src) { to = add_of(to, src); });
}
/// What overflows on the way stays infinite.
Tensor scatter_prod(const Context& c) {
  const bool in_f64 = c.in_f64 || c.result().dtype == DType::F64;
  return scattered(c, [&]<class T>(T& to, T src) {
    to = mul_of(to, src);
    if constexpr (std::is_same_v<T, double>)
      if (!in_f64) to = static_cast<float>(to);
  });
}
Tensor scatter_amax(const Context& c) {
  return scattered(c, [](auto& to, auto src) { to = maximum_of(to, src); });
}
Tensor scatter_amin(const Context& c) {
  return scattered(c, [](auto& to, auto src) { to = minimum_of(to, src); });
}
Tensor scatter(const Context& c) {
  return scattered(c, [](auto& to, auto src) { to = src; });
}

Tensor embedding(const Context& c) {
  const Shape& weight = c.operand(0).sizes();
  const int64_t width = weight[1];
  Tensor result = zeros(c.result());
  by_category(c.result().dtype, [&]<class T>(T) {
    for (int64_t i = 0, n = c.operand(1).numel(); i < n; ++i)
      std::copy_n(elements<T>(c.operand(0)) + checked_index(c, i, weight[0]) * width, width,
                  elements<T>(result) + i * width);
  });
  return result;
}

Tensor random_bits(const Context& c) {
  const Rng rng(c, 0);
  Tensor result = zeros(c.result());
  int64_t* out = elements<int64_t>(result);
  const bool wide = c.result().dtype == DType::I64;
  for (int64_t i = 0, n = result.numel(); i < n; ++i)
    out[i] = wide ? static_cast<int64_t>(rng.word64(i)) : static_cast<int32_t>(rng.word32(i));
  return result;
}

Tensor rand(const Context& c) {
  const int digits = uniform_digits(c.result().dtype);
  return random_elements(
      c, [=](uint32_t word) { return uniform32(word, digits); },
      [](uint64_t word) { return std::ldexp(static_cast<double>(word >> 11), -53); });
}

Tensor randn(const Context& c) {
  return random_elements(
      c, [&](uint32_t word) { return normal32(word, c.in_f64); },
      [](uint64_t word) { return normal_from_word(word); });
}

Tensor dropout(const Context& c) {
  const Rng rng(c, 1);
  const double p = c.attr<double>(Attr::p);
  // As ATen: self times noise, which is 0 or 1 / (1 - p).
  Tensor noise = zeros(c.result()), result = zeros(c.result());
  for (int64_t i = 0, n = noise.numel(); i < n; ++i)
    noise.storage->floats[i] = uniform32(rng.word32(i), 24) >= p ? 1 / (1 - p) : 0;
  round_elements(noise, c.in_f64);
  for (int64_t i = 0, n = noise.numel(); i < n; ++i)
    result.storage->floats[i] = c.operand(0).storage->floats[i] * noise.storage->floats[i];
  return result;
}

}  // namespace tandem::ir::evaluate
