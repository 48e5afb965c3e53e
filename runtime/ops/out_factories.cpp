// Factories and random draws that write into given tensors, in their dtypes.
#include <tandem/ops/out_forms.h>

#include "runtime/ops/out.h"

namespace tandem {

using runtime::write_out;

const Tensor& full_out(const Tensor& out, const Shape& sizes, const Number& value,
                       SourceLocation at) {
  return write_out("full_out", out, at, {}, [&] { return full(sizes, value, out.dtype(), at); });
}
const Tensor& zeros_out(const Tensor& out, const Shape& sizes, SourceLocation at) {
  return write_out("zeros_out", out, at, {}, [&] { return zeros(sizes, out.dtype(), at); });
}
const Tensor& ones_out(const Tensor& out, const Shape& sizes, SourceLocation at) {
  return write_out("ones_out", out, at, {}, [&] { return ones(sizes, out.dtype(), at); });
}
const Tensor& arange_out(const Tensor& out, const Number& end, SourceLocation at) {
  return write_out("arange_out", out, at, {}, [&] { return arange(end, out.dtype(), at); });
}
const Tensor& arange_out(const Tensor& out, const Number& start, const Number& end,
                         const Number& step, SourceLocation at) {
  return write_out("arange_out", out, at, {},
                   [&] { return arange(start, end, step, out.dtype(), at); });
}
const Tensor& eye_out(const Tensor& out, Dim n, std::optional<Dim> m, SourceLocation at) {
  return write_out("eye_out", out, at, {}, [&] { return eye(n, m, out.dtype(), at); });
}
const Tensor& rand_out(const Tensor& out, const Shape& sizes, SourceLocation at) {
  return write_out("rand_out", out, at, {}, [&] { return rand(sizes, out.dtype(), at); });
}
const Tensor& randn_out(const Tensor& out, const Shape& sizes, SourceLocation at) {
  return write_out("randn_out", out, at, {}, [&] { return randn(sizes, out.dtype(), at); });
}
const Tensor& randint_out(const Tensor& out, int64_t low, int64_t high, const Shape& sizes,
                          SourceLocation at) {
  return write_out("randint_out", out, at, {},
                   [&] { return randint(low, high, sizes, out.dtype(), at); });
}
const Tensor& randperm_out(const Tensor& out, Dim n, SourceLocation at) {
  return write_out("randperm_out", out, at, {}, [&] { return randperm(n, out.dtype(), at); });
}
const Tensor& bernoulli_out(const Tensor& out, const Tensor& self, SourceLocation at) {
  return write_out("bernoulli_out", out, at, {}, [&] { return bernoulli(self, at); });
}
const Tensor& multinomial_out(const Tensor& out, const Tensor& self, Dim num_samples,
                              bool replacement, SourceLocation at) {
  return write_out("multinomial_out", out, at, {},
                   [&] { return multinomial(self, num_samples, replacement, at); });
}
const Tensor& normal_out(const Tensor& out, const Tensor& mean, const Tensor& std,
                         SourceLocation at) {
  return write_out("normal_out", out, at, {}, [&] { return normal(mean, std, at); });
}
const Tensor& normal_out(const Tensor& out, const Tensor& mean, double std, SourceLocation at) {
  return write_out("normal_out", out, at, {}, [&] { return normal(mean, std, at); });
}
const Tensor& normal_out(const Tensor& out, double mean, const Tensor& std, SourceLocation at) {
  return write_out("normal_out", out, at, {}, [&] { return normal(mean, std, at); });
}

}  // namespace tandem
