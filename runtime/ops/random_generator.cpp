// Random functions and methods with numbers from a generator of their own: the others of that name,
// which draw from it meanwhile.
#include <tandem/generator.h>
#include <tandem/ops.h>
#include <tandem/ops/sorting.h>

#include "runtime/tensor/generator.h"

namespace tandem {

using runtime::DrawsFrom;

Tensor rand(const Shape& sizes, const Generator& generator, DType dtype, SourceLocation at) {
  const DrawsFrom from(generator);
  return rand(sizes, dtype, at);
}
Tensor randn(const Shape& sizes, const Generator& generator, DType dtype, SourceLocation at) {
  const DrawsFrom from(generator);
  return randn(sizes, dtype, at);
}
Tensor rand_like(const Tensor& like, std::optional<DType> dtype, const Generator& generator,
                 SourceLocation at) {
  const DrawsFrom from(generator);
  return rand_like(like, dtype, at);
}
Tensor randn_like(const Tensor& like, std::optional<DType> dtype, const Generator& generator,
                  SourceLocation at) {
  const DrawsFrom from(generator);
  return randn_like(like, dtype, at);
}
Tensor randint(int64_t low, int64_t high, const Shape& sizes, const Generator& generator,
               DType dtype, SourceLocation at) {
  const DrawsFrom from(generator);
  return randint(low, high, sizes, dtype, at);
}
Tensor randperm(Dim n, const Generator& generator, DType dtype, SourceLocation at) {
  const DrawsFrom from(generator);
  return randperm(n, dtype, at);
}
Tensor bernoulli(const Tensor& self, const Generator& generator, SourceLocation at) {
  const DrawsFrom from(generator);
  return bernoulli(self, at);
}
Tensor bernoulli(const Tensor& self, double p, const Generator& generator, SourceLocation at) {
  const DrawsFrom from(generator);
  return bernoulli(self, p, at);
}
Tensor multinomial(const Tensor& self, Dim num_samples, bool replacement,
                   const Generator& generator, SourceLocation at) {
  const DrawsFrom from(generator);
  return multinomial(self, num_samples, replacement, at);
}
Tensor normal(const Tensor& mean, const Tensor& std, const Generator& generator,
              SourceLocation at) {
  const DrawsFrom from(generator);
  return normal(mean, std, at);
}
Tensor normal(const Tensor& mean, double std, const Generator& generator, SourceLocation at) {
  const DrawsFrom from(generator);
  return normal(mean, std, at);
}
Tensor normal(double mean, const Tensor& std, const Generator& generator, SourceLocation at) {
  const DrawsFrom from(generator);
  return normal(mean, std, at);
}
Tensor normal(double mean, double std, const Shape& sizes, const Generator& generator, DType dtype,
              SourceLocation at) {
  const DrawsFrom from(generator);
  return normal(mean, std, sizes, dtype, at);
}
Tensor rrelu(const Tensor& self, double lower, double upper, bool training,
             const Generator& generator, SourceLocation at) {
  const DrawsFrom from(generator);
  return rrelu(self, lower, upper, training, at);
}

// --- methods

Tensor Tensor::bernoulli(const Generator& generator, SourceLocation at) const {
  const DrawsFrom from(generator);
  return bernoulli(at);
}
Tensor Tensor::bernoulli(double p, const Generator& generator, SourceLocation at) const {
  const DrawsFrom from(generator);
  return bernoulli(p, at);
}
Tensor Tensor::multinomial(Dim num_samples, bool replacement, const Generator& generator,
                           SourceLocation at) const {
  const DrawsFrom from(generator);
  return multinomial(num_samples, replacement, at);
}
Tensor Tensor::rrelu(double lower, double upper, bool training, const Generator& generator,
                     SourceLocation at) const {
  const DrawsFrom from(generator);
  return rrelu(lower, upper, training, at);
}
const Tensor& Tensor::rrelu_(double lower, double upper, bool training, const Generator& generator,
                             SourceLocation at) const {
  const DrawsFrom from(generator);
  return rrelu_(lower, upper, training, at);
}
const Tensor& Tensor::uniform_(double from, double to, const Generator& generator,
                               SourceLocation at) const {
  const DrawsFrom source(generator);
  return uniform_(from, to, at);
}
const Tensor& Tensor::normal_(double mean, double std, const Generator& generator,
                              SourceLocation at) const {
  const DrawsFrom from(generator);
  return normal_(mean, std, at);
}
const Tensor& Tensor::bernoulli_(double p, const Generator& generator, SourceLocation at) const {
  const DrawsFrom from(generator);
  return bernoulli_(p, at);
}
const Tensor& Tensor::bernoulli_(const Tensor& p, const Generator& generator,
                                 SourceLocation at) const {
  const DrawsFrom from(generator);
  return bernoulli_(p, at);
}
const Tensor& Tensor::exponential_(double lambd, const Generator& generator,
                                   SourceLocation at) const {
  const DrawsFrom from(generator);
  return exponential_(lambd, at);
}
const Tensor& Tensor::geometric_(double p, const Generator& generator, SourceLocation at) const {
  const DrawsFrom from(generator);
  return geometric_(p, at);
}
const Tensor& Tensor::cauchy_(double median, double sigma, const Generator& generator,
                              SourceLocation at) const {
  const DrawsFrom from(generator);
  return cauchy_(median, sigma, at);
}
const Tensor& Tensor::log_normal_(double mean, double std, const Generator& generator,
                                  SourceLocation at) const {
  const DrawsFrom from(generator);
  return log_normal_(mean, std, at);
}
const Tensor& Tensor::random_(const Generator& generator, SourceLocation at) const {
  const DrawsFrom from(generator);
  return random_(at);
}
const Tensor& Tensor::random_(int64_t to, const Generator& generator, SourceLocation at) const {
  const DrawsFrom from(generator);
  return random_(to, at);
}
const Tensor& Tensor::random_(int64_t from, int64_t to, const Generator& generator,
                              SourceLocation at) const {
  const DrawsFrom source(generator);
  return random_(from, to, at);
}

}  // namespace tandem
