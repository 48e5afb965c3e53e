// Fractional max pools (Graham 2014): as many windows as are asked for, whose steps alternate at
// random between two neighbouring sizes.
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

struct FractionalWindows {
  Dims input, window, sizes;
};

void require_ratios(const std::vector<double>& ratios, int spatial) {
  const bool is_count = ratios.size() == 1 || ratios.size() == static_cast<size_t>(spatial);
  if (!is_count || std::ranges::any_of(ratios, [](double r) { return !(r > 0 && r < 1); }))
    ir::fail(Errc::Argument,
             fmt::format("{}: expected an output_ratio, or one for each of {} dimensions, between "
                         "0 and 1, got [{}]",
                         ir::ErrorScope::function(), spatial, fmt::join(ratios, ", ")));
}

Dims output_sizes(const Dims& input, int spatial, const FractionalMaxPoolOptions& o) {
  runtime::require_sizes_or_ratios(o, spatial);
  if (o.output_ratio.empty()) return each(o.output_size, spatial, "output_size");
  Dims sizes;
  for (size_t d = 0; d < input.size(); ++d) {
    const double ratio = o.output_ratio[o.output_ratio.size() == 1 ? 0 : d];
    sizes.push_back(static_cast<int64_t>(static_cast<double>(int64_t{input[d]}) * ratio));
  }
  return sizes;
}

FractionalWindows windows_of(const Dims& input, int spatial, const Spatial& kernel_size,
                             const FractionalMaxPoolOptions& o) {
  const FractionalWindows w{input, window_numbers(kernel_size, spatial, "kernel_size"),
                            output_sizes(input, spatial, o)};
  for (size_t d = 0; d < input.size(); ++d)
    if (w.window[d] < 1 || w.sizes[d] < 1 || w.sizes[d] + w.window[d] - 1 > input[d])
      ir::fail(Errc::Shape,
               fmt::format("{}: expected windows and outputs of at least 1, together at most the "
                           "input {} and 1, got windows {} and outputs {}",
                           ir::ErrorScope::function(), to_string(input), to_string(w.window),
                           to_string(w.sizes)));
  return w;
}

/// A number in [0, 1) for each channel of each image and dimension: [n, channels, spatial].
V samples_of(Call& c, V images, int spatial, const Tensor& given, const SourceLocation& at) {
  const Shape of = c.b.sizes(images), sizes{of[0], of[1], spatial};
  const DType dtype = c.b.dtype(images);
  if (!given.defined()) return c.in(rand(sizes, dtype, at));
  if (given.sizes() != sizes || given.dtype() != dtype)
    ir::fail(Errc::Shape, fmt::format("{}: random_samples do not fit; expected {} {}, got {} {}",
                                      ir::ErrorScope::function(), name(dtype), to_string(sizes),
                                      name(given.dtype()), to_string(given.sizes())));
  return c.in(given, "random_samples");
}

/// Where the windows along dimension `d` begin, [n, channels, windows]: window i but the last at
/// trunc((i + u) alpha) - trunc(u alpha), where alpha is the mean step; the last ends the input.
V begins(Call& c, V u, const FractionalWindows& w, size_t d) {
  const Shape of = c.b.sizes(u);
  const int64_t room = w.input[d] - w.window[d], steps = w.sizes[d] - 1;
  const V last = c.b.full({of[0], of[1], 1}, DType::I64, room);
  if (steps == 0) return last;
  const double alpha = static_cast<double>(room) / static_cast<double>(steps);
  const auto whole = [&](V v) { return c.b.convert(c.b.mul(v, alpha), DType::I64); };
  const V after = c.b.add(u, c.b.iota(steps, c.b.dtype(u)));
  return c.b.cat(std::array{c.b.sub(whole(after), whole(u)), last}, 2);
}

/// Which sample is whose, as ATen has it: of an image the first is the last dimension's.
int sample_of(int d, int spatial) { return spatial == 2 ? 1 - d : d; }

