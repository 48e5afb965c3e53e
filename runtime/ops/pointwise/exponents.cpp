// Numbers taken apart.
#include <tandem/ops/out_forms.h>

#include "ir/base/error.h"
#include "runtime/ops/call.h"
#include "runtime/ops/out.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

constexpr int64_t kBias = 1023, kFractionBits = 52, kScale = 54;

/// 2^k in f64, of an exponent that a normal number has.
V power_of_two(Call& c, V k) {
  return c.b.bitcast(c.b.shift_left(c.b.add(k, kBias), kFractionBits), f64);
}

struct Parts {
  V mantissa, exponent;
};

/// Of f64. The exponent is read from the bits; subnormal numbers are scaled to normal ones first.
Parts parts_of(Call& c, V x) {
  const V tiny = c.b.lt(c.b.abs(x), 0x1p-1022), normal = c.b.where(tiny, c.b.mul(x, 0x1p54), x);
  const V bits = c.b.bitcast(c.b.stop_gradient(normal), i64);
  const V biased = c.b.bitwise_and(c.b.shift_right(bits, kFractionBits), 2 * kBias + 1);
  const V regular = c.b.logical_and(c.b.ne(biased, 2 * kBias + 1), c.b.ne(x, 0));
  const V exponent = c.b.where(regular, c.b.sub(biased, kBias - 1), 0);
  const V half = c.b.shift_right(exponent, 1), rest = c.b.sub(exponent, half);
  const V mantissa =
      c.b.mul(c.b.mul(normal, power_of_two(c, c.b.neg(half))), power_of_two(c, c.b.neg(rest)));
  return {c.b.where(regular, mantissa, x),
          c.b.where(c.b.logical_and(tiny, regular), c.b.sub(exponent, kScale), exponent)};
}

}  // namespace

MantissaAndExponent frexp(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  const DType dtype = c.b.dtype(x);
  if (!ir::is_floating(dtype))
    ir::fail(Errc::DType,
             std::string("frexp: expected a floating dtype, got ") + std::string(ir::name(dtype)));
  const Parts parts = parts_of(c, c.b.convert(x, f64));
  const auto [mantissa, exponent] =
      c.outs(c.b.convert(parts.mantissa, dtype), c.b.convert(parts.exponent, i32));
  return {mantissa, exponent};
}
MantissaAndExponent Tensor::frexp(SourceLocation at) const { return tandem::frexp(*this, at); }
MantissaAndExponent frexp_out(const MantissaAndExponent& out, const Tensor& self,
                              SourceLocation at) {
  return runtime::write_each("frexp_out", out, at, [&] { return frexp(self, at); });
}

}  // namespace tandem
