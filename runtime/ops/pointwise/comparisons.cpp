// Whether tensors are equal, or nearly.
#include <fmt/format.h>
#include <tandem/ops/special.h>

#include "ir/base/error.h"
#include "runtime/ops/pointwise/operands.h"

namespace tandem {

using ir::ErrorScope;
using runtime::at_least_float;
using runtime::Call;
using runtime::V;

Tensor isclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan,
               SourceLocation at) {
  Call c(at);
  const V a = c.in(self), b = c.in(other, "other");
  if (c.b.dtype(a) != c.b.dtype(b))
    ir::fail(Errc::DType,
             fmt::format("{}: operands have different dtypes; expected {}, got {}",
                         ErrorScope::function(), ir::name(c.b.dtype(a)), ir::name(c.b.dtype(b))));
  for (double tolerance : {rtol, atol})
    if (!(tolerance >= 0))
      ir::fail(Errc::Argument, fmt::format("{}: expected tolerances of at least 0, got {}",
                                           ErrorScope::function(), tolerance));
  V close = c.b.eq(a, b);
  if (equal_nan) close = c.b.logical_or(close, c.b.logical_and(c.b.isnan(a), c.b.isnan(b)));
  if (rtol == 0 && atol == 0) return c.out(close);
  const bool is_bool = c.b.dtype(a) == boolean;
  const V expected = at_least_float(c, b);
  const V allowed = c.b.add(c.b.abs(c.b.mul(expected, rtol)), atol);
  const V actual = c.b.abs(c.b.sub(is_bool ? at_least_float(c, a) : a, is_bool ? expected : b));
  const V within = c.b.logical_and(c.b.isfinite(actual), c.b.le(actual, allowed));
  return c.out(c.b.logical_or(close, within));
}
bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan,
              SourceLocation at) {
  const ErrorScope errors(at);
  return all(isclose(self, other, rtol, atol, equal_nan, at), {}, false, at).item<bool>(at);
}
bool equal(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ErrorScope errors(at);
  if (self.sizes() != other.sizes()) return false;
  return all(eq(Located(self, at), Located(other, at)), {}, false, at).item<bool>(at);
}
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan,
                       SourceLocation at) const {
  return tandem::isclose(*this, other, rtol, atol, equal_nan, at);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan,
                      SourceLocation at) const {
  return tandem::allclose(*this, other, rtol, atol, equal_nan, at);
}
bool Tensor::equal(const Tensor& other, SourceLocation at) const {
  return tandem::equal(*this, other, at);
}

}  // namespace tandem
