#include "machine/windows/sliding_convolution.h"

#include <algorithm>

#include "machine/cpu.h"
#include "machine/memory/arena.h"
#include "machine/memory/worker_memory.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/padded_plane.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

constexpr int64_t kLine = 16;    // elements
constexpr int64_t kDepth = 576;  // taps of channels that are summed at once, about
// Floats of the padded planes of a band: about so many, and beyond the most the library is faster.
constexpr int64_t kPlanes = int64_t{1} << 16, kMostPlanes = int64_t{1} << 18;
constexpr int64_t kBands = 32;       // of all images, about
constexpr int64_t kFewestBands = 4;  // which several threads share
constexpr int64_t kFewestRows = 4;   // of a band: its windows read rows of its neighbours too
// Of a row by itself: floats of a padded piece of it, about, and its windows, at least; so many
// times as many pixels as they share with its neighbours' it has, at least.
constexpr int64_t kPiece = int64_t{1} << 12, kFewestWindows = 144, kShared = 4;
constexpr int64_t kGrainWeights = 4096;  // worth a thread

/// What lies where. Bands of rows of the result's planes are computed from padded planes [channel,
/// tap along the depth, row, column]. To the right of a row lies the left padding of the next. A
/// long row by itself (a signal) is cut into pieces of whole vectors, which are its bands.
/// Where windows are more than a pixel apart, what strides bring into neighbouring ones lies side
/// by side, so there is a plane for each phase of the strides: [..., phase along rows and columns,
/// row, column].
struct Layout {
  Layout(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought)
      : k(kernels),
        forward(sought == Sought::Output),
        images(s.images),
        groups(s.groups),
        in((forward ? s.in : s.out) / groups),
        out((forward ? s.out : s.in) / groups),
        z(s, sought, 0),
        y(s, sought, 1),
        x(s, sought, 2),
        channels(in, std::max<int64_t>(1, kDepth / taps())),
        tiles(out, k.rows),
        pieces(ceil_div(x.made, k.lanes), y.made == 1 ? vectors_of_pieces() : x.made),
        pitch(pitch_of_planes()),
        rows(y.made, rows_of_bands()) {}

  int64_t taps() const { return z.taps * y.taps * x.taps; }
  bool has_phases() const { return y.stride * x.stride > 1; }
  bool is_cut() const { return pieces.count > 1; }
  int64_t bands() const { return is_cut() ? pieces.count : rows.count; }
  Band band(int64_t i) const {
    if (!is_cut()) return {rows[i], {0, x.made}};
    const Range piece = pieces[i].times(k.lanes);
    return {{0, 1}, {piece.begin, std::min(piece.end, x.made)}};
  }
  /// What others than the last look like, or begin with. (In even parts the last is the largest.)
  Band first_band() const {
    if (!is_cut()) return band(0);
    return {{0, 1}, {0, pieces.largest() * k.lanes}};
  }
  Band last_band() const { return band(bands() - 1); }
  bool is_as_last(const Band& b) const {
    return is_cut() ? b.columns.end == x.made : b.rows.size() == rows.largest();
  }
  int64_t rows_read() const { return y.span(rows.largest()); }
  Phases phases() const {
    return {y.stride, x.stride, pitch, ceil_div(rows_read(), y.stride) * pitch};
  }
  /// Of an odd number of lines; a vector's windows reach beyond the padding after its last row.
  int64_t plane() const {
    const int64_t all = y.stride * x.stride * phases().size;
    return (ceil_div(all + x.padding + k.lanes, kLine) | 1) * kLine;
  }
  int64_t planes() const { return channels.largest() * z.taps * plane() + k.lanes; }

  /// Of each step of the depth.
  int64_t offsets() const { return round_up(channels.largest() * taps(), kLine); }
  /// Weights [depth, rows] of a tile; the last vector may reach beyond them.
  int64_t panel() const { return round_up(channels.largest() * taps() * k.rows + k.lanes, kLine); }
  int64_t panels() const { return groups * channels.count * tiles.count * panel(); }
  int64_t units() const { return images * groups * z.made * bands(); }
  int64_t read() const { return z.read * y.read * x.read; }  // of a channel
  int64_t made() const { return z.made * y.made * x.made; }

  bool has_whole_rows() const { return x.made % k.lanes == 0; }
  /// Whether each vector is of one row. Else all pixels of a band come one after the other, and
  /// between rows, which are not whole vectors, a few that are not wanted.
  bool by_rows() const { return has_whole_rows() || is_cut() || pitch - x.made >= k.lanes; }
  int64_t spots(const Band& b) const {
    if (by_rows()) return b.rows.size() * ceil_div(b.columns.size(), k.lanes);
    return ceil_div((b.rows.size() - 1) * pitch + x.made, k.lanes);
  }
  int64_t most_spots() const { return std::max(spots(first_band()), spots(last_band())); }

