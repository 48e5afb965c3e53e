#include "machine/windows/strip_convolution.h"

#include <algorithm>
#include <limits>

#include "machine/linalg/lapack.h"
#include "machine/memory/arena.h"
#include "machine/parts.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

/// Fewer of a group's channels, or taps of them, make products that are no faster than loops. (One
/// thread of a Zen 4, 2026-11; Gflop/s of the output by loops and so, 3 x 3, groups of 2 channels
/// to 2: 6.3, 9.8; 4 to 1: 6.8, 4.7; 4 to 4: 6.4, 16.7; one group, 3 to 4: 6.7, 24; 32 to
/// 1: 6.2, 5.6; 64 to 64, of 7 x 7: 2.9, 29.6; 1 x 1, 4 to 8: 5.2, 19.5.)
constexpr int64_t kFewestOut = 2, kFewestRows = 4;

/// Elements of the windows that are brought side by side together: half of a second-level cache.
constexpr int64_t kElements = int64_t{1} << 16;
/// Of a strip, unless the image has fewer.
constexpr int64_t kFewestPlaces = 64;
/// Units of work that a convolution is cut into, if its products stay this large.
constexpr int64_t kUnits = 16, kFewestRowsOfUnit = 64;

/// The convolution as products of each group's channels.
struct Shape {
  explicit Shape(const ConvolutionSpec& spec) : s(spec) {}

  const ConvolutionSpec& s;
  int64_t pixels = product(s.input), made = product(s.output), taps = product(s.kernel);
  int64_t in = s.in / s.groups, out = s.out / s.groups, window = in * taps;
  bool is_of_pixels = windows_are_pixels(s);
};

/// Channels that make at least so many rows of `each`, and no more parts of all than are wanted.
EvenParts parts_of(int64_t channels, int64_t each, int64_t wanted) {
  const int64_t fewest = ceil_div(kFewestRowsOfUnit, each);
  return {channels, std::clamp(ceil_div(channels, wanted), std::min(fewest, channels), channels)};
}

/// How the work is cut: by the spec alone.
struct Cut {
  Cut(const Shape& shape, Sought sought)
      : in(parts_of(shape.in, shape.taps, wanted_in(shape, sought))),
        places(shape.made, places_of_strip(shape, in.largest() * shape.taps)),
        out(parts_of(shape.out, 1, wanted_out(shape, sought))) {}

  EvenParts in;      // channels whose windows are brought side by side together
  EvenParts places;  // of an image
  EvenParts out;     // channels of y

 private:
  static int64_t places_of_strip(const Shape& shape, int64_t rows) {
    return std::min(shape.made, std::max(kFewestPlaces, kElements / rows));
  }
  static int64_t wanted_in(const Shape& shape, Sought sought) {
    if (sought == Sought::Output) return 1;
    const int64_t units = shape.s.groups * (sought == Sought::Input ? shape.s.images : 1);
    const int64_t for_cache = ceil_div(shape.window * kFewestPlaces, kElements);
    return std::max(for_cache, ceil_div(kUnits, units));
  }
  int64_t wanted_out(const Shape& shape, Sought sought) const {
    if (sought == Sought::Input) return 1;
    const int64_t units =
        shape.s.groups * (sought == Sought::Output ? shape.s.images * places.count : in.count);
    return ceil_div(kUnits, units);
  }
};

/// The part of a strip that lies in a row of the output, for a tap.
struct Run {
  int64_t at, n;              // in the strip
  int64_t begin, end, pixel;  // of those n the ones inside of the image, and where the first lies
};

/// f(run) for all rows of the strip of `places`.
template <class F>
void for_each_run(const ConvolutionSpec& s, const Extents& tap, const Range& places, F f) {
  Extents offset;
  for (size_t d = 0; d < 3; ++d) offset[d] = tap[d] * s.dilation[d] - s.padding[d];
  const TapRange inside = range_of(s.output[2], s.input[2], s.stride[2], offset[2]);
  for (int64_t place = places.begin; place < places.end;) {
    const int64_t row = place / s.output[2], first = place % s.output[2];
    const int64_t n = std::min(s.output[2] - first, places.end - place);
    const int64_t i = row / s.output[1] * s.stride[0] + offset[0],
                  j = row % s.output[1] * s.stride[1] + offset[1];
    const bool is_inside = i >= 0 && i < s.input[0] && j >= 0 && j < s.input[1];
    const int64_t begin = std::clamp<int64_t>(inside.begin - first, 0, n),
                  end = is_inside ? std::clamp<int64_t>(inside.end - first, begin, n) : begin;
    f(Run{place - places.begin, n, begin, end,
          (i * s.input[1] + j) * s.input[2] + (first + begin) * s.stride[2] + offset[2]});
    place += n;
  }
}

