// Norms over batches, groups of channels and trailing dimensions.
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "runtime/networks/images.h"
#include "runtime/tape/autograd.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

std::string function() { return ir::ErrorScope::function(); }

void require_floating(Call& c, V x, const char* name = "input") {
  if (!ir::is_floating(c.b.dtype(x)))
    ir::fail(Errc::DType, fmt::format("{}: expected {} of a floating dtype, got {}", function(),
                                      name, ir::name(c.b.dtype(x))));
}

/// Halves are computed with in f32.
V wide(Call& c, V x) { return ir::size_of(c.b.dtype(x)) < 4 ? c.b.convert(x, f32) : x; }

/// All dimensions but that of the channels.
ir::Axes beside_channels(int rank) {
  ir::Axes dims{0};
  for (int d = 2; d < rank; ++d) dims.push_back(d);
  return dims;
}

/// A vector of one number for each channel, beside images of this rank.
V along_channels(Call& c, V vector, int rank) {
  Shape sizes = Shape::filled(std::max(rank - 1, 1), 1);
  sizes[0] = c.b.numel(vector);
  return c.b.reshape(vector, sizes);
}

/// A parameter or statistic of one number for each of `channels`; undefined if it is.
std::optional<V> per_channel(Call& c, const Tensor& t, const char* name, Dim channels) {
  if (!t.defined()) return std::nullopt;
  const V v = c.in(t, name);
  require_floating(c, v, name);
  if (c.b.sizes(v) != Shape{channels})
    ir::fail(Errc::Shape,
             fmt::format("{}: {} does not fit the channels; expected {}, got {}", function(), name,
                         to_string(Shape{channels}), to_string(c.b.sizes(v))));
  return wide(c, v);
}

/// x * weight + bias, each of channels.
V with_parameters(Call& c, V x, const std::optional<V>& weight, const std::optional<V>& bias) {
  const int rank = c.b.rank(x);
  if (weight) x = c.b.mul(x, along_channels(c, *weight, rank));
  return bias ? c.b.add(x, along_channels(c, *bias, rank)) : x;
}

/// running = (1 - momentum) * running + momentum * batch
void update(const Tensor& running, const Tensor& batch, double momentum, const SourceLocation& at) {
  if (!running.defined()) return;
  const NoGrad no_grad;
  const Located share(momentum, at);
  running.copy_(
      Located(running.mul(Located(1 - momentum, at)).add(Located(batch.mul(share), at)), at));
}

struct BatchNorm {
  const Tensor &running_mean, &running_var, &weight, &bias;
  double momentum, eps;
};

struct Normed {
  Tensor result, mean, var;  // var: of the population without bias
};

/// By the statistics of the batch itself.
Normed by_batch(Call& c, V x, const BatchNorm& n) {
  const Dim channels = c.b.sizes(x)[1];
  const ir::Axes dims = beside_channels(c.b.rank(x));
  const V in = wide(c, x);
  const ir::ValueList statistics = c.b.var_mean(in, dims, 0, true);
  const V var = statistics[0], mean = statistics[1], centred = c.b.sub(in, mean);
  const auto weight = per_channel(c, n.weight, "weight", channels),
             bias = per_channel(c, n.bias, "bias", channels);
  V scale = c.b.reshape(c.b.rsqrt(c.b.add(var, n.eps)), {channels});
  if (weight) scale = c.b.mul(scale, *weight);
  const V out = with_parameters(c, centred, scale, bias);
  const auto count = static_cast<double>(int64_t{c.b.numel(x)}) /
                     std::max(1.0, static_cast<double>(int64_t{channels}));
  const V unbiased = c.b.mul(c.b.reshape(var, {channels}), count / (count - 1));
  const auto [result, means, vars] =
      c.outs(c.b.convert(out, c.b.dtype(x)), c.b.reshape(mean, {channels}), unbiased);
  return {result, means, vars};
}

