// Activations that are made of other operations.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/ops/call.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

V floating(Call& c, const Tensor& self) {
  const V x = c.in(self);
  if (!ir::is_floating(c.b.dtype(x)))
    ir::fail(Errc::DType, fmt::format("{}: expected a floating dtype, got {}",
                                      ir::ErrorScope::function(), ir::name(c.b.dtype(x))));
  return x;
}

/// NaN where x is, else 0; its gradient is zeros, as trunc's.
V nan_alone(Call& c, V x) { return c.b.where(c.b.isnan(x), c.b.trunc(x), 0); }

/// Of self's dtype, rounded to it.
V number_of(Call& c, V x, const Number& value) { return c.given(value, c.b.dtype(x)); }

/// The weight of prelu beside self: as one of its channels.
V beside_channels(Call& c, V x, V weight) {
  const Shape& sizes = c.b.sizes(x);
  const Dim count = c.b.numel(weight);
  if (c.b.dtype(x) != c.b.dtype(weight))
    ir::fail(Errc::DType,
             fmt::format("prelu: weight has another dtype than self; expected {}, got {}",
                         ir::name(c.b.dtype(x)), ir::name(c.b.dtype(weight))));
  if (c.b.rank(weight) > 1)
    ir::fail(Errc::Shape, fmt::format("prelu: weight has dimensions; expected one or none, got {}",
                                      ir::to_string(c.b.sizes(weight))));
  const Dim channels = sizes.rank() < 2 ? Dim(1) : sizes[1];
  if (count != 1 && count != channels)
    ir::fail(Errc::Shape,
             fmt::format("prelu: expected one weight or one for each of {} channels, got {}",
                         static_cast<int64_t>(channels), static_cast<int64_t>(count)));
  if (count == 1 || sizes.rank() < 2) return c.b.view(weight, {});
  Shape beside = Shape::filled(sizes.rank() - 1, 1);
  beside[0] = count;
  return c.b.view(weight, beside);
}

Tensor drawn_slopes(const Tensor& self, double lower, double upper, const SourceLocation& at) {
  const Tensor drawn = rand_like(self, {}, at);
  return add(Located(mul(Located(drawn, at), Located(upper - lower, at)), at), Located(lower, at));
}

}  // namespace

Tensor hardshrink(const Tensor& self, double lambd, SourceLocation at) {
  Call c(at);
  const V x = floating(c, self);
  return c.out(c.b.where(c.b.gt(c.b.abs(x), lambd), x, nan_alone(c, x)));
}
Tensor Tensor::hardshrink(double lambd, SourceLocation at) const {
  return tandem::hardshrink(*this, lambd, at);
}

// x +- lambd; NaN stays, the rest is 0
Tensor softshrink(const Tensor& self, double lambd, SourceLocation at) {
  Call c(at);
  const V x = floating(c, self);
  if (!(lambd >= 0))
    ir::fail(Errc::Argument,
             fmt::format("softshrink: expected lambd of at least 0, got {}", lambd));
  const V below = c.b.where(c.b.lt(x, -lambd), c.b.add(x, lambd), nan_alone(c, x));
  return c.out(c.b.where(c.b.gt(x, lambd), c.b.sub(x, lambd), below));
}

Tensor tanhshrink(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  if (c.b.dtype(x) == boolean)
    ir::fail(Errc::DType, "tanhshrink: not defined for bool; expected numbers, got bool");
  return c.out(c.b.sub(x, c.b.tanh(x)));
}

Tensor threshold(const Tensor& self, const Number& threshold, const Number& value,
                 SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  if (c.b.dtype(x) == boolean)
    ir::fail(Errc::DType, "threshold: not defined for bool; expected numbers, got bool");
  // As ATen, which rounds the value of halves alone.
  const V compared = ir::is_half(c.b.dtype(x)) ? c.b.convert(x, f32) : x;
  const V below = c.b.le(compared, number_of(c, compared, threshold));
  return c.out(c.b.where(below, number_of(c, x, value), x));
}
Tensor Tensor::threshold(const Number& threshold, const Number& value, SourceLocation at) const {
  return tandem::threshold(*this, threshold, value, at);
}
const Tensor& Tensor::threshold_(const Number& threshold, const Number& value,
                                 SourceLocation at) const {
  const ir::ErrorScope errors(at, "threshold", true);
  return copy_(Located(tandem::threshold(clone(at), threshold, value, at), at));
}

Tensor prelu(const Tensor& self, const Tensor& weight, SourceLocation at) {
  Call c(at);
  const V x = floating(c, self), w = beside_channels(c, x, c.in(weight, "weight"));
  return c.out(c.b.where(c.b.gt(x, 0), x, c.b.mul(x, w)));
}
Tensor Tensor::prelu(const Tensor& weight, SourceLocation at) const {
  return tandem::prelu(*this, weight, at);
}

Tensor rrelu(const Tensor& self, double lower, double upper, bool training, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (!(lower <= upper))
    ir::fail(Errc::Argument,
             fmt::format("rrelu: expected lower up to upper, got {} and {}", lower, upper));
  if (!training) return leaky_relu(self, (lower + upper) / 2, at);
  const Tensor slopes = drawn_slopes(self, lower, upper, at);
  Call c(at);
  const V x = floating(c, self);
  return c.out(c.b.where(c.b.gt(x, 0), x, c.b.mul(x, c.in(slopes))));
}
Tensor Tensor::rrelu(double lower, double upper, bool training, SourceLocation at) const {
  return tandem::rrelu(*this, lower, upper, training, at);
}
const Tensor& Tensor::rrelu_(double lower, double upper, bool training, SourceLocation at) const {
  const ir::ErrorScope errors(at, "rrelu", true);
  return copy_(Located(tandem::rrelu(clone(at), lower, upper, training, at), at));
}

Tensor glu(const Tensor& self, int64_t dim, SourceLocation at) {
  Call c(at);
  const V x = floating(c, self);
  const int rank = c.b.rank(x), d = c.b.wrap_dim(dim, std::max(rank, 1), "glu");
  const Dim size = rank == 0 ? Dim(1) : c.b.sizes(x)[d];
  if (static_cast<int64_t>(size) % 2 != 0)
    ir::fail(Errc::Shape, fmt::format("glu: expected an even size of dimension {}, got {}", d,
                                      ir::to_string(c.b.sizes(x))));
  const Dim half = size / 2;
  const V gate = c.b.sigmoid(c.b.slice(x, d, half, size));
  return c.out(c.b.mul(c.b.slice(x, d, 0, half), gate));
}

Tensor softmin(const Tensor& self, int64_t dim, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return softmax(neg(self, at), dim, at);
}

}  // namespace tandem