/// Rows of windows, `step` apart.
struct Strip {
  double* first;
  int64_t step;
};

class Strips {
 public:
  Strips(const ConvolutionSpec& s, Sought sought, const ConvolutionData<double>& data)
      : shape_(s), cut_(shape_, sought), data_(data) {}

  void output(int64_t unit, double* scratch) const;
  void input(int64_t unit, double* scratch) const;
  void weight(int64_t unit, double* scratch) const;

  int64_t units(Sought sought) const {
    const int64_t images = sought == Sought::Weight ? 1 : shape_.s.images;
    const int64_t strips = sought == Sought::Output ? cut_.places.count : 1;
    return images * shape_.s.groups * strips * cut_.in.count * cut_.out.count;
  }
  size_t scratch() const {
    return shape_.is_of_pixels
               ? 0
               : static_cast<size_t>(cut_.in.largest() * shape_.taps * cut_.places.largest());
  }

 private:
  double* x(int64_t image, int64_t group, int64_t channel) const {
    return data_.x + ((image * shape_.s.groups + group) * shape_.in + channel) * shape_.pixels;
  }
  double* y(int64_t image, int64_t group, int64_t channel) const {
    return data_.y + ((image * shape_.s.groups + group) * shape_.out + channel) * shape_.made;
  }
  double* w(int64_t group, int64_t out, int64_t in) const {
    return data_.w + (group * shape_.out + out) * shape_.window + in * shape_.taps;
  }

  /// The windows of `channels` planes, the first of which is `plane`, at these places: as they lie,
  /// or at `to`.
  Strip unfold(double* plane, int64_t channels, const Range& places, double* to) const;
  /// Adds to the planes what their windows hold.
  void fold(const Strip& from, double* plane, int64_t channels, const Range& places) const;

  Shape shape_;
  Cut cut_;
  ConvolutionData<double> data_;
};

Strip Strips::unfold(double* plane, int64_t channels, const Range& places, double* to) const {
  if (shape_.is_of_pixels) return {plane + places.begin, shape_.pixels};
  const int64_t step = shape_.s.stride[2];
  double* row = to;
  for (int64_t c = 0; c < channels; ++c, plane += shape_.pixels)
    for_each_tap(shape_.s, [&](const Extents& tap, int64_t) {
      for_each_run(shape_.s, tap, places, [&](const Run& run) {
        double* const at = row + run.at;
        const double* const pixel = plane + run.pixel;
        std::fill(at, at + run.begin, 0.0);
        if (step == 1)
          std::copy_n(pixel, run.end - run.begin, at + run.begin);
        else
          for (int64_t q = run.begin; q < run.end; ++q) at[q] = pixel[(q - run.begin) * step];
        std::fill(at + run.end, at + run.n, 0.0);
      });
      row += places.size();
    });
  return {to, places.size()};
}

void Strips::fold(const Strip& from, double* plane, int64_t channels, const Range& places) const {
  const int64_t step = shape_.s.stride[2];
  const double* row = from.first;
  for (int64_t c = 0; c < channels; ++c, plane += shape_.pixels)
    for_each_tap(shape_.s, [&](const Extents& tap, int64_t) {
      for_each_run(shape_.s, tap, places, [&](const Run& run) {
        const double* const brought = row + run.at + run.begin;
        double* const pixel = plane + run.pixel;
        const int64_t n = run.end - run.begin;
        if (step == 1)
          for (int64_t q = 0; q < n; ++q) pixel[q] += brought[q];
        else
          for (int64_t q = 0; q < n; ++q) pixel[q * step] += brought[q];
      });
      row += from.step;
    });
}