Tensor by_running(Call& c, V x, const BatchNorm& n) {
  const Dim channels = c.b.sizes(x)[1];
  const auto mean = per_channel(c, n.running_mean, "running_mean", channels),
             var = per_channel(c, n.running_var, "running_var", channels);
  if (!mean || !var)
    ir::fail(Errc::Argument,
             fmt::format("{}: no statistics; expected running_mean and running_var, or training",
                         function()));
  const auto weight = per_channel(c, n.weight, "weight", channels),
             bias = per_channel(c, n.bias, "bias", channels);
  // As ATen: a factor and a summand for each channel.
  V scale = c.b.rsqrt(c.b.add(*var, n.eps));
  if (weight) scale = c.b.mul(scale, *weight);
  const V product = c.b.mul(*mean, scale),
          shift = bias ? c.b.sub(*bias, product) : c.b.neg(product);
  return c.out(c.b.convert(with_parameters(c, wide(c, x), scale, shift), c.b.dtype(x)));
}

void require_channels(Call& c, V x) {
  require_floating(c, x);
  if (c.b.rank(x) < 2)
    ir::fail(Errc::Shape, fmt::format("{}: expected [n, channels, ...], got {}", function(),
                                      to_string(c.b.sizes(x))));
}

/// The elements of one channel of one image.
Dim image_size(Call& c, V x) {
  Dim count = 1;
  for (int d = 2; d < c.b.rank(x); ++d) count = count * c.b.sizes(x)[d];
  return count;
}

/// `values`: how many each statistic is of.
void require_several(Call& c, V x, Dim values) {
  if (values == 1)
    ir::fail(Errc::Shape, fmt::format("{}: expected more than one value per channel in training, "
                                      "got {}",
                                      function(), to_string(c.b.sizes(x))));
}

/// Of a batch without elements, which has no statistics: those that run stay as they are, and the
/// parameters' gradients are zeros.
Tensor without_elements(Call& c, V x, const BatchNorm& n) {
  const Dim channels = c.b.sizes(x)[1];
  const V out =
      with_parameters(c, wide(c, c.b.clone(x)), per_channel(c, n.weight, "weight", channels),
                      per_channel(c, n.bias, "bias", channels));
  return c.out(c.b.convert(out, c.b.dtype(x)));
}

/// [n, c, ...] as [1, n c, ...].
V as_one_image(Call& c, V x) {
  Shape sizes = c.b.sizes(x);
  sizes[1] = sizes[0] * sizes[1];
  sizes[0] = 1;
  return c.b.reshape(x, sizes);
}

void require_trailing(Call& c, V x, const Shape& shape) {
  const Shape& sizes = c.b.sizes(x);
  const int rank = sizes.rank(), trailing = shape.rank();
  const bool fits = trailing >= 1 && trailing <= rank &&
                    Shape(std::span(sizes.end() - trailing, sizes.end())) == shape;
  if (!fits)
    ir::fail(Errc::Shape, fmt::format("{}: the normalized shape does not fit; expected the last "
                                      "sizes of {}, got {}",
                                      function(), to_string(sizes), to_string(shape)));
}

double epsilon_of(DType dtype) {
  if (dtype == f64) return std::numeric_limits<double>::epsilon();
  // Halves are computed with in f32.
  return std::numeric_limits<float>::epsilon();
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input");
  require_channels(c, x);
  const BatchNorm n{running_mean, running_var, weight, bias, momentum, eps};
  if (!training) return by_running(c, x, n);
  require_several(c, x, c.b.sizes(x)[0] * image_size(c, x));
  per_channel(c, running_mean, "running_mean", c.b.sizes(x)[1]);
  per_channel(c, running_var, "running_var", c.b.sizes(x)[1]);
  if (c.b.numel(x) == 0) return without_elements(c, x, n);
  const Normed normed = by_batch(c, x, n);
  update(running_mean, normed.mean, momentum, at);
  update(running_var, normed.var, momentum, at);
  return normed.result;
}

