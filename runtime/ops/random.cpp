// Random numbers by distribution: made of uniform and normal ones.
#include <fmt/format.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/sorting.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/ops/call.h"
#include "runtime/tensor/generator.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::Call;
using runtime::V;

void require_probability(double p) {
  if (!(p >= 0 && p <= 1))
    ir::fail(Errc::Argument,
             fmt::format("{}: expected a probability, got {}", ErrorScope::function(), p));
}

void require_floating(const Tensor& t) {
  if (!ir::is_floating(t.dtype()))
    ir::fail(Errc::DType, fmt::format("{}: expected a floating dtype, got {}",
                                      ErrorScope::function(), ir::name(t.dtype())));
}

/// `holds` of all elements, which a trace cannot look at.
void require_all(const Tensor& holds, std::string_view problem) {
  if (runtime::Trace::current() != nullptr || holds.numel() == 0) return;
  if (!all(holds).item<bool>())
    ir::fail(Errc::Argument, fmt::format("{}: {}", ErrorScope::function(), problem));
}

/// Uniform in [0, 1), in f64: fine enough for every dtype that is made of it.
Tensor uniform(const Shape& sizes, const SourceLocation& at) { return rand(sizes, f64, at); }

/// 1 where a uniform number is below p, else 0; as `like`, to which no more than zeros flow back.
Tensor drawn(const Tensor& like, const Tensor& p, const SourceLocation& at) {
  const Tensor hits = (uniform(like.sizes(), at) < p.detach()).to(like.dtype(), at);
  Call c(at);
  const V v = c.in(like);
  return ir::is_floating(like.dtype()) ? c.out(c.b.pointwise(Op::copy, {v, c.in(hits)})) : hits;
}

/// Of mean 1.
Tensor exponential(const Shape& sizes, const SourceLocation& at) {
  return neg(log1p(neg(uniform(sizes, at), at), at), at);
}

// --- multinomial

void require_weights(const Tensor& self, Dim num_samples, bool replacement) {
  require_floating(self);
  if (self.dim() < 1 || self.dim() > 2)
    ir::fail(Errc::Shape, fmt::format("multinomial: expected weights [n] or [rows, n], got {}",
                                      to_string(self.sizes())));
  const Dim n = self.size(-1);
  if (num_samples < 1 || (!replacement && num_samples > n))
    ir::fail(Errc::Argument, fmt::format("multinomial: num_samples out of range; expected at least "
                                         "1, at most {} without replacement, got {}",
                                         int64_t{n}, int64_t{num_samples}));
  const NoGrad no_grad;
  require_all((self >= 0) & isfinite(self), "expected weights that are finite and not negative");
  require_all(sum(self > 0, {-1}) >= (replacement ? 1 : int64_t{num_samples}),
              "too few weights are above 0; expected one, or without replacement one for each "
              "sample");
}

/// The first element whose running sum is above a uniform part of the whole.
Tensor with_replacement(const Tensor& weights, Dim num_samples, const SourceLocation& at) {
  const Tensor sums = cumsum(weights.to(f64, at), -1, {}, at);
  Shape sizes = weights.sizes();
  sizes[sizes.rank() - 1] = num_samples;
  const Tensor total = slice(sums, -1, -1, {}, 1, at);
  return clamp_max(searchsorted(sums, Located(uniform(sizes, at) * total, at), {.right = true}),
                   int64_t{weights.size(-1)} - 1);
}

// --- random_

struct Bounds {
  int64_t from, to;
};
/// What a dtype counts without gaps.
Bounds whole_range(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return {0, (int64_t{1} << 53) + 1};
    case DType::F32:
      return {0, (int64_t{1} << 24) + 1};
    case DType::F16:
      return {0, (int64_t{1} << 11) + 1};
    case DType::BF16:
      return {0, (int64_t{1} << 8) + 1};
    case DType::Bool:
      return {0, 2};
    case DType::U8:
      return {0, 256};
    case DType::I64:
      return {0, std::numeric_limits<int64_t>::max()};
    default:
      return {0, int64_t{1} << (8 * ir::size_of(dtype) - 1)};
  }
}

}  // namespace

Tensor randperm(Dim n, DType dtype, SourceLocation at) {
  const ErrorScope errors(at);
  if (n < 0)
    ir::fail(Errc::Argument, fmt::format("randperm: expected n of at least 0, got {}", int64_t{n}));
  const runtime::DrawScope draws;
  return argsort(uniform({n}, at), 0, false, true, at).to(dtype, at);
}

Tensor bernoulli(const Tensor& self, SourceLocation at) {
  const ErrorScope errors(at);
  require_floating(self);
  require_all((self.detach() >= 0) & (self.detach() <= 1), "expected probabilities, 0 to 1");
  const runtime::DrawScope draws;
  return drawn(self, self, at);
}
Tensor bernoulli(const Tensor& self, double p, SourceLocation at) {
  const ErrorScope errors(at);
  require_probability(p);
  const runtime::DrawScope draws;
  return drawn(self, full({}, p, f64, at), at);
}