// BLAS takes columns where we have rows: a product of ours is that of its transposed factors, in
// turned order.

void Strips::output(int64_t unit, double* scratch) const {
  const Range out = cut_.out[unit % cut_.out.count];
  unit /= cut_.out.count;
  const Range places = cut_.places[unit % cut_.places.count];
  unit /= cut_.places.count;
  const int64_t image = unit / shape_.s.groups, group = unit % shape_.s.groups;
  const Strip windows = unfold(x(image, group, 0), shape_.in, places, scratch);
  double* const to = y(image, group, out.begin) + places.begin;
  if (data_.bias)
    for (int64_t o = out.begin; o < out.end; ++o)
      std::fill_n(to + (o - out.begin) * shape_.made, places.size(),
                  data_.bias[group * shape_.out + o]);
  lapack::gemm<double>({.m = places.size(), .n = out.size(), .k = shape_.window},
                       {windows.first, windows.step}, {w(group, out.begin, 0), shape_.window},
                       {to, shape_.made, data_.bias != nullptr});
}

void Strips::input(int64_t unit, double* scratch) const {
  const Range in = cut_.in[unit % cut_.in.count];
  unit /= cut_.in.count;
  const int64_t image = unit / shape_.s.groups, group = unit % shape_.s.groups;
  double* const plane = x(image, group, in.begin);
  for (int64_t i = in.begin; i < in.end; ++i)
    std::fill_n(plane + (i - in.begin) * shape_.pixels, shape_.pixels,
                data_.bias ? data_.bias[group * shape_.in + i] : 0.0);
  for (int64_t strip = 0; strip < cut_.places.count; ++strip) {
    const Range places = cut_.places[strip];
    const Strip windows = shape_.is_of_pixels ? Strip{plane + places.begin, shape_.pixels}
                                              : Strip{scratch, places.size()};
    lapack::gemm<double>({.m = places.size(), .n = in.size() * shape_.taps, .k = shape_.out},
                         {y(image, group, 0) + places.begin, shape_.made},
                         {w(group, 0, in.begin), shape_.window, true},
                         {windows.first, windows.step, shape_.is_of_pixels});
    if (!shape_.is_of_pixels) fold(windows, plane, in.size(), places);
  }
}

void Strips::weight(int64_t unit, double* scratch) const {
  const Range out = cut_.out[unit % cut_.out.count];
  unit /= cut_.out.count;
  const Range in = cut_.in[unit % cut_.in.count];
  const int64_t group = unit / cut_.in.count;
  for (int64_t image = 0; image < shape_.s.images; ++image)
    for (int64_t strip = 0; strip < cut_.places.count; ++strip) {
      const Range places = cut_.places[strip];
      const Strip windows = unfold(x(image, group, in.begin), in.size(), places, scratch);
      lapack::gemm<double>({.m = in.size() * shape_.taps, .n = out.size(), .k = places.size()},
                           {windows.first, windows.step, true},
                           {y(image, group, out.begin) + places.begin, shape_.made},
                           {w(group, out.begin, in.begin), shape_.window, image + strip > 0});
    }
}

}  // namespace

bool is_of_strips(const ConvolutionSpec& s) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();  // that BLAS can count
  const Shape shape(s);
  return shape.out >= kFewestOut && shape.window >= kFewestRows &&
         std::max({shape.pixels, shape.made, shape.window, shape.out}) <= kMost;
}

void convolve_strips(const ConvolutionSpec& s, Sought sought, const ConvolutionData<double>& data) {
  const Strips strips(s, sought, data);
  const auto work = sought == Sought::Output  ? &Strips::output
                    : sought == Sought::Input ? &Strips::input
                                              : &Strips::weight;
  const int64_t units = strips.units(sought);
  parallel_for(units, units_for_a_thread(units, flops(s)), [&](int64_t begin, int64_t end, int) {
    const ArenaLease lease = borrow_arena(strips.scratch() * sizeof(double));
    const lapack::Call in_library;
    for (int64_t unit = begin; unit < end; ++unit)
      (strips.*work)(unit, reinterpret_cast<double*>(lease.data()));
  });
}

}  // namespace tandem::machine
