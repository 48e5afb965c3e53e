// Images at places that a grid says.
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "ir/base/error.h"
#include "runtime/networks/images.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

std::string function() { return ir::ErrorScope::function(); }

/// Images [n, c, spatial...] and where they are sampled: [n, points] along each dimension.
struct Sampling {
  Call& c;
  const GridOptions& o;
  V images;  // [n, c, elements]
  Shape sizes;
  Dim points;

  int64_t size(int d) const { return sizes[d + 2]; }

  /// From -1 to 1 as a place among the elements.
  V place(V x, int d) const {
    const auto n = static_cast<double>(size(d));
    const V from_zero = c.b.add(x, 1);
    if (o.align_corners) return c.b.mul(c.b.mul(from_zero, 0.5), n - 1);
    return c.b.mul(c.b.sub(c.b.mul(from_zero, n), 1), 0.5);
  }

  /// In [0, size - 1]; without a gradient at and beyond the ends.
  V clipped(V x, int d) const {
    const auto last = static_cast<double>(size(d) - 1);
    const V inside = c.b.logical_and(c.b.gt(x, 0), c.b.lt(x, last));
    return c.b.where(inside, x, c.b.stop_gradient(c.b.clamp(x, Number(0), Number(last))));
  }

  /// Reflected between the elements at the ends, or their outer edges.
  V reflected(V x, int d) const {
    const double low = o.align_corners ? 0 : -0.5;
    const double span = static_cast<double>(size(d)) - (o.align_corners ? 1 : 0);
    if (span == 0) return c.b.mul(x, 0.0);
    const V apart = c.b.abs(c.b.sub(x, low)), extra = c.b.fmod(apart, span);
    const V flips = c.b.floor(c.b.stop_gradient(c.b.div(apart, span)));
    const V is_even = c.b.eq(c.b.fmod(flips, 2), 0);
    return c.b.where(is_even, c.b.add(extra, low), c.b.add(c.b.sub(span, extra), low));
  }

  V padded(V x, int d) const {
    if (o.padding_mode == "zeros") return x;
    return clipped(o.padding_mode == "reflection" ? reflected(x, d) : x, d);
  }

  /// A whole place along one dimension: the element there, and whether there is one.
  struct Place {
    V index, is_inside;
  };

  Place whole(V place, int d) const {
    const auto last = static_cast<double>(size(d) - 1);
    const V at = c.b.stop_gradient(place);
    const V is_inside = c.b.logical_and(c.b.ge(at, 0), c.b.le(at, last));
    const V safe = c.b.clamp(c.b.where(c.b.isnan(at), 0.0, at), Number(0), Number(last));
    return {c.b.convert(safe, i64), is_inside};
  }

  /// The elements at whole places, one list for each dimension: 0 outside.
  V at(const std::vector<Place>& places) const {
    auto [position, is_inside] = places[0];
    for (size_t d = 1; d < places.size(); ++d) {
      position = c.b.add(c.b.mul(position, size(static_cast<int>(d))), places[d].index);
      is_inside = c.b.logical_and(is_inside, places[d].is_inside);
    }
    const Shape all{sizes[0], sizes[1], points};
    const V index = c.b.expand(c.b.unsqueeze(position, 1), all);
    return c.b.where(c.b.unsqueeze(is_inside, 1), c.b.gather(images, 2, index), 0);
  }

  V weighted(V elements, V weight) const { return c.b.mul(elements, c.b.unsqueeze(weight, 1)); }

  V nearest(const std::vector<V>& places) const {
    std::vector<Place> at_nearest;
    for (size_t i = 0; i < places.size(); ++i) {
      const int d = static_cast<int>(i);
      at_nearest.push_back(whole(c.b.round(c.b.stop_gradient(padded(places[i], d))), d));
    }
    return at(at_nearest);
  }

  /// An element beside a place, and its share.
  struct Neighbour {
    Place place;
    V weight;
  };

  V linear(const std::vector<V>& places) const {
    std::vector<std::array<Neighbour, 2>> beside;  // below and above
    for (size_t i = 0; i < places.size(); ++i) {
      const int d = static_cast<int>(i);
      const V place = padded(places[i], d), low = c.b.floor(c.b.stop_gradient(place));
      const V rest = c.b.sub(place, low);
      beside.push_back({{{whole(low, d), c.b.sub(1, rest)}, {whole(c.b.add(low, 1), d), rest}}});
    }
    std::optional<V> sum;
    for (size_t corner = 0; corner < size_t{1} << places.size(); ++corner) {
      std::vector<Place> at_corner;
      std::optional<V> weight;
      for (size_t d = 0; d < places.size(); ++d) {
        const auto& [place, share] = beside[d][corner >> d & 1];
        at_corner.push_back(place);
        weight = weight ? c.b.mul(*weight, share) : share;
      }
      const V part = weighted(at(at_corner), *weight);
      sum = sum ? c.b.add(*sum, part) : part;
    }
    return *sum;
  }

  /// Keys' kernel at distances of up to one, and of one to two.
  V near(V x) const {
    constexpr double a = -0.75;
    const V inner = c.b.sub(c.b.mul(x, a + 2), a + 3);
    return c.b.add(c.b.mul(c.b.mul(inner, x), x), 1);
  }
  V far(V x) const {
    constexpr double a = -0.75;
    const V inner = c.b.add(c.b.mul(c.b.sub(c.b.mul(x, a), 5 * a), x), 8 * a);
    return c.b.sub(c.b.mul(inner, x), 4 * a);
  }

  /// Weights of the elements at -1, 0, 1 and 2 from the last whole place.
  std::vector<V> cubic_weights(V rest) const {
    const V other = c.b.sub(1, rest);
    return {far(c.b.add(rest, 1)), near(rest), near(other), far(c.b.add(other, 1))};
  }

