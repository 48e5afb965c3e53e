// Products with matrices of i8 with what every processor has, as loops for the vectoriser.
#include <algorithm>

#include "machine/products/int8_kernels.h"

namespace tandem::machine::products {
namespace {

constexpr int kLanes = 16;  // sums of a row

/// In lanes, which are added last.
template <class T>
T dot(const T* x, const int8_t* w, int64_t k) {
  T sums[kLanes] = {};
  int64_t l = 0;
  for (; l + kLanes <= k; l += kLanes)
    for (int i = 0; i < kLanes; ++i) sums[i] += x[l + i] * static_cast<T>(w[l + i]);
  for (int i = 0; l + i < k; ++i) sums[i] += x[l + i] * static_cast<T>(w[l + i]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

template <class T>
void multiply_weight(const WeightProduct<T>& p) {
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.m; ++i)
      p.out[i * p.out_stride + j] =
          dot(p.x + i * p.x_stride, p.weight + j * p.weight_stride, p.k) * p.scales[j];
}

void widen(const int8_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

int64_t integer_scratch(int64_t /*m*/, int64_t n, int64_t k) { return k + n; }

/// (Sums wrap: they are kept without signs.)
void multiply_row(const IntegerProduct& p, const int32_t* row, uint32_t* sums) {
  std::fill_n(sums, p.n, 0u);
  for (int64_t j = 0; p.b.transposed && j < p.n; ++j) {
    const int8_t* const column = p.b.data + j * p.b.stride;
    for (int64_t l = 0; l < p.k; ++l) sums[j] += static_cast<uint32_t>(row[l] * column[l]);
  }
  for (int64_t l = 0; !p.b.transposed && l < p.k; ++l) {
    const int8_t* const factors = p.b.data + l * p.b.stride;
    for (int64_t j = 0; j < p.n; ++j) sums[j] += static_cast<uint32_t>(row[l] * factors[j]);
  }
}

void multiply_integers(const IntegerProduct& p, int32_t* scratch) {
  auto* const sums = reinterpret_cast<uint32_t*>(scratch + p.k);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t l = 0; l < p.k; ++l)
      scratch[l] = p.a.data[p.a.transposed ? l * p.a.stride + i : i * p.a.stride + l];
    multiply_row(p, scratch, sums);
    for (int64_t j = 0; j < p.n; ++j) p.out[i * p.out_stride + j] = static_cast<int32_t>(sums[j]);
  }
}

}  // namespace

const Int8Kernels kInt8Base = {multiply_weight<float>, multiply_weight<double>, widen,
                               integer_scratch, multiply_integers};

}  // namespace tandem::machine::products
