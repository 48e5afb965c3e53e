// Weights in i8: how they are made, and layers of them.
#include <tandem/ops/quantized.h>

#include "runtime/linalg/checks.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::Call;
using runtime::reject;
using runtime::V;

constexpr int kLargest = 127;

/// Halves in f32.
V wide(Call& c, V v) { return c.b.convert(v, ir::promote(c.b.dtype(v), f32)); }

/// All dimensions but `axis`.
ir::Axes others(int rank, int axis) {
  ir::Axes dims;
  for (int d = 0; d < rank; ++d)
    if (d != axis) dims.push_back(d);
  return dims;
}

/// A 127th of the largest magnitude for each index of `axis`, all other dimensions of size 1.
V scales_of(Call& c, V v, int axis) {
  const V magnitudes = c.b.abs(v);
  const ir::Axes dims = others(c.b.rank(v), axis);
  Shape sizes = Shape::filled(c.b.rank(v), 1);
  sizes[axis] = c.b.sizes(v)[axis];
  if (c.b.numel(v) == 0) return c.b.full(sizes, c.b.dtype(v), 0);
  return c.b.div(dims.empty() ? magnitudes : c.b.reduce(Op::amax, magnitudes, dims, true),
                 kLargest);
}

void require_weight(Call& c, V weight, V scale) {
  if (c.b.dtype(weight) != DType::I8 || !ir::is_floating(c.b.dtype(scale)))
    reject(Errc::DType, "expected a weight of i8 and a floating scale, got {} and {}",
           ir::name(c.b.dtype(weight)), ir::name(c.b.dtype(scale)));
  if (c.b.rank(weight) != 2 || c.b.sizes(scale) != Shape{c.b.sizes(weight)[0]})
    reject(Errc::Shape,
           "sizes do not fit; expected weight [out, in] and scale [out], got {} and {}",
           to_string(c.b.sizes(weight)), to_string(c.b.sizes(scale)));
}

/// x [..., k] as [rows, k].
V as_rows(Call& c, V x, V weight) {
  const Shape sizes = c.b.sizes(x);
  if (sizes.rank() == 0 || sizes.back() != c.b.sizes(weight)[1])
    reject(Errc::Shape,
           "sizes do not fit; expected x [..., in] and weight [out, in], got {} and {}",
           to_string(sizes), to_string(c.b.sizes(weight)));
  Dim rows = 1;
  for (int d = 0; d + 1 < sizes.rank(); ++d) rows *= sizes[d];
  return c.b.reshape(x, {rows, sizes.back()});
}

/// Computed in the widest dtype of x, scale and bias; the result has x's.
Tensor linear_of(Call& c, Op op, const Tensor& x, const Tensor& weight, const Tensor& scale,
                 const Tensor& bias) {
  const V v = c.in(x, "x"), w = c.in(weight, "weight"), s = c.in(scale, "scale");
  require_floating(c, v);
  require_weight(c, w, s);
  const std::optional<V> added = c.maybe(bias);
  DType dtype = ir::promote(c.b.dtype(v), c.b.dtype(s));
  if (added) dtype = ir::promote(dtype, c.b.dtype(*added));
  const V rows = c.b.convert(as_rows(c, v, w), dtype);
  V out = c.b.emit(op, {rows, w, c.b.convert(s, dtype)}, {});
  if (added) out = c.b.add(out, *added);
  Shape sizes = c.b.sizes(v);
  sizes[sizes.rank() - 1] = c.b.sizes(w)[0];
  return c.out(c.b.convert(c.b.reshape(out, sizes), c.b.dtype(v)));
}

}  // namespace

QuantizedInt8 quantize_int8(const Tensor& self, int64_t axis, SourceLocation at) {
  Call c(at);
  const V v = c.in(self.defined() ? self.detach() : self);
  require_floating(c, v);
  const int dim = c.b.wrap_dim(axis, c.b.rank(v), "quantize_int8");
  const V x = wide(c, v), s = scales_of(c, x, dim);
  const V nearest = c.b.clamp(c.b.round(c.b.div(x, s)), -kLargest, kLargest);
  const auto [values, scale] =
      c.outs(c.b.convert(nearest, DType::I8), c.b.reshape(s, {c.b.sizes(v)[dim]}));
  return {values, scale};
}

Tensor dequantize_int8(const Tensor& self, const Tensor& scale, int64_t axis, SourceLocation at) {
  Call c(at);
  const V v = c.in(self), s = c.in(scale, "scale");
  const int dim = c.b.wrap_dim(axis, c.b.rank(v), "dequantize_int8");
  if (c.b.dtype(v) != DType::I8 || !ir::is_floating(c.b.dtype(s)))
    reject(Errc::DType, "expected values of i8 and a floating scale, got {} and {}",
           ir::name(c.b.dtype(v)), ir::name(c.b.dtype(s)));
  if (c.b.sizes(s) != Shape{c.b.sizes(v)[dim]})
    reject(Errc::Shape, "expected a scale of sizes {}, got {}", to_string(Shape{c.b.sizes(v)[dim]}),
           to_string(c.b.sizes(s)));
  Shape sizes = Shape::filled(c.b.rank(v), 1);
  sizes[dim] = c.b.sizes(v)[dim];
  return c.out(c.b.mul(c.b.convert(v, c.b.dtype(s)), c.b.reshape(s, sizes)));
}

Tensor weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales,
                          SourceLocation at) {
  Call c(at);
  const V v = c.in(self), w = c.in(mat2, "mat2");
  return c.out(c.b.emit(Op::weight_int8pack_mm, {v, w, c.in(scales, "scales")}, {}));
}

Tensor int_mm(const Tensor& self, const Tensor& mat2, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.emit(Op::int_mm, {v, c.in(mat2, "mat2")}, {}));
}

Tensor int8_linear(const Tensor& x, const Tensor& weight, const Tensor& scale, const Tensor& bias,
                   SourceLocation at) {
  Call c(at);
  return linear_of(c, Op::weight_int8pack_mm, x, weight, scale, bias);
}

Tensor dynamic_int8_linear(const Tensor& x, const Tensor& weight, const Tensor& scale,
                           const Tensor& bias, SourceLocation at) {
  Call c(at);
  return linear_of(c, Op::dynamic_int8pack_mm, x, weight, scale, bias);
}

}  // namespace tandem