  /// Four neighbours along one dimension, and their weights.
  std::vector<Neighbour> cubic_neighbours(V place, int d) const {
    const V low = c.b.floor(c.b.stop_gradient(place));
    const std::vector<V> weights = cubic_weights(c.b.sub(place, low));
    std::vector<Neighbour> all;
    for (int i = 0; i < 4; ++i)
      all.push_back({whole(padded(c.b.add(low, i - 1), d), d), weights[static_cast<size_t>(i)]});
    return all;
  }

  V cubic(const std::vector<V>& places) const {
    std::optional<V> sum;
    const std::vector<Neighbour> columns = cubic_neighbours(places[1], 1);
    for (const Neighbour& y : cubic_neighbours(places[0], 0))
      for (const Neighbour& x : columns) {
        const V part = weighted(at({y.place, x.place}), c.b.mul(y.weight, x.weight));
        sum = sum ? c.b.add(*sum, part) : part;
      }
    return *sum;
  }
};

void check(Call& c, V x, V grid, const GridOptions& o) {
  const int rank = c.b.rank(x);
  const Shape &s = c.b.sizes(x), &g = c.b.sizes(grid);
  if ((rank != 4 && rank != 5) || g.rank() != rank || g[0] != s[0] || g.back() != rank - 2)
    ir::fail(Errc::Shape,
             fmt::format("{}: expected images [n, c, h, w] and a grid [n, y, x, 2], or [n, c, d, "
                         "h, w] and [n, z, y, x, 3], got {} and {}",
                         function(), to_string(s), to_string(g)));
  if (c.b.dtype(x) != c.b.dtype(grid) || !ir::is_floating(c.b.dtype(x)))
    ir::fail(Errc::DType, fmt::format("{}: expected one floating dtype, got {} and {}", function(),
                                      ir::name(c.b.dtype(x)), ir::name(c.b.dtype(grid))));
  for (int d = 1; d < rank; ++d)
    if (s[d] < 1)
      ir::fail(Errc::Shape, fmt::format("{}: expected images that are not empty, got {}",
                                        function(), to_string(s)));
  const bool mode =
      o.mode == "bilinear" || o.mode == "nearest" || (o.mode == "bicubic" && rank == 4);
  if (!mode ||
      (o.padding_mode != "zeros" && o.padding_mode != "border" && o.padding_mode != "reflection"))
    ir::fail(Errc::Argument,
             fmt::format("{}: expected mode bilinear, nearest or (of two dimensions) bicubic and "
                         "padding_mode zeros, border or reflection, got {} and {}",
                         function(), o.mode, o.padding_mode));
}

/// -1 to 1 at the middles of n elements, or of the first and last one.
V base_line(Call& c, Dim n, DType dtype, bool align_corners) {
  const auto count = static_cast<double>(int64_t{n});
  if (n <= 1) return c.b.full({n}, dtype, 0);
  const double step = 2 / (align_corners ? count - 1 : count);
  return c.b.iota(n, dtype, align_corners ? -1.0 : -1 + step / 2, step);
}

}  // namespace

Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridOptions& options,
                   SourceLocation at) {
  Call c(at);
  V x = c.in(input, "input"), g = c.in(grid, "grid");
  check(c, x, g, options);
  const DType dtype = c.b.dtype(x);
  // Places among many elements are more than a half can hold.
  if (ir::size_of(dtype) < 4) x = c.b.convert(x, f32), g = c.b.convert(g, f32);
  const int spatial = c.b.rank(x) - 2;
  Shape out = c.b.sizes(x);
  Dim points = 1;
  for (int d = 0; d < spatial; ++d) out[d + 2] = c.b.sizes(g)[d + 1], points *= out[d + 2];
  const Sampling s{c, options, c.b.flatten(x, 2, -1), c.b.sizes(x), points};
  std::vector<V> places;
  for (int d = 0; d < spatial; ++d) {
    const V along = c.b.reshape(c.b.select(g, -1, spatial - 1 - d), {out[0], points});
    places.push_back(s.place(along, d));
  }
  const V sampled = options.mode == "nearest"   ? s.nearest(places)
                    : options.mode == "bicubic" ? s.cubic(places)
                                                : s.linear(places);
  return c.out(c.b.convert(c.b.reshape(sampled, out), dtype));
}

Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners, SourceLocation at) {
  Call c(at);
  const V t = c.in(theta, "theta");
  const int spatial = size.rank() - 2;
  const Shape wanted{size.rank() > 0 ? size[0] : Dim(0), spatial, spatial + 1};
  if ((spatial != 2 && spatial != 3) || c.b.sizes(t) != wanted)
    ir::fail(Errc::Shape,
             fmt::format("{}: expected theta [n, 2, 3] and a size [n, c, h, w], or [n, 3, 4] and "
                         "[n, c, d, h, w], got {} and {}",
                         function(), to_string(c.b.sizes(t)), to_string(size)));
  const DType dtype = c.b.dtype(t);
  Shape points(std::span(size.begin() + 2, size.end()));
  std::vector<V> columns;
  for (int d = spatial - 1; d >= 0; --d) {
    Shape along = Shape::filled(spatial, 1);
    along[d] = size[d + 2];
    columns.push_back(
        c.b.expand(c.b.reshape(base_line(c, size[d + 2], dtype, align_corners), along), points));
  }
  columns.push_back(c.b.full(points, dtype, 1));
  const V base = c.b.reshape(c.b.stack(columns, spatial), {ir::numel(points), spatial + 1});
  const V grid = c.b.matmul(base, c.b.transpose(t, 1, 2));
  Shape out = points;
  out.insert(0, size[0]);
  out.push_back(spatial);
  return c.out(c.b.reshape(grid, out));
}

}  // namespace tandem
