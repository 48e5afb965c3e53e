#include "machine/windows/single_convolution.h"

#include <algorithm>

#include "machine/memory/worker_memory.h"
#include "machine/rounding.h"
#include "machine/windows/padded_plane.h"
#include "machine/windows/sliding_convolution.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

constexpr int64_t kLine = 16;  // elements
// Floats of the padded planes of a band, about, and at most.
constexpr int64_t kPlanes = int64_t{1} << 13, kMostPlanes = int64_t{1} << 20;
constexpr int64_t kBands = 32;       // of all planes, about
constexpr int64_t kFewestRows = 14;  // of a band: its windows read rows of its neighbours too
/// Of a piece of a row by itself: how many times as many pixels it has as its windows share with
/// its neighbours', at least.
constexpr int64_t kShared = 4;

/// What lies where. Bands of rows of the result's planes are computed from padded planes [channel
/// of the group, tap along the depth, row, column], whose rows begin lines. A long row by itself (a
/// signal) is cut into pieces, which are its bands.
struct Layout {
  Layout(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought)
      : k(kernels),
        forward(sought == Sought::Output),
        channels(s.images * s.groups),
        groups(s.groups),
        in((forward ? s.in : s.out) / s.groups),
        z(s, sought, 0),
        y(s, sought, 1),
        x(s, sought, 2),
        pieces(ceil_div(x.made, tile_width()), y.made == 1 ? tiles_of_pieces() : x.made),
        pitch(round_up(x.span(std::min(pieces.largest() * tile_width(), x.made)), kLine)),
        rows(y.made, rows_of_bands()) {}

  int64_t taps() const { return z.taps * y.taps * x.taps; }
  /// Planes that one of the result is made of.
  int64_t depth() const { return in * z.taps; }
  /// A tile reads some vectors beyond its last.
  int64_t beyond() const { return (k.row_tile_vectors + 1) * k.lanes; }
  int64_t plane() const { return y.span(rows.largest()) * pitch + beyond(); }
  int64_t planes() const { return depth() * plane(); }
  int64_t tile_width() const { return k.row_tile_vectors * k.lanes; }

  bool is_cut() const { return pieces.count > 1; }
  int64_t bands() const { return is_cut() ? pieces.count : rows.count; }
  Band band(int64_t i) const {
    if (!is_cut()) return {rows[i], {0, x.made}};
    const Range piece = pieces[i].times(tile_width());
    return {{0, 1}, {piece.begin, std::min(piece.end, x.made)}};
  }
  /// Where the windows of a signal's piece begin, if all that tiles read of it lies in the signal;
  /// else -1.
  int64_t inside(const Band& b) const {
    const int64_t first = b.columns.begin - x.padding;
    const bool is_signal = z.taps * z.read * y.taps * y.read == 1;
    return is_cut() && is_signal && first + pitch + beyond() <= x.read ? first : -1;
  }

  const SlideKernels& k;
  bool forward;
  int64_t channels, groups;  // of all images' results
  int64_t in;                // channels of a group that are read
  WindowDim z, y, x;
  EvenParts pieces;
  int64_t pitch;
  EvenParts rows;

 private:
  int64_t tiles_of_pieces() const {
    const int64_t columns = std::max(kPlanes / depth(), kShared * (x.span(1) - 1));
    return std::max(k.row_tile_rows, ceil_div(columns, tile_width()));
  }
  int64_t rows_of_bands() const {
    const int64_t fitting = kPlanes / (depth() * pitch) - y.span(1) + 1,
                  wanted = ceil_div(y.made, ceil_div(kBands, channels * z.made));
    return std::clamp(std::min(fitting, wanted), std::min(kFewestRows, y.made), y.made);
  }
};

/// One convolution, or the gradient of an input.
class Single {
 public:
  Single(const Layout& layout, const float* w, const float* from, const float* bias, float* to)
      : l_(layout), w_(w), from_(from), bias_(bias), to_(to) {}

  void run(double flops) const {
    const WorkerMemory memory(l_.planes());
    for_each_band(l_.channels, l_.z.made, l_.bands(), flops,
                  [&](int64_t channel, int64_t depth, int64_t band, int worker) {
                    run_band(channel, depth, l_.band(band), memory.of(worker));
                  });
  }

 private:
  /// (The gradient of an input takes the weights, and so channels, from the last to the first.)
  void run_band(int64_t channel, int64_t depth, const Band& band, float* planes) const {
    const int64_t inside = l_.inside(band);
    if (inside < 0) {
      pad_band(channel, depth, band, planes);
      return run_planes(channel, depth, band, planes, l_.plane());
    }
    const int64_t first = l_.forward ? 0 : l_.in - 1;
    run_planes(channel, depth, band, from_ + (channel * l_.in + first) * l_.x.read + inside,
               l_.forward ? l_.x.read : -l_.x.read);
  }

  void run_planes(int64_t channel, int64_t depth, const Band& band, const float* planes,
                  int64_t plane_step) const {
    const int64_t group = channel % l_.groups, plane = channel * l_.z.made + depth,
                  weights = l_.in * l_.taps();
    run_rows({.windows = planes,
              .depth = l_.depth(),
              .plane_step = plane_step,
              .row_taps = l_.y.taps,
              .row_step = l_.y.dilation * l_.pitch,
              .taps = l_.x.taps,
              .tap_step = l_.x.dilation,
              .weights = w_ + group * weights + (l_.forward ? 0 : weights - 1),
              .weight_step = l_.forward ? 1 : -1,
              .bias = bias_ != nullptr ? bias_ + group : nullptr,
              .c = to_ + (plane * l_.y.made + band.rows.begin) * l_.x.made + band.columns.begin,
              .columns = band.columns.size(),
              .c_stride = l_.y.dilation * l_.x.made},
             band.rows.size());
  }