  const SlideKernels& k;
  bool forward;
  int64_t images, groups, in, out;  // channels of a group
  WindowDim z, y, x;
  EvenParts channels, tiles, pieces;
  int64_t pitch;
  EvenParts rows;

 private:
  int64_t vectors_of_pieces() const {
    const int64_t fitting = std::min(kPiece, kPlanes / (channels.largest() * z.taps)) / x.stride,
                  wanted = ceil_div(x.made, ceil_div(kBands, images * groups * z.made)),
                  shared = kShared * ceil_div(x.span(1) - 1, x.stride);
    const int64_t fewest = std::max(kFewestWindows / x.stride, shared);
    return ceil_div(std::max(std::min(fitting, wanted), fewest), k.lanes);
  }
  int64_t pitch_of_planes() const {
    const int64_t made = is_cut() ? pieces.largest() * k.lanes : x.made;
    if (has_phases()) return ceil_div(x.span(made), x.stride);
    return is_cut() ? x.span(made) : x.padding + x.read;
  }
  int64_t rows_of_bands() const {
    const int64_t rows = kPlanes / (channels.largest() * z.taps * pitch * x.stride),
                  fitting = (rows - y.span(1)) / y.stride + 1,
                  wanted = ceil_div(y.made, ceil_div(kBands, images * groups * z.made));
    return std::clamp<int64_t>(wanted, std::min(kFewestRows, y.made),
                               std::max(kFewestRows, fitting));
  }
};

/// Of a vector from the pixel in row `row` and column `column` of the padded planes of a band on,
/// and up to row `end`.
Spot spot_at(const Layout& l, int64_t width, int64_t row, int64_t column, int64_t end) {
  Spot spot{row * l.pitch + column, row * l.x.made + std::min(column, width), 0};
  for (int64_t lane = 0; lane < l.k.lanes && row < end; ++lane) {
    if (column < width) spot.lanes |= 1U << lane;
    if (++column == l.pitch) column = 0, ++row;
  }
  return spot;
}

void fill_spots(const Layout& l, const Band& b, Spot* to) {
  const bool by_rows = l.by_rows();
  const int64_t width = b.columns.size(), columns = by_rows ? round_up(width, l.k.lanes) : l.pitch,
                count = l.spots(b);
  for (int64_t i = 0, row = 0, column = 0; i < count; ++i) {
    to[i] = spot_at(l, width, row, column, by_rows ? row + 1 : b.rows.size());
    for (column += l.k.lanes; column >= columns; column -= columns) ++row;
  }
}

/// What the windows of a band read of a plane, or zeros.
void pad_band(const Layout& l, const float* plane, const Band& b, float* to) {
  const Reach rows(b.rows.begin * l.y.stride - l.y.padding, l.rows_read(), l.y.read),
      columns = l.x.reach(b.columns);
  if (l.has_phases()) return spread_plane(l.k, plane, l.x.read, rows, columns, l.phases(), to);
  if (l.is_cut()) return pad_plane(l.k, plane, l.x.read, rows, columns, to, l.pitch);
  const Reach shared(-l.x.padding, l.pitch, l.x.read),
      after(l.x.read, l.x.padding + l.k.lanes, l.x.read), one(0, 1, 1);
  pad_plane(l.k, plane, l.x.read, rows, shared, to, l.pitch);
  pad_plane(l.k, plane, l.x.read, one, after, to + l.rows_read() * l.pitch, l.pitch);
}

/// One convolution, or the gradient of an input.
class Sliding {
 public:
  explicit Sliding(const Layout& layout)
      : l_(layout),
        most_spots_(l_.most_spots()),
        lease_(borrow_arena(static_cast<size_t>(l_.panels()) * sizeof(float) +
                            static_cast<size_t>(l_.offsets()) * sizeof(int32_t) +
                            static_cast<size_t>(2 * most_spots_) * sizeof(Spot))),
        panels_(reinterpret_cast<float*>(lease_.data())),
        offsets_(reinterpret_cast<int32_t*>(panels_ + l_.panels())),
        spots_(reinterpret_cast<Spot*>(offsets_ + l_.offsets())) {
    fill_offsets(l_.channels.largest() * l_.z.taps, l_.plane(), l_.y, l_.x, l_.phases(), offsets_);
    fill_spots(l_, l_.first_band(), spots_);
    fill_spots(l_, l_.last_band(), spots_ + most_spots_);
  }