Tensor instance_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, bool use_input_stats,
                     double momentum, double eps, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input");
  require_channels(c, x);
  const BatchNorm n{running_mean, running_var, weight, bias, momentum, eps};
  if (!use_input_stats) return by_running(c, x, n);
  const Dim images = c.b.sizes(x)[0], channels = c.b.sizes(x)[1];
  require_several(c, x, image_size(c, x));
  per_channel(c, running_mean, "running_mean", channels);
  per_channel(c, running_var, "running_var", channels);
  if (c.b.numel(x) == 0) return without_elements(c, x, n);
  const Tensor none;
  const Normed normed = by_batch(c, as_one_image(c, x), {none, none, none, none, momentum, eps});
  const Shape each{images, channels};
  update(running_mean, normed.mean.view(each, at).mean({0}, false, at), momentum, at);
  update(running_var, normed.var.view(each, at).mean({0}, false, at), momentum, at);
  const V normal = wide(c, c.b.reshape(c.in(normed.result), c.b.sizes(x)));
  const V out = with_parameters(c, normal, per_channel(c, weight, "weight", channels),
                                per_channel(c, bias, "bias", channels));
  return c.out(c.b.convert(out, c.b.dtype(x)));
}

Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input");
  require_channels(c, x);
  const Dim channels = c.b.sizes(x)[1];
  if (num_groups < 1 || channels % num_groups != 0)
    ir::fail(Errc::Argument,
             fmt::format("{}: num_groups does not fit; expected a divisor of {} channels, got {}",
                         function(), int64_t{channels}, num_groups));
  const V out = c.b.native_group_norm(wide(c, x), per_channel(c, weight, "weight", channels),
                                      per_channel(c, bias, "bias", channels), num_groups, eps)[0];
  return c.out(c.b.convert(out, c.b.dtype(x)));
}

Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input");
  require_floating(c, x);
  require_trailing(c, x, normalized_shape);
  ir::Axes dims;
  for (int d = 1; d <= normalized_shape.rank(); ++d) dims.push_back(-d);
  const V in = wide(c, x), mean = c.b.mean(c.b.square(in), dims, true);
  V out = c.b.mul(in, c.b.rsqrt(c.b.add(mean, eps.value_or(epsilon_of(c.b.dtype(x))))));
  if (weight.defined()) {
    const V w = c.in(weight, "weight");
    if (c.b.sizes(w) != normalized_shape)
      ir::fail(Errc::Shape, fmt::format("{}: weight does not fit; expected {}, got {}", function(),
                                        to_string(normalized_shape), to_string(c.b.sizes(w))));
    out = c.b.mul(out, wide(c, w));
  }
  return c.out(c.b.convert(out, c.b.dtype(x)));
}

Tensor local_response_norm(const Tensor& input, int64_t size, double alpha, double beta, double k,
                           SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input");
  if (c.b.rank(x) < 3)
    ir::fail(Errc::Shape, fmt::format("{}: expected at least 3 dimensions, got {}", function(),
                                      to_string(c.b.sizes(x))));
  if (size < 1)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected a size of at least 1, got {}", function(), size));
  if (input.numel() == 0) return clone(input, at);  // of integers too
  const Dim channels = c.b.sizes(x)[1];
  std::vector<Dim> padding(2 * static_cast<size_t>(c.b.rank(x)), 0);
  padding[2] = size / 2;
  padding[3] = (size - 1) / 2;
  const V squares = c.b.pad(c.b.square(x), padding, 0);
  V sum = c.b.slice(squares, 1, 0, channels);
  for (int64_t i = 1; i < size; ++i) sum = c.b.add(sum, c.b.slice(squares, 1, i, channels + i));
  const bool is_floating = ir::is_floating(c.b.dtype(x));
  const V scaled = is_floating ? c.b.mul(sum, alpha / static_cast<double>(size))
                               : c.b.mul(c.b.floor_divide(sum, size), alpha);  // as ATen's averages
  return c.out(c.b.div(x, c.b.pow(c.b.add(scaled, k), beta)));
}

}  // namespace tandem
