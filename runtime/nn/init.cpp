#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/nn/init.h>
#include <tandem/ops.h>
#include <tandem/ops/linalg.h>
#include <tandem/ops/sorting.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/tensor/generator.h"

namespace tandem::nn::init {
namespace {

/// Refuses a value that a recipe does not take.
void require(bool fits, const char* function, const char* expected, double got) {
  if (!fits)
    ir::fail(Errc::Argument, fmt::format("{}: expected {}, got {}", function, expected, got));
}

void require_dims(const Tensor& t, const char* function, int64_t least, int64_t most) {
  if (t.dim() >= least && t.dim() <= most) return;
  const std::string expected = least == most     ? fmt::format("{}", least)
                               : most < INT8_MAX ? fmt::format("{} to {}", least, most)
                                                 : fmt::format("{} or more", least);
  ir::fail(Errc::Shape, fmt::format("{}: expected a tensor of {} dimensions, got {}", function,
                                    expected, to_string(t.sizes())));
}
void require_fan(const Tensor& t, const char* function) { require_dims(t, function, 2, INT8_MAX); }

struct Fan {
  double in, out;
};
Fan fan_of(const Tensor& t) {
  double receptive = 1;
  for (int64_t d = 2; d < t.dim(); ++d) receptive *= static_cast<double>(t.size(d));
  return {static_cast<double>(t.size(1)) * receptive, static_cast<double>(t.size(0)) * receptive};
}

/// The deviation that keeps the variance.
double kaiming_std(const Tensor& t, const KaimingOptions& options, const char* function) {
  require_fan(t, function);
  if (options.mode != "fan_in" && options.mode != "fan_out")
    ir::fail(Errc::Argument, fmt::format("{}: expected mode \"fan_in\" or \"fan_out\", got \"{}\"",
                                         function, options.mode));
  const Fan fan = fan_of(t);
  return calculate_gain(options.nonlinearity, options.a) /
         std::sqrt(options.mode == "fan_in" ? fan.in : fan.out);
}

double xavier_std(const Tensor& t, double gain, const char* function) {
  require_fan(t, function);
  const Fan fan = fan_of(t);
  return gain * std::sqrt(2 / (fan.in + fan.out));
}

/// Uniform of deviation `std`.
const Tensor& uniform_of(const Tensor& t, double std, SourceLocation at) {
  const NoGrad no_grad;
  const double bound = std::numbers::sqrt3 * std;
  return t.uniform_(-bound, bound, at);
}
const Tensor& normal_of(const Tensor& t, double mean, double std, SourceLocation at) {
  const NoGrad no_grad;
  return t.normal_(mean, std, at);
}

/// The standard normal distribution's.
double cumulative(double x) { return (1 + std::erf(x / std::numbers::sqrt2)) / 2; }

struct Gain {
  std::string_view nonlinearity;
  double gain;
};
constexpr Gain kGains[] = {{"linear", 1},           {"conv1d", 1},
                           {"conv2d", 1},           {"conv3d", 1},
                           {"conv_transpose1d", 1}, {"conv_transpose2d", 1},
                           {"conv_transpose3d", 1}, {"sigmoid", 1},
                           {"tanh", 5.0 / 3},       {"relu", std::numbers::sqrt2},
                           {"selu", 3.0 / 4}};

/// Halves have no factorization: theirs is f32's.
DType factored_dtype(const Tensor& t) { return t.dtype() == f64 ? f64 : f32; }

}  // namespace

double calculate_gain(std::string_view nonlinearity, std::optional<double> param,
                      SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (nonlinearity == "leaky_relu") {
    const double slope = param.value_or(0.01);
    return std::sqrt(2 / (1 + slope * slope));
  }
  const auto* const known = std::ranges::find(kGains, nonlinearity, &Gain::nonlinearity);
  if (known == std::end(kGains))
    ir::fail(
        Errc::Argument,
        fmt::format("calculate_gain: unknown nonlinearity; expected \"linear\", \"sigmoid\", "
                    "\"tanh\", \"relu\", \"leaky_relu\", \"selu\" or a convolution, got \"{}\"",
                    nonlinearity));
  return known->gain;
}

const Tensor& uniform_(const Tensor& tensor, double a, double b, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require(a <= b, "uniform_", "bounds a <= b", b - a);
  const NoGrad no_grad;
  return tensor.uniform_(a, b, at);
}

const Tensor& normal_(const Tensor& tensor, double mean, double std, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require(std >= 0, "normal_", "a deviation >= 0", std);
  return normal_of(tensor, mean, std, at);
}

const Tensor& trunc_normal_(const Tensor& tensor, double mean, double std, double a, double b,
                            SourceLocation at) {
  const ir::ErrorScope errors(at);
  require(std > 0, "trunc_normal_", "a deviation > 0", std);
  require(a <= b, "trunc_normal_", "bounds a <= b", b - a);
  const NoGrad no_grad;
  const runtime::DrawScope draws;
  const double low = 2 * cumulative((a - mean) / std) - 1;
  const double high = 2 * cumulative((b - mean) / std) - 1;
  const Tensor u = rand(tensor.sizes(), factored_dtype(tensor), at) * (high - low) + low;
  return tensor.copy_(clamp(erfinv(u) * (std * std::numbers::sqrt2) + mean, a, b));
}

const Tensor& constant_(const Tensor& tensor, const Number& value, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const NoGrad no_grad;
  return tensor.fill_(Located(value, at));
}
const Tensor& ones_(const Tensor& tensor, SourceLocation at) { return constant_(tensor, 1, at); }
const Tensor& zeros_(const Tensor& tensor, SourceLocation at) { return constant_(tensor, 0, at); }

const Tensor& eye_(const Tensor& tensor, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_dims(tensor, "eye_", 2, 2);
  const NoGrad no_grad;
  return tensor.zero_(at).fill_diagonal_(Located(1, at));
}

const Tensor& dirac_(const Tensor& tensor, int64_t groups, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_dims(tensor, "dirac_", 3, 5);
  require(groups > 0 && tensor.size(0) % groups == 0, "dirac_",
          "groups that divide the output channels", static_cast<double>(groups));
  const NoGrad no_grad;
  tensor.zero_(at);
  Tensor middle = tensor;
  while (middle.dim() > 2) middle = middle.select(-1, middle.size(-1) / 2, at);
  const Dim per_group = tensor.size(0) / groups;
  for (int64_t g = 0; g < groups; ++g)
    middle.slice(0, g * per_group, (g + 1) * per_group).fill_diagonal_(Located(1, at));
  return tensor;
}

const Tensor& xavier_uniform_(const Tensor& tensor, double gain, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return uniform_of(tensor, xavier_std(tensor, gain, "xavier_uniform_"), at);
}
const Tensor& xavier_normal_(const Tensor& tensor, double gain, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return normal_of(tensor, 0, xavier_std(tensor, gain, "xavier_normal_"), at);
}

const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options,
                               SourceLocation at) {
  const ir::ErrorScope errors(at);
  const double std = kaiming_std(tensor, options, "kaiming_uniform_");
  return tensor.numel() == 0 ? tensor : uniform_of(tensor, std, at);
}
const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options,
                              SourceLocation at) {
  const ir::ErrorScope errors(at);
  const double std = kaiming_std(tensor, options, "kaiming_normal_");
  return tensor.numel() == 0 ? tensor : normal_of(tensor, 0, std, at);
}