  void run(const float* w, const float* from, const float* bias, float* to, double flops) const {
    pack(w);
    const WorkerMemory memory(l_.planes());
    for_each_band(l_.images * l_.groups, l_.z.made, l_.bands(), flops,
                  [&](int64_t at, int64_t depth, int64_t band, int worker) {
                    run_band(at, depth, l_.band(band), from, bias, to, memory.of(worker));
                  });
  }

 private:
  float* panel(int64_t group, int64_t block, int64_t tile) const {
    return panels_ + ((group * l_.channels.count + block) * l_.tiles.count + tile) * l_.panel();
  }

  void pack(const float* w) const {
    const int64_t grain = kGrainWeights / l_.panel() + 1, blocks = l_.groups * l_.channels.count;
    parallel_for(blocks * l_.tiles.count, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t block = i / l_.tiles.count;
        pack_panel(w, block / l_.channels.count, block % l_.channels.count, i % l_.tiles.count);
      }
    });
  }
  void pack_panel(const float* w, int64_t group, int64_t block, int64_t tile) const {
    const Range channels = l_.channels[block], o = l_.tiles[tile];
    const int64_t taps = l_.taps();
    w += group * l_.in * l_.out * taps;
    float* to = panel(group, block, tile);
    for (int64_t c = channels.begin; c < channels.end; ++c)
      for (int64_t t = 0; t < taps; ++t, to += l_.k.rows)
        if (l_.forward)
          l_.k.pack(w + (o.begin * l_.in + c) * taps + t, l_.in * taps, o.size(), to);
        else
          l_.k.pack(w + (c * l_.out + o.begin) * taps + taps - 1 - t, taps, o.size(), to);
  }

  /// `at`: the group, of all images' groups one after the other.
  void run_band(int64_t at, int64_t depth, const Band& band, const float* from, const float* bias,
                float* to, float* planes) const {
    const int64_t group = at % l_.groups;
    const Spot* const spots = spots_ + (l_.is_as_last(band) ? most_spots_ : 0);
    from += at * l_.in * l_.read();
    to += at * l_.out * l_.made() + (depth * l_.y.made + band.rows.begin) * l_.x.made +
          band.columns.begin;
    if (bias != nullptr) bias += group * l_.out;
    for (int64_t block = 0; block < l_.channels.count; ++block) {
      const Range channels = l_.channels[block];
      float* plane = planes;
      for (int64_t i = channels.begin; i < channels.end; ++i)
        for (int64_t t = 0; t < l_.z.taps; ++t, plane += l_.plane())
          pad_band(l_, met_plane(from + i * l_.read(), l_.z, depth, t, l_.y.read * l_.x.read), band,
                   plane);
      for (int64_t tile = 0; tile < l_.tiles.count; ++tile)
        run_tiles(group, block, tile, spots, l_.spots(band), planes, bias,
                  to + l_.tiles[tile].begin * l_.made());
    }
  }

  /// Of all spots, a few at a time.
  void run_tiles(int64_t group, int64_t block, int64_t tile, const Spot* spots, int64_t count,
                 const float* planes, const float* bias, float* c) const {
    Slide slide{.weights = panel(group, block, tile),
                .windows = planes,
                .offsets = offsets_,
                .depth = l_.channels[block].size() * l_.taps(),
                .spots = spots,
                .c = c,
                .c_stride = l_.made(),
                .bias = bias != nullptr && block == 0 ? bias + l_.tiles[tile].begin : nullptr,
                .adds = block > 0};
    for (int64_t left = count, vectors = 0; left > 0; left -= vectors, slide.spots += vectors) {
      vectors = l_.k.vectors_of(left);
      l_.k.tile(slide, l_.tiles[tile].size(), vectors);
    }
  }

  const Layout& l_;
  int64_t most_spots_;
  ArenaLease lease_;
  float* panels_;
  int32_t* offsets_;
  Spot* spots_;
};

constexpr int64_t kFewChannels = 16, kFewOfGroup = 4, kFewestOut = 2;

/// Whether the library computes so many more channels than there are, that sliding is faster.
bool has_waste(const Layout& l) {
  return l.k.waste(l.in) * l.k.waste(l.out) >= l.k.worthwhile_waste;
}