/// The elements that each window covers, as places in their channel:
/// [n, channels, window..., windows...].
V places_of(Call& c, V samples, const FractionalWindows& w) {
  const int spatial = static_cast<int>(w.input.size());
  V places;
  for (int d = 0; d < spatial; ++d) {
    const auto at = static_cast<size_t>(d);
    const int sample = sample_of(d, spatial);
    const V begin = begins(c, c.b.slice(samples, 2, sample, sample + 1), w, at);
    Shape outer = Shape::filled(2 + 2 * spatial, 1), inner = outer;
    for (int k = 0; k < 2; ++k) outer[k] = c.b.sizes(begin)[k];
    outer[2 + spatial + d] = w.sizes[at];
    inner[2 + d] = w.window[at];
    const V inside = c.b.reshape(c.b.iota(w.window[at], DType::I64), inner);
    const V along = c.b.add(c.b.reshape(begin, outer), inside);
    places = d == 0 ? along : c.b.add(c.b.mul(places, int64_t{w.input[at]}), along);
  }
  return places;
}

/// Of each column of `places` [n, channels, elements of a window, windows] that where `images` [n,
/// channels, elements] is largest: [n, channels, windows]. (Pools compare vectors of columns.)
V largest(Call& c, V images, V places) {
  const Shape sizes = c.b.sizes(places);
  const V all = c.b.flatten(places, 2, -1);
  const V columns = c.b.reshape(c.b.gather(images, 2, all), sizes);
  const V chosen =
      c.b.emit_all(Op::max_pool, std::array{columns},
                   {Dims{1, sizes[3]}, Dims{sizes[2], 1}, Dims{1, 1}, Dims{0, 0}, Dims{1, 1}})[1];
  return c.b.gather(all, 2, c.b.flatten(chosen, 2, -1));
}

ValuesAndIndices fractional_max_pool(Call&& c, int spatial, const Tensor& self,
                                     const Spatial& kernel_size, const FractionalMaxPoolOptions& o,
                                     const SourceLocation& at) {
  const Images x = images(c, self, spatial, "self");
  if (!ir::is_floating(self.dtype()))
    ir::fail(Errc::DType, fmt::format("{}: expected a floating self, got {}",
                                      ir::ErrorScope::function(), name(self.dtype())));
  const FractionalWindows w = windows_of(spatial_sizes(c, x.v), spatial, kernel_size, o);
  const V places = places_of(c, samples_of(c, x.v, spatial, o.random_samples, at), w);
  Shape sizes = c.b.sizes(x.v), columns{sizes[0], sizes[1], 1, 1};
  for (size_t d = 0; d < w.sizes.size(); ++d) {
    sizes[2 + static_cast<int>(d)] = w.sizes[d];
    columns[2] = columns[2] * w.window[d];
    columns[3] = columns[3] * w.sizes[d];
  }
  const V flat = c.b.flatten(x.v, 2, -1);
  const V indices = largest(c, flat, c.b.reshape(places, columns));
  const V values = c.b.gather(flat, 2, indices);
  const auto [found, where] =
      given_back(c, c.b.reshape(values, sizes), c.b.reshape(indices, sizes), x);
  return {found, where};
}

}  // namespace

void runtime::require_sizes_or_ratios(const FractionalMaxPoolOptions& o, int spatial) {
  if (o.output_size.dims().empty() == o.output_ratio.empty())
    ir::fail(Errc::Argument,
             fmt::format("{}: expected either an output_size or an output_ratio, got {}",
                         ir::ErrorScope::function(), o.output_ratio.empty() ? "none" : "both"));
  if (!o.output_ratio.empty()) require_ratios(o.output_ratio, spatial);
}

#define TANDEM_FRACTIONAL(spatial)                                                             \
  ValuesAndIndices fractional_max_pool##spatial##d_with_indices(                               \
      const Tensor& self, const Spatial& kernel_size, const FractionalMaxPoolOptions& options, \
      SourceLocation at) {                                                                     \
    return fractional_max_pool(Call(at), spatial, self, kernel_size, options, at);             \
  }                                                                                            \
  Tensor fractional_max_pool##spatial##d(const Tensor& self, const Spatial& kernel_size,       \
                                         const FractionalMaxPoolOptions& options,              \
                                         SourceLocation at) {                                  \
    return fractional_max_pool(Call(at), spatial, self, kernel_size, options, at).values;      \
  }
TANDEM_FRACTIONAL(2)
TANDEM_FRACTIONAL(3)
#undef TANDEM_FRACTIONAL

}  // namespace tandem