const Tensor& orthogonal_(const Tensor& tensor, double gain, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_fan(tensor, "orthogonal_");
  if (tensor.numel() == 0) return tensor;
  const NoGrad no_grad;
  const runtime::DrawScope draws;
  const Dim rows = tensor.size(0), columns = tensor.numel() / rows;
  const Shape tall = {std::max(rows, columns), std::min(rows, columns)};
  const Qr factors = qr(randn(tall, factored_dtype(tensor), at));
  // Unique, and uniformly distributed, by the signs of R's diagonal.
  const Tensor q = factors.q * sign(diagonal(factors.r));
  return tensor.copy_((rows < columns ? q.t() : q).reshape(tensor.sizes()) * gain);
}

const Tensor& sparse_(const Tensor& tensor, double sparsity, double std, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_dims(tensor, "sparse_", 2, 2);
  require(sparsity >= 0 && sparsity <= 1, "sparse_", "a sparsity in [0, 1]", sparsity);
  require(std >= 0, "sparse_", "a deviation >= 0", std);
  const NoGrad no_grad;
  const runtime::DrawScope draws;
  const auto rows = static_cast<double>(tensor.size(0));
  const Tensor order = argsort(rand(tensor.sizes(), f32, at), 0);
  const Tensor zeros = order.slice(0, 0, static_cast<int64_t>(std::ceil(sparsity * rows)));
  return tensor.copy_(randn(tensor.sizes(), tensor.dtype(), at).mul(std).scatter(0, zeros, 0));
}

}  // namespace tandem::nn::init