/// Phases are worth laying out where each pixel is read twice or more. (One thread of a Zen 4, with
/// stride 2, of the library's or the loops' time, AVX-512 and AVX2: each of 32 to 64 channels by
/// itself in three dims 3.3 to 7.6, 3.3 to 5.7; in two 0.6 to 0.8, which the library keeps; in
/// groups of 2 channels 3.6 to 4.4, 1.4 to 1.5, of 4 1.8, 1.5; 17 to 33 channels 1.3 to 2.1, 1.2 to
/// 2.0; 4 to 16 channels 0.6 to 0.9; 3 channels, 3 x 3 and 7 x 7, 1.1 to 1.2, 0.8 to 1.1; one of 80
/// taps, strides 4 and 16, 1.4 to 2.1, 1.9 to 2.1. Signals of one channel, with windows as wide as
/// they are apart, 1.2 to 2.7; of 2 and 3 channels 0.5.)
bool pays_with_strides(const Layout& l, const ConvolutionSpec& s) {
  constexpr int64_t kFewRead = 3, kLongRow = 32;
  if (is_signal(s) && s.in == 1) return l.taps() >= s.stride[2];
  if (l.taps() < 2 * product(s.stride)) return false;
  const bool is_depthwise = l.in * l.out == 1;
  if (l.groups > 1) return std::min(l.in, l.out) <= kFewOfGroup && (has_depth(s) || !is_depthwise);
  if (has_depth(s)) return false;
  if (l.in <= kFewRead) return l.out >= kFewestOut && l.x.made >= kLongRow;
  return std::min(l.in, l.out) > kFewChannels && has_waste(l);
}

/// Channels of which the library's blocks would be half empty do so in short rows too. (As in
/// slide_avx512.cpp: 3 channels to 32 and 16 to 16, of 14 x 14, 1.62, 1.39, 1.13, 1.06; 64 to 3, of
/// 128 x 128, 4.82, 4.64. A tile of one row is not worth it: 1 channel to 32, of 28 x 28, 1.38,
/// 0.77. In groups of 2 channels 6.6 to 8.7, 7.7 to 22, of 4 1.1 to 2.8, 1.1 to 2.6, of 8 1.1
/// to 1.9, of 16 0.9 to 1.4; of 1 to 2 channels 7.3, 8.4. One thread of a Zen 4: 17 to 33, of 31 x
/// 29, 2.6, 2.5; 33 to 33, of 14 x 14, 1.5, 1.5; 40 to 40 1.07, 1.07; 100 to 50, of 30 x
/// 30, 1.1, 1.25. In three dims, where the library loops over groups and blocks that are not full:
/// each of 32 channels by itself 8 to 10, 4 to 16 channels 1.0, 8.5, 64 to 3 4, 16, 16 to 32 0.75,
/// 0.71.)
bool pays(const Layout& l, const ConvolutionSpec& s) {
  constexpr int64_t kFewPixels = 14;
  if (has_strides(s)) return pays_with_strides(l, s);
  if (has_depth(s)) return l.groups > 1 ? std::min(l.in, l.out) <= kFewOfGroup : has_waste(l);
  if (l.groups > 1 && l.in * l.out == 1) return false;
  if (l.groups > 1 && std::min(l.in, l.out) <= kFewOfGroup) return true;
  if (l.groups == 1 && l.out < kFewestOut) return false;
  if (std::min(l.in, l.out) <= kFewChannels || has_waste(l)) return l.x.made >= kFewPixels;
  return l.x.made >= (l.has_whole_rows() ? l.k.long_whole_row : l.k.long_row);
}

}  // namespace

const SlideKernels* slide_kernels() {
  return for_this_processor<SlideKernels>(nullptr, &kSlideAvx2, &kSlideAvx512);
}

bool can_slide(const ConvolutionSpec& s, Sought sought) {
  constexpr int64_t kMostWeights = int64_t{1} << 26;  // of a channel: vectors gather them
  const auto is_padded_within_reach = [&](size_t d) {
    return s.padding[d] <= (s.kernel[d] - 1) * s.dilation[d];
  };
  return (sought == Sought::Output || (sought == Sought::Input && !has_strides(s))) &&
         is_padded_within_reach(0) && is_padded_within_reach(1) && is_padded_within_reach(2) &&
         s.in / s.groups * product(s.kernel) < kMostWeights;
}

bool is_sliding(const ConvolutionSpec& s, Sought sought) {
  if (slide_kernels() == nullptr || !can_slide(s, sought)) return false;
  const Layout l(*slide_kernels(), s, sought);
  return pays(l, s) && l.planes() <= kMostPlanes && l.units() >= kFewestBands;
}

void convolve_sliding(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought,
                      const ConvolutionData<float>& d) {
  const Layout l(kernels, s, sought);
  Sliding(l).run(d.w, l.forward ? d.x : d.y, d.bias, l.forward ? d.y : d.x, flops(s));
}

}  // namespace tandem::machine
