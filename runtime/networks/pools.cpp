// Pools: averages, maxima, powers over windows, and the inverse of maxima.
#include <cmath>

#include "ir/base/error.h"
#include "runtime/networks/images.h"

namespace tandem {
namespace {

using ir::Dims;
using ir::Op;
using runtime::Call;
using runtime::each;
using runtime::Images;
using runtime::V;
using runtime::window_numbers;
using runtime::window_numbers_or;

/// Where the windows of a pool lie; `window` is empty in adaptive ones.
struct Windows {
  Dims sizes, window, stride, padding, dilation;
};

/// How many windows there are along a dimension: with ceil_mode one more for what is left over, if
/// it begins inside the input or its padding in front.
Dim count_windows(int64_t input, int64_t window, int64_t stride, int64_t padding, int64_t dilation,
                  bool ceil_mode) {
  const int64_t room =
      input + 2 * padding - dilation * (window - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  const int64_t count = room < 0 ? 0 : room / stride + 1;
  return ceil_mode && (count - 1) * stride >= input + padding ? count - 1 : count;
}

void check_window(const Windows& w, size_t d) {
  const std::string function = ir::ErrorScope::function();
  if (w.window[d] < 1 || w.stride[d] < 1 || w.dilation[d] < 1)
    ir::fail(
        Errc::Argument,
        fmt::format("{}: kernel_size, stride or dilation out of range; expected at least 1, "
                    "got {}, {} and {}",
                    function, to_string(w.window), to_string(w.stride), to_string(w.dilation)));
  if (w.padding[d] < 0 || 2 * w.padding[d] > (w.window[d] - 1) * w.dilation[d] + 1)
    ir::fail(Errc::Argument, fmt::format("{}: padding out of range; expected 0 to half a window "
                                         "of {}, got {}",
                                         function, to_string(w.window), to_string(w.padding)));
}

/// Images may be none, not empty.
void require_elements(Call& c, V v) {
  const Shape& sizes = c.b.sizes(v);
  if (std::any_of(sizes.begin() + 1, sizes.end(), [](const Dim& n) { return n == 0; }))
    ir::fail(Errc::Shape, fmt::format("{}: empty images; expected channels and spatial sizes of at "
                                      "least 1, got {}",
                                      ir::ErrorScope::function(), to_string(sizes)));
}

/// The numbers of a pool over images `v`.
Windows windows_of(Call& c, V v, int spatial, const Spatial& kernel_size, const Spatial& stride,
                   const Spatial& padding, const Spatial& dilation, bool ceil_mode) {
  Windows w;
  w.window = window_numbers(kernel_size, spatial, "kernel_size");
  w.stride = window_numbers_or(stride, w.window, spatial, "stride");
  w.padding = window_numbers(padding, spatial, "padding");
  w.dilation = window_numbers(dilation, spatial, "dilation");
  const Dims input = spatial_sizes(c, v);
  require_elements(c, v);
  for (size_t d = 0; d < input.size(); ++d) {
    check_window(w, d);
    w.sizes.push_back(
        count_windows(input[d], w.window[d], w.stride[d], w.padding[d], w.dilation[d], ceil_mode));
    if (w.sizes.back() < 1)
      ir::fail(Errc::Shape,
               fmt::format("{}: a window does not fit; expected one of at most the "
                           "padded input {}, got {}",
                           ir::ErrorScope::function(), to_string(input), to_string(w.window)));
  }
  return w;
}

Windows adaptive_windows(Call& c, V v, int spatial, const Spatial& output_size) {
  Windows w;
  w.sizes = each(output_size, spatial, "output_size");
  const Dims input = spatial_sizes(c, v);
  for (size_t d = 0; d < input.size(); ++d) {
    if (w.sizes[d] == -1) w.sizes[d] = input[d];
    if (w.sizes[d] < 0 || input[d] < 1)
      ir::fail(Errc::Shape,
               fmt::format("{}: expected an output_size of at least 0 and an input "
                           "that is not empty, got {} and {}",
                           ir::ErrorScope::function(), to_string(w.sizes), to_string(input)));
  }
  w.stride = w.dilation = Dims(w.sizes.size(), Dim(1));
  w.padding = Dims(w.sizes.size(), Dim(0));
  return w;
}

/// Whether there is one window, over all elements.
bool is_overall(const Windows& w, const Dims& input) {
  for (size_t d = 0; d < input.size(); ++d) {
    const bool covers = w.window.empty() || w.window[d] - w.padding[d] >= input[d];
    if (w.sizes[d] != 1 || !covers) return false;
  }
  return true;
}

/// All spatial dims of images.
ir::Axes spatial_dims(const Dims& input) {
  ir::Axes dims;
  for (size_t d = 0; d < input.size(); ++d) dims.push_back(static_cast<int>(d) + 2);
  return dims;
}

/// (One window over all is a sum as any other: it fuses, and each element's gradient is its own.)
V window_sum(Call& c, V v, const Windows& w) {
  const Dims input = spatial_sizes(c, v);
  if (is_overall(w, input) && c.b.dtype(v) != boolean)
    return c.b.sum(widened(c, v), spatial_dims(input), true);
  return c.b.emit(Op::window_sum, {widened(c, v)}, {w.sizes, w.window, w.stride, w.padding});
}

/// How many elements each window along dimension `d` covers; with `padding` those around the input
/// too, up to the padding at its end.
std::vector<Number> covered(const Windows& w, size_t d, Dim input, bool padding) {
  std::vector<Number> out;
  for (int64_t i = 0; i < w.sizes[d]; ++i) {
    int64_t begin = 0, end = 0;
    if (w.window.empty()) {
      begin = i * input / w.sizes[d];
      end = ((i + 1) * input + w.sizes[d] - 1) / w.sizes[d];
    } else {
      begin = i * w.stride[d] - w.padding[d];
      end = std::min<int64_t>(begin + w.window[d], input + w.padding[d]);
      if (!padding) begin = std::max<int64_t>(begin, 0), end = std::min<int64_t>(end, input);
    }
    out.emplace_back(end - begin);
  }
  return out;
}

bool all_equal(const std::vector<Number>& numbers) {
  return std::ranges::all_of(numbers, [&](const Number& n) { return n == numbers[0]; });
}

/// A quotient of integers is rounded towards 0.
V quotient(Call& c, V sums, V by) {
  if (ir::is_floating(c.b.dtype(sums))) return c.b.div(sums, by);
  const V size = c.b.floor_divide(c.b.abs(sums), c.b.abs(by));
  return c.b.mul(size, c.b.mul(c.b.sign(sums), c.b.sign(by)));
}

/// Sums over windows, each divided by what its window covers.
V divided(Call& c, V sums, const Windows& w, const Dims& input, bool padding) {
  double common = 1;
  const DType dtype = c.b.dtype(sums);
  const bool is_floating = ir::is_floating(dtype);
  std::optional<V> counts;
  for (size_t d = 0; d < input.size(); ++d) {
    const std::vector<Number> along = covered(w, d, input[d], padding);
    if (along.empty() || all_equal(along)) {
      common *= along.empty() ? 1 : along[0].to_double();
      continue;
    }
    Shape sizes = Shape::filled(static_cast<int>(input.size()), 1);
    sizes[static_cast<int>(d)] = w.sizes[d];
    const V line = c.in(from_numbers(along, sizes, is_floating ? f64 : dtype));
    counts = counts ? c.b.mul(*counts, line) : line;
  }
  if (!counts)
    return is_floating ? c.b.div(sums, common)
                       : quotient(c, sums, c.b.full({}, dtype, static_cast<int64_t>(common)));
  return quotient(c, sums, c.b.convert(c.b.mul(*counts, common), dtype));
}

Tensor avg_pool(Call&& c, int spatial, const Tensor& self, const Spatial& kernel_size,
                const AvgPoolOptions& o) {
  const Images x = images(c, self, spatial, "self");
  const Windows w = windows_of(c, x.v, spatial, kernel_size, o.stride, o.padding, 1, o.ceil_mode);
  const V sums = window_sum(c, x.v, w);
  if (o.divisor_override) {
    if (*o.divisor_override == 0)
      ir::fail(Errc::Argument, fmt::format("{}: expected a divisor_override other than 0, got 0",
                                           ir::ErrorScope::function()));
    const V by = c.b.full({}, c.b.dtype(sums), *o.divisor_override);
    return given_back(c, c.b.convert(quotient(c, sums, by), c.b.dtype(x.v)), x);
  }
  const V means = divided(c, sums, w, spatial_sizes(c, x.v), o.count_include_pad);
  return given_back(c, c.b.convert(means, c.b.dtype(x.v)), x);
}

Tensor adaptive_avg_pool(Call&& c, int spatial, const Tensor& self, const Spatial& output_size) {
  const Images x = images(c, self, spatial, "self");
  const Windows w = adaptive_windows(c, x.v, spatial, output_size);
  const Dims input = spatial_sizes(c, x.v);
  if (is_overall(w, input) && ir::is_floating(self.dtype()))
    return given_back(c, c.b.mean(x.v, spatial_dims(input), true), x);
  return given_back(c, divided(c, window_sum(c, x.v, w), w, input, false), x);
}

/// [n, channels, spatial...] as [n, channels, elements].
V flattened(Call& c, V v) { return c.b.flatten(v, 2, -1); }

ValuesAndIndices maxima(Call& c, const Images& x, const Windows& w) {
  const ir::ValueList found = c.b.emit_all(Op::max_pool, std::array{widened(c, x.v)},
                                           {w.sizes, w.window, w.stride, w.padding, w.dilation});
  const V largest = c.b.convert(found[0], c.b.dtype(x.v));
  const auto [values, places] = given_back(c, largest, found[1], x);
  return {values, places};
}

ValuesAndIndices max_pool(Call&& c, int spatial, const Tensor& self, const Spatial& kernel_size,
                          const MaxPoolOptions& o) {
  const Images x = images(c, self, spatial, "self");
  return maxima(
      c, x, windows_of(c, x.v, spatial, kernel_size, o.stride, o.padding, o.dilation, o.ceil_mode));
}

ValuesAndIndices adaptive_max_pool(Call&& c, int spatial, const Tensor& self,
                                   const Spatial& output_size) {
  const Images x = images(c, self, spatial, "self");
  return maxima(c, x, adaptive_windows(c, x.v, spatial, output_size));
}

/// (sum over the window of x^p)^(1/p), as PyTorch has it: by averages, of which the sign is kept.
Tensor lp_pool(Call&& c, int spatial, const Tensor& self, double norm_type,
               const Spatial& kernel_size, const LpPoolOptions& o) {
  const Images x = images(c, self, spatial, "self");
  const Windows w = windows_of(c, x.v, spatial, kernel_size, o.stride, 0, 1, o.ceil_mode);
  const V powers = c.b.pow(x.v, norm_type);
  const V means = divided(c, window_sum(c, powers, w), w, spatial_sizes(c, x.v), true);
  double elements = 1;
  for (const Dim n : w.window) elements *= static_cast<double>(int64_t{n});
  const V sums = c.b.mul(c.b.mul(c.b.sign(means), c.b.relu(c.b.abs(means))), elements);
  return given_back(c, c.b.pow(sums, 1.0 / norm_type), x);
}

void require_between(int64_t size, int64_t usual, int64_t stride) {
  if (size <= usual - stride || size >= usual + stride)
    ir::fail(Errc::Argument,
             fmt::format("{}: output_size out of range; expected {} to {}, got {}",
                         ir::ErrorScope::function(), usual - stride + 1, usual + stride - 1, size));
}

/// As given, where sizes of images and channels may come first.
Dims given_sizes(const Spatial& output_size, int spatial) {
  const Shape& all = output_size.dims();
  const bool is_whole = all.rank() == spatial + 2;
  return each(is_whole ? Spatial(Shape(std::span(all.begin() + 2, all.end()))) : output_size,
              spatial, "output_size");
}

Dims unpooled_sizes(Call& c, V v, int spatial, const Spatial& kernel_size,
                    const MaxUnpoolOptions& o) {
  const Dims window = window_numbers(kernel_size, spatial, "kernel_size"),
             stride = window_numbers_or(o.stride, window, spatial, "stride"),
             padding = window_numbers(o.padding, spatial, "padding"), input = spatial_sizes(c, v);
  Dims sizes;
  for (size_t d = 0; d < input.size(); ++d)
    sizes.push_back((input[d] - 1) * stride[d] - 2 * padding[d] + window[d]);
  if (o.output_size.dims().empty()) return sizes;
  const Dims given = given_sizes(o.output_size, spatial);
  for (size_t d = 0; d < given.size(); ++d) require_between(given[d], sizes[d], stride[d]);
  return given;
}

Tensor max_unpool(Call&& c, int spatial, const Tensor& self, const Tensor& indices,
                  const Spatial& kernel_size, const MaxUnpoolOptions& o) {
  const Images x = images(c, self, spatial, "self"), i = images(c, indices, spatial, "indices");
  if (c.b.sizes(x.v) != c.b.sizes(i.v))
    ir::fail(Errc::Shape, fmt::format("{}: indices do not fit self; expected {}, got {}",
                                      ir::ErrorScope::function(), to_string(c.b.sizes(x.v)),
                                      to_string(c.b.sizes(i.v))));
  Shape sizes{c.b.sizes(x.v)[0], c.b.sizes(x.v)[1]};
  Dim elements = 1;
  for (const Dim size : unpooled_sizes(c, x.v, spatial, kernel_size, o))
    sizes.push_back(size), elements *= size;
  const V empty = c.b.full({sizes[0], sizes[1], elements}, c.b.dtype(x.v), 0);
  const V spread = c.b.scatter(empty, 2, flattened(c, i.v), flattened(c, x.v));
  return given_back(c, c.b.reshape(spread, sizes), x);
}

}  // namespace

#define TANDEM_POOLS(spatial)                                                                  \
  Tensor avg_pool##spatial##d(const Tensor& self, const Spatial& kernel_size,                  \
                              const AvgPoolOptions& options, SourceLocation at) {              \
    return avg_pool(Call(at), spatial, self, kernel_size, options);                            \
  }                                                                                            \
  Tensor max_pool##spatial##d(const Tensor& self, const Spatial& kernel_size,                  \
                              const MaxPoolOptions& options, SourceLocation at) {              \
    const runtime::OnlyResult values(Op::max_pool, 0);                                         \
    return max_pool(Call(at), spatial, self, kernel_size, options).values;                     \
  }                                                                                            \
  ValuesAndIndices max_pool##spatial##d_with_indices(                                          \
      const Tensor& self, const Spatial& kernel_size, const MaxPoolOptions& options,           \
      SourceLocation at) {                                                                     \
    return max_pool(Call(at), spatial, self, kernel_size, options);                            \
  }                                                                                            \
  Tensor lp_pool##spatial##d(const Tensor& self, double norm_type, const Spatial& kernel_size, \
                             const LpPoolOptions& options, SourceLocation at) {                \
    return lp_pool(Call(at), spatial, self, norm_type, kernel_size, options);                  \
  }                                                                                            \
  Tensor adaptive_avg_pool##spatial##d(const Tensor& self, const Spatial& output_size,         \
                                       SourceLocation at) {                                    \
    return adaptive_avg_pool(Call(at), spatial, self, output_size);                            \
  }                                                                                            \
  Tensor adaptive_max_pool##spatial##d(const Tensor& self, const Spatial& output_size,         \
                                       SourceLocation at) {                                    \
    const runtime::OnlyResult values(Op::max_pool, 0);                                         \
    return adaptive_max_pool(Call(at), spatial, self, output_size).values;                     \
  }                                                                                            \
  ValuesAndIndices adaptive_max_pool##spatial##d_with_indices(                                 \
      const Tensor& self, const Spatial& output_size, SourceLocation at) {                     \
    return adaptive_max_pool(Call(at), spatial, self, output_size);                            \
  }                                                                                            \
  Tensor max_unpool##spatial##d(const Tensor& self, const Tensor& indices,                     \
                                const Spatial& kernel_size, const MaxUnpoolOptions& options,   \
                                SourceLocation at) {                                           \
    return max_unpool(Call(at), spatial, self, indices, kernel_size, options);                 \
  }
TANDEM_POOLS(1)
TANDEM_POOLS(2)
TANDEM_POOLS(3)
#undef TANDEM_POOLS

}  // namespace tandem
