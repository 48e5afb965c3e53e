// Definitions of convolutions, and of sums and maxima over windows.
#include <array>
#include <cmath>

#include "ir/interpreter/evaluate.h"
#include "ir/windows.h"

namespace tandem::ir::evaluate {
namespace {

int64_t number(const Context& c, Attr attr, int d) {
  return c.attr<Dims>(attr)[static_cast<size_t>(d)];
}

/// Calls f(position in x, in w, in y) for each product of the convolution y = x * w.
template <class F>
void for_each_product(const Context& c, const Shape& x, const Shape& w, const Shape& y, F f) {
  const Strides x_strides = contiguous_strides(x), w_strides = contiguous_strides(w);
  const int64_t out = y[1] / c.attr<int64_t>(Attr::groups);
  Shape taps = w;
  taps[0] = 1;
  for_each_index(y, [&](const Shape& at, int64_t y_position) {
    for_each_index(taps, [&](const Shape& tap, int64_t) {
      Shape from = at, weight = tap;
      weight[0] = at[1];
      from[1] = at[1] / out * w[1] + tap[1];
      bool inside = true;
      for (int d = 2; d < x.rank(); ++d) {
        from[d] = at[d] * number(c, Attr::stride, d - 2) - number(c, Attr::padding, d - 2) +
                  tap[d] * number(c, Attr::dilation, d - 2);
        inside = inside && from[d] >= 0 && from[d] < x[d];
      }
      if (inside) f(position_of(from, x_strides), position_of(weight, w_strides), y_position);
    });
  });
}

template <class T>
Tensor convolution_of(const Context& c) {
  const Tensor &self = c.operand(0), &weight = c.operand(1);
  Tensor result = zeros(c.result());
  const T *in = elements<T>(self), *w = elements<T>(weight);
  T* out = elements<T>(result);
  if (c.attr<bool>(Attr::transposed))
    for_each_product(c, result.sizes(), weight.sizes(), self.sizes(),
                     [&](int64_t x, int64_t tap, int64_t y) { out[x] += in[y] * w[tap]; });
  else
    for_each_product(c, self.sizes(), weight.sizes(), result.sizes(),
                     [&](int64_t x, int64_t tap, int64_t y) { out[y] += in[x] * w[tap]; });
  if (c.operands.size() > 2)
    for_each_index(result.sizes(), [&](const Shape& at, int64_t i) {
      out[i] += elements<T>(c.operand(2))[int64_t{at[1]}];
    });
  return result;
}

/// The window of a result's element, clipped to `sizes`: calls f(index) for its elements.
template <class F>
void for_each_in_window(const Context& c, const Shape& sizes, const Shape& of, const Shape& at,
                        F f) {
  std::array<WindowRange, 3> ranges;
  for (int d = 2; d < sizes.rank(); ++d) {
    const int64_t dilation = has_attr(c.op, Attr::dilation) ? number(c, Attr::dilation, d - 2) : 1;
    const auto s = static_cast<size_t>(d - 2);
    ranges[s + static_cast<size_t>(5 - sizes.rank())] =
        window_line(c.attrs, c.op, s, sizes[d], dilation, of[d]).at(at[d]);
  }
  for (int d = sizes.rank(); d < 5; ++d) ranges[static_cast<size_t>(d - sizes.rank())] = {0, 1, 1};
  Shape index = at;
  const int rank = sizes.rank();
  for (int64_t i = ranges[0].begin; i < ranges[0].end; i += ranges[0].step)
    for (int64_t j = ranges[1].begin; j < ranges[1].end; j += ranges[1].step)
      for (int64_t k = ranges[2].begin; k < ranges[2].end; k += ranges[2].step) {
        const std::array<int64_t, 3> place{i, j, k};
        for (int d = 2; d < rank; ++d) index[d] = place[static_cast<size_t>(d - 2 + 5 - rank)];
        f(index);
      }
}

}  // namespace

Tensor convolution(const Context& c) {
  return by_category(c.result().dtype, [&]<class T>(T) { return convolution_of<T>(c); });
}

Tensor convolution_weight(const Context& c) {
  return by_category(c.result().dtype, [&]<class T>(T) {
    Tensor result = zeros(c.result());
    const T *x = elements<T>(c.operand(0)), *y = elements<T>(c.operand(1));
    T* w = elements<T>(result);
    for_each_product(c, c.operand(0).sizes(), result.sizes(), c.operand(1).sizes(),
                     [&](int64_t i, int64_t tap, int64_t j) { w[tap] += x[i] * y[j]; });
    return result;
  });
}

Tensor window_sum(const Context& c) {
  const Shape& sizes = c.operand(0).sizes();
  const Strides strides = contiguous_strides(sizes);
  return by_category(c.result().dtype, [&]<class T>(T) {
    Tensor result = zeros(c.result());
    for_each_index(result.sizes(), [&](const Shape& at, int64_t i) {
      for_each_in_window(c, sizes, result.sizes(), at, [&](const Shape& from) {
        elements<T>(result)[i] += elements<T>(c.operand(0))[position_of(from, strides)];
      });
    });
    return result;
  });
}

Tensor window_spread(const Context& c) {
  const Shape& sizes = c.result().sizes;
  const Strides strides = contiguous_strides(sizes);
  return by_category(c.result().dtype, [&]<class T>(T) {
    Tensor result = zeros(c.result());
    for_each_index(c.operand(0).sizes(), [&](const Shape& at, int64_t i) {
      for_each_in_window(c, sizes, c.operand(0).sizes(), at, [&](const Shape& to) {
        elements<T>(result)[position_of(to, strides)] += elements<T>(c.operand(0))[i];
      });
    });
    return result;
  });
}

std::array<Tensor, 2> max_pool(const Context& c) {
  const Shape& sizes = c.operand(0).sizes();
  const Strides strides = contiguous_strides(sizes);
  int64_t plane = 1;
  for (int d = 2; d < sizes.rank(); ++d) plane *= sizes[d];
  Tensor values = zeros(c.result()), indices = zeros(c.result(1));
  by_category(c.operand(0).dtype(), [&]<class T>(T) {
    for_each_index(values.sizes(), [&](const Shape& at, int64_t i) {
      int64_t best = -1;
      for_each_in_window(c, sizes, values.sizes(), at, [&](const Shape& from) {
        const int64_t position = position_of(from, strides);
        const T *all = elements<T>(c.operand(0)), value = all[position];
        if (best < 0 || value > all[best] || value != value) best = position;
      });
      elements<T>(values)[i] = elements<T>(c.operand(0))[best];
      elements<int64_t>(indices)[i] = best % plane;
    });
  });
  return {values, indices};
}

}  // namespace tandem::ir::evaluate
