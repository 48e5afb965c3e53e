// Resampling along each spatial dimension: gathers at computed places times computed weights.
#include <cmath>

#include "ir/base/error.h"
#include "runtime/networks/images.h"

namespace tandem {
namespace {

using ir::Dims;
using runtime::Call;
using runtime::each;
using runtime::V;

std::string function() { return ir::ErrorScope::function(); }

/// One dimension: from `in` elements to `out`, `ratio` elements of the input for each.
struct Line {
  int64_t in = 0, out = 0;
  double ratio = 1;
  bool align_corners = false;

  /// Where element i of the result lies in the input.
  double place(int64_t i) const {
    const auto at = static_cast<double>(i);
    return align_corners ? at * ratio : (at + 0.5) * ratio - 0.5;
  }
};

/// What each element of a result is the sum of: at each place of the input times its weight.
struct Tap {
  std::vector<Number> places, weights;
  void add(int64_t place, double weight) {
    places.emplace_back(place);
    weights.emplace_back(weight);
  }
};

/// (As in ATen the place is computed in f32.)
Tap nearest(const Line& l, double shift) {
  Tap tap;
  for (int64_t i = 0; i < l.out; ++i) {
    const float at =
        (static_cast<float>(i) + static_cast<float>(shift)) * static_cast<float>(l.ratio);
    tap.add(std::min(static_cast<int64_t>(std::floor(at)), l.in - 1), 1);
  }
  return tap;
}

std::vector<Tap> linear(const Line& l) {
  std::vector<Tap> taps(2);
  for (int64_t i = 0; i < l.out; ++i) {
    const double at = std::max(l.place(i), 0.0);
    const int64_t first = std::min(static_cast<int64_t>(at), l.in - 1);
    const double rest = std::clamp(at - static_cast<double>(first), 0.0, 1.0);
    taps[0].add(first, 1 - rest);
    taps[1].add(std::min(first + 1, l.in - 1), rest);
  }
  return taps;
}

/// Keys' kernel at distance x, of parameter a.
double cubic_kernel(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

std::vector<Tap> cubic(const Line& l) {
  std::vector<Tap> taps(4);
  for (int64_t i = 0; i < l.out; ++i) {
    const double at = l.place(i), first = std::floor(at);
    for (int64_t k = 0; k < 4; ++k) {
      const double place = first + static_cast<double>(k) - 1;
      taps[static_cast<size_t>(k)].add(
          std::clamp<int64_t>(static_cast<int64_t>(place), 0, l.in - 1),
          cubic_kernel(at - place, -0.75));
    }
  }
  return taps;
}

/// The elements under a filter of `support`, which is wider where the result is smaller than the
/// input.
std::vector<Tap> smoothed(const Line& l, double support, double (*filter)(double)) {
  const double widen = std::max(l.ratio, 1.0), reach = support * widen;
  std::vector<Tap> taps(static_cast<size_t>(std::ceil(reach)) * 2 + 1);
  for (int64_t i = 0; i < l.out; ++i) {
    const double centre = l.ratio * (static_cast<double>(i) + 0.5);
    const auto begin = std::max<int64_t>(static_cast<int64_t>(centre - reach + 0.5), 0),
               end = std::min<int64_t>(static_cast<int64_t>(centre + reach + 0.5), l.in);
    std::vector<double> weights;
    double total = 0;
    for (int64_t j = begin; j < end; ++j) {
      weights.push_back(filter((static_cast<double>(j) - centre + 0.5) / widen));
      total += weights.back();
    }
    for (size_t t = 0; t < taps.size(); ++t) {
      const bool is_there = t < weights.size();
      taps[t].add(is_there ? begin + static_cast<int64_t>(t) : 0,
                  is_there && total != 0 ? weights[t] / total : 0);
    }
  }
  return taps;
}

double triangle(double x) { return std::max(1 - std::abs(x), 0.0); }
double smooth_cubic(double x) { return cubic_kernel(x, -0.5); }

std::vector<Tap> taps_of(const Line& l, std::string_view mode, bool antialias) {
  if (mode == "nearest") return {nearest(l, 0)};
  if (mode == "nearest-exact") return {nearest(l, 0.5)};
  if (mode == "bicubic") return antialias ? smoothed(l, 2, smooth_cubic) : cubic(l);
  return antialias ? smoothed(l, 1, triangle) : linear(l);
}

bool is_needed(const Tap& tap) {
  return std::ranges::any_of(tap.weights, [](const Number& w) { return w.to_double() != 0; });
}

/// x resampled along dimension `dim`.
V resampled(Call& c, V x, int dim, const std::vector<Tap>& taps, bool is_weighted) {
  std::optional<V> sum;
  for (const Tap& tap : taps) {
    if (!is_needed(tap) && sum) continue;
    const Dim n = static_cast<int64_t>(tap.places.size());
    V part = c.b.index_select(x, dim, c.in(from_numbers(tap.places, {n}, i64)));
    if (is_weighted) {
      Shape sizes = Shape::filled(c.b.rank(x) - dim, 1);
      sizes[0] = n;
      part = c.b.mul(part, c.in(from_numbers(tap.weights, sizes, c.b.dtype(x))));
    }
    sum = sum ? c.b.add(*sum, part) : part;
  }
  return *sum;
}

struct Mode {
  std::string_view name;
  int spatial;  // 0: any
  bool aligns, antialiases;
};
constexpr Mode kModes[] = {
    {"nearest", 0, false, false},  {"nearest-exact", 0, false, false}, {"area", 0, false, false},
    {"linear", 1, true, false},    {"bilinear", 2, true, true},        {"bicubic", 2, true, true},
    {"trilinear", 3, true, false},
};

void check_mode(const InterpolateOptions& o, int spatial) {
  const auto* const mode =
      std::ranges::find_if(kModes, [&](const Mode& m) { return m.name == o.mode; });
  if (mode == std::end(kModes))
    ir::fail(Errc::Argument,
             fmt::format("{}: unknown mode; expected nearest, nearest-exact, area, linear, "
                         "bilinear, bicubic or trilinear, got {}",
                         function(), o.mode));
  if (mode->spatial != 0 && mode->spatial != spatial)
    ir::fail(Errc::Shape, fmt::format("{}: {} is of {} spatial dimensions, got {}", function(),
                                      o.mode, mode->spatial, spatial));
  if ((o.align_corners && !mode->aligns) || (o.antialias && !mode->antialiases))
    ir::fail(Errc::Argument, fmt::format("{}: mode {} has no {}", function(), o.mode,
                                         o.antialias ? "antialias" : "align_corners"));
}

std::vector<double> scales_of(const InterpolateOptions& o, int spatial) {
  const auto n = static_cast<size_t>(spatial);
  if (o.scale_factor.size() != 1 && o.scale_factor.size() != n)
    ir::fail(Errc::Argument,
             fmt::format("{}: wrong number of numbers in scale_factor; expected one, or {}, got {}",
                         function(), n, o.scale_factor.size()));
  return o.scale_factor.size() == n ? o.scale_factor : std::vector(n, o.scale_factor[0]);
}

/// floor(size * scale), 0 if that is no size.
int64_t scaled(double size, double scale) {
  const double out = std::floor(size * scale);
  return out >= 0 && out < 0x1p63 ? static_cast<int64_t>(out) : 0;
}

/// Before what is as long as the result is made: Error{Argument} for one that no memory holds.
void require_countable(Call& c, V x, const std::vector<Line>& lines) {
  Shape sizes = c.b.sizes(x);
  for (size_t d = 0; d < lines.size(); ++d) sizes[static_cast<int>(d) + 2] = lines[d].out;
  ir::checked_mul(ir::numel(sizes), ir::size_of(c.b.dtype(x)), "interpolate: the size in bytes");
}

/// The dimensions of images of `input` spatial sizes.
std::vector<Line> lines_of(const Dims& input, const InterpolateOptions& o) {
  const int spatial = static_cast<int>(input.size());
  const bool is_sized = !o.size.dims().empty();
  if (is_sized == !o.scale_factor.empty())
    ir::fail(Errc::Argument, fmt::format("{}: expected either a size or a scale_factor, got {}",
                                         function(), is_sized ? "both" : "neither"));
  const Dims sizes = is_sized ? each(o.size, spatial, "size") : Dims();
  const std::vector<double> scales = is_sized ? std::vector<double>() : scales_of(o, spatial);
  std::vector<Line> lines;
  for (size_t d = 0; d < input.size(); ++d) {
    const auto in = static_cast<double>(int64_t{input[d]});
    Line l{input[d], is_sized ? int64_t{sizes[d]} : scaled(in, scales[d]), 1, o.align_corners};
    if (l.in < 1 || l.out < 1)
      ir::fail(Errc::Shape, fmt::format("{}: expected sizes of at least 1, got {} to {}",
                                        function(), l.in, l.out));
    const auto out = static_cast<double>(l.out);
    if (o.align_corners)
      l.ratio = l.out > 1 ? (in - 1) / (out - 1) : 0;
    else
      l.ratio = is_sized || o.recompute_scale_factor ? in / out : 1 / scales[d];
    lines.push_back(l);
  }
  return lines;
}

Tensor area(const Tensor& input, const std::vector<Line>& lines, const SourceLocation& at) {
  Shape sizes;
  for (const Line& l : lines) sizes.push_back(l.out);
  if (lines.size() == 1) return adaptive_avg_pool1d(input, sizes, at);
  return lines.size() == 2 ? adaptive_avg_pool2d(input, sizes, at)
                           : adaptive_avg_pool3d(input, sizes, at);
}

/// The nearest of 0 to 255.
V as_bytes(Call& c, V x) {
  return c.b.convert(c.b.clamp(c.b.floor(c.b.add(x, 0.5)), Number(0), Number(255)), u8);
}

}  // namespace

Tensor interpolate(const Tensor& input, const InterpolateOptions& options, SourceLocation at) {
  Call c(at);
  const V given = c.in(input, "input");
  const int spatial = c.b.rank(given) - 2;
  if (spatial < 1 || spatial > 3)
    ir::fail(Errc::Shape, fmt::format("{}: expected [n, channels, spatial...] of one to three "
                                      "spatial dimensions, got {}",
                                      function(), to_string(c.b.sizes(given))));
  check_mode(options, spatial);
  const std::vector<Line> lines = lines_of(spatial_sizes(c, given), options);
  require_countable(c, given, lines);
  if (options.mode == "area") return area(input, lines, at);
  const bool is_weighted = !options.mode.starts_with("nearest");
  const DType dtype = c.b.dtype(given);
  if (is_weighted && !ir::is_floating(dtype) && dtype != u8)
    ir::fail(Errc::DType, fmt::format("{}: expected a floating dtype or u8, got {}", function(),
                                      ir::name(dtype)));
  V x = is_weighted && ir::size_of(dtype) < 4 ? c.b.convert(given, f32) : given;
  for (size_t d = lines.size(); d-- > 0;)
    x = resampled(c, x, static_cast<int>(d) + 2, taps_of(lines[d], options.mode, options.antialias),
                  is_weighted);
  return c.out(is_weighted && dtype == u8 ? as_bytes(c, x) : c.b.convert(x, dtype));
}

}  // namespace tandem