Tensor multinomial(const Tensor& self, Dim num_samples, bool replacement, SourceLocation at) {
  const ErrorScope errors(at);
  require_weights(self, num_samples, replacement);
  const runtime::DrawScope draws;
  const Tensor weights = self.detach();
  if (replacement) return with_replacement(weights, num_samples, at);
  return topk(weights.to(f64, at) / exponential(self.sizes(), at), num_samples, -1, true, true, at)
      .indices;
}

Tensor normal(const Tensor& mean, const Tensor& std, SourceLocation at) {
  const ErrorScope errors(at);
  require_all(std.detach() >= 0, "expected deviations of at least 0");
  const runtime::DrawScope draws;
  const Tensor scaled = std.detach() * randn_like((mean + std).detach(), {}, at);
  return scaled + mean.detach();
}
Tensor normal(const Tensor& mean, double std, SourceLocation at) {
  const ErrorScope errors(at);
  return normal(mean, full({}, std, mean.dtype(), at), at);
}
Tensor normal(double mean, const Tensor& std, SourceLocation at) {
  const ErrorScope errors(at);
  return normal(full({}, mean, std.dtype(), at), std, at);
}
Tensor normal(double mean, double std, const Shape& sizes, DType dtype, SourceLocation at) {
  const ErrorScope errors(at);
  return normal(full(sizes, mean, dtype, at), full({}, std, dtype, at), at);
}

// --- writing forms

const Tensor& Tensor::bernoulli_(double p, SourceLocation at) const {
  const ErrorScope errors(at);
  require_probability(p);
  const runtime::DrawScope draws;
  return copy_(Located(uniform(sizes(), at) < p, at));
}
const Tensor& Tensor::bernoulli_(const Tensor& p, SourceLocation at) const {
  const ErrorScope errors(at);
  require_all((p.detach() >= 0) & (p.detach() <= 1), "expected probabilities, 0 to 1");
  const runtime::DrawScope draws;
  return copy_(Located(uniform(sizes(), at) < p.detach(), at));
}
const Tensor& Tensor::exponential_(double lambd, SourceLocation at) const {
  const ErrorScope errors(at);
  require_floating(*this);
  if (!(lambd > 0))
    ir::fail(Errc::Argument, fmt::format("exponential_: expected a rate above 0, got {}", lambd));
  const runtime::DrawScope draws;
  return copy_(Located(exponential(sizes(), at) / lambd, at));
}
const Tensor& Tensor::geometric_(double p, SourceLocation at) const {
  const ErrorScope errors(at);
  if (!(p > 0 && p < 1))
    ir::fail(Errc::Argument,
             fmt::format("geometric_: expected a probability between 0 and 1, got {}", p));
  const runtime::DrawScope draws;
  const Tensor trials = tandem::ceil(exponential(sizes(), at) / -std::log1p(-p), at);
  return copy_(Located(tandem::clamp_min(trials, 1), at));
}
const Tensor& Tensor::cauchy_(double median, double sigma, SourceLocation at) const {
  const ErrorScope errors(at);
  require_floating(*this);
  if (!(sigma > 0))
    ir::fail(Errc::Argument, fmt::format("cauchy_: expected a sigma above 0, got {}", sigma));
  const runtime::DrawScope draws;
  const Tensor angle = (uniform(sizes(), at) - 0.5) * std::numbers::pi;
  return copy_(Located(tandem::tan(angle, at) * sigma + median, at));
}
const Tensor& Tensor::log_normal_(double mean, double std, SourceLocation at) const {
  const ErrorScope errors(at);
  require_floating(*this);
  if (!(std > 0))
    ir::fail(Errc::Argument, fmt::format("log_normal_: expected a deviation above 0, got {}", std));
  const runtime::DrawScope draws;
  return copy_(Located(tandem::exp(randn(sizes(), f64, at) * std + mean, at), at));
}
const Tensor& Tensor::random_(int64_t from, int64_t to, SourceLocation at) const {
  const ErrorScope errors(at);
  if (from >= to)
    ir::fail(Errc::Argument, fmt::format("random_: expected from < to, got {} and {}", from, to));
  return copy_(Located(randint(from, to, sizes(), i64, at), at));
}
const Tensor& Tensor::random_(int64_t to, SourceLocation at) const {
  const ErrorScope errors(at);
  return random_(0, to, at);
}
const Tensor& Tensor::random_(SourceLocation at) const {
  const ErrorScope errors(at);
  const auto [from, to] = whole_range(dtype());
  return random_(from, to, at);
}

}  // namespace tandem