  /// What the windows of a band read, in the order of their weights.
  void pad_band(int64_t channel, int64_t depth, const Band& band, float* planes) const {
    const int64_t pixels = l_.y.read * l_.x.read;
    const Reach read = l_.y.reach(band.rows),
                columns(band.columns.begin - l_.x.padding, l_.pitch, l_.x.read);
    for (int64_t i = 0; i < l_.depth(); ++i, planes += l_.plane()) {
      const int64_t in = i / l_.z.taps, from = channel * l_.in + (l_.forward ? in : l_.in - 1 - in);
      pad_plane(l_.k,
                met_plane(from_ + from * l_.z.read * pixels, l_.z, depth, i % l_.z.taps, pixels),
                l_.x.read, read, columns, planes, l_.pitch);
      std::fill_n(planes + read.all * l_.pitch, l_.beyond(), 0.0F);
    }
  }

  /// Of rows so far apart as the taps are that meet them; and then of the rows between.
  void run_rows(RowSlide band, int64_t rows) const {
    const int64_t dilation = l_.y.dilation;
    for (int64_t i = 0; i < std::min(dilation, rows); ++i) {
      run_tiles(band, ceil_div(rows - i, dilation));
      band.windows += l_.pitch;
      band.c += l_.x.made;
    }
  }

  /// A row by itself, whose windows read no others, is parts of itself, one under the other.
  void run_tiles(RowSlide band, int64_t rows) const {
    if (rows == 1 && l_.y.taps == 1) {
      const int64_t width = l_.k.row_tile_vectors * l_.k.lanes, parts = band.columns / width;
      RowSlide row = band;
      row.row_step = row.c_stride = row.columns = width;
      run_even_tiles(row, parts);
      band.windows += parts * width;
      band.c += parts * width;
      band.columns -= parts * width;
    }
    run_even_tiles(band, rows);
  }

  void run_even_tiles(const RowSlide& band, int64_t rows) const {
    const EvenParts some_rows(rows, l_.k.row_tile_rows),
        vectors(ceil_div(band.columns, l_.k.lanes), l_.k.row_tile_vectors);
    for (int64_t i = 0; i < some_rows.count; ++i)
      for (int64_t v = 0; v < vectors.count; ++v) {
        const int64_t row = some_rows[i].begin, column = vectors[v].begin * l_.k.lanes;
        RowSlide slide = band;
        slide.windows += row * slide.row_step + column;
        slide.c += row * slide.c_stride + column;
        slide.columns -= column;
        l_.k.row_tile(slide, some_rows[i].size(), vectors[v].size());
      }
  }

  const Layout& l_;
  const float *w_, *from_, *bias_;
  float* to_;
};

/// Rows are to fill vectors, and to be long, where the library can do it and its blocks of channels
/// are full; of windows as wide as high it computes even ones well, and none whose padding is more
/// than its tiles. (One thread of a Zen 4, how many times as fast as all else are the output and
/// the gradient of the input. 64 channels by themselves, 3 x 3 of 10 x 10: 0.6, 0.7; 14 x 14 to 56
/// x 56 1.4 to 2.1; 5 x 5 of 14 x 14 0.7, 0.9, of 28 x 28 1.1, 1.2; 7 x 7 of 28 x 28 1.1, 1.3; 9 x
/// 9 0.9, 1.1; 13 x 13 0.9, 1.3; 15 x 15 30, 1.3; 7 x 1 1.3; 1 x 7 0.7, 0.9; 4 x 4 0.75; 3
/// channels 4.5 to 6. In three dims 14 to 40. Its features lowered to AVX2, 64 channels 0.7 to 1.0,
/// 3 channels 2.8. Signals, the gradient of one channel from 16, of 4000 to 65536 places, 3
/// taps 1.0 to 2.1, 31 taps 1.8 to 2.5; from 64 0.8 to 1.2, but the library takes much memory for
/// long ones.)
bool pays(const Layout& l, const ConvolutionSpec& s) {
  constexpr int64_t kMostLanes = 2;  // for a pixel
  constexpr int64_t kMostPadding = 6, kFewTaps = 3, kSomeTaps = 7, kLongRow = 28, kFewRead = 16,
                    kLongSignal = int64_t{1} << 16;
  if (l.forward && l.x.padding > kMostPadding) return true;
  if (l.in > 1 && !l.forward && l.y.taps == 1)
    return l.y.made == 1 && (l.in <= kFewRead || l.x.made >= kLongSignal);
  if (l.in > 1) return true;
  if (round_up(l.x.made, l.k.lanes) > kMostLanes * l.x.made) return false;
  if (has_depth(s) || l.k.waste(l.groups) >= l.k.worthwhile_waste) return true;
  if (l.x.made < l.k.depthwise_row || l.y.taps % 2 == 0 || l.y.taps == 1) return false;
  return l.y.taps <= kFewTaps || (l.x.made >= kLongRow && (l.y.taps <= kSomeTaps || !l.forward));
}

}  // namespace

bool can_convolve_single(const ConvolutionSpec& s, Sought sought) {
  return can_slide(s, sought) && !has_strides(s) &&
         (sought == Sought::Output ? s.out : s.in) == s.groups;
}

bool is_single(const ConvolutionSpec& s, Sought sought) {
  if (slide_kernels() == nullptr || !can_convolve_single(s, sought)) return false;
  const Layout l(*slide_kernels(), s, sought);
  return pays(l, s) && l.planes() <= kMostPlanes;
}

void convolve_single(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought,
                     const ConvolutionData<float>& d) {
  const Layout l(kernels, s, sought);
  Single(l, d.w, l.forward ? d.x : d.y, d.bias, l.forward ? d.y : d.x).run(flops(s));
}

}  // namespace tandem::machine
