#include "machine/windows/grouped_weight.h"

#include <algorithm>

#include "machine/memory/arena.h"
#include "machine/memory/worker_memory.h"
#include "machine/products/tree_sum.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/padded_plane.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

constexpr int64_t kUnits = 16;  // that threads share, about
// Pixels of a piece of a signal, about, and its windows, at least; so many times as many pixels as
// they share with its neighbours' it has, at least.
constexpr int64_t kPiece = int64_t{1} << 12, kFewestWindows = 256, kShared = 4;
// Rows of a band, at least, and floats of its plane, about.
constexpr int64_t kFewestRows = 32, kBand = int64_t{1} << 16;
constexpr int64_t kMostPlane = int64_t{1} << 20;  // floats; beyond it the library is taken
constexpr int64_t kMostSums = int64_t{1} << 22;   // of all parts together

/// What lies where. A plane of y is an image; what a tap along the depth brings to it of a channel
/// of x is a channel. Pixels that strides bring into neighbouring windows lie side by side in
/// padded planes: of each phase of a stride along rows there is one. Images that are a row
/// (signals) are cut into pieces, others, where they are few or large, into bands of rows, and all
/// of them into parts.
struct Layout {
  Layout(const SlideKernels& kernels, const ConvolutionSpec& s)
      : k(kernels),
        z(s, 0),
        y(s, 1),
        x(s, 2),
        in(s.in / s.groups * z.taps),
        out(s.out / s.groups),
        groups(s.groups),
        pieces(ceil_div(x.made, k.lanes), y.made == 1 ? vectors_of_pieces() : x.made),
        pitch(pitch_of_planes()),
        bands(y.made, rows_of_bands(s.images * z.made * pieces.count)),
        blocks(s.images * z.made * bands.count * pieces.count),
        parts(blocks, ceil_div(blocks, ceil_div(kUnits, s.groups))),
        phase(y.span(bands.largest()) * pitch) {}

  int64_t taps() const { return y.taps * x.taps; }
  /// Whether windows are squares of neighbouring pixels, one pixel apart.
  bool is_square() const {
    return x.taps == y.taps && SlideKernels::has_squares_of(x.taps) &&
           x.stride * y.stride * x.dilation * y.dilation == 1;
  }
  /// (Rows of windows are read one by one, so they need no phases.)
  Phases phases() const { return {1, x.stride, pitch, phase}; }
  int64_t plane() const { return x.stride * phase + 2 * k.lanes; }  // tiles read beyond
  int64_t sums_of_channel() const { return in * taps() * k.lanes; }
  int64_t sums() const { return groups * out * sums_of_channel(); }
  int64_t image(int64_t block) const { return block / pieces.count / bands.count; }
  Band band(int64_t block) const {
    const Range rows = bands[block / pieces.count % bands.count];
    if (pieces.count == 1) return {rows, {0, x.made}};
    const Range piece = pieces[block % pieces.count].times(k.lanes);
    return {rows, {piece.begin, std::min(piece.end, x.made)}};
  }

  const SlideKernels& k;
  WindowDim z, y, x;
  int64_t in, out, groups;  // channels of a group
  EvenParts pieces;
  int64_t pitch;  // floats of a row
  EvenParts bands;
  int64_t blocks;  // bands, or pieces, of images
  EvenParts parts;
  int64_t phase;  // floats of the rows of a phase

 private:
  int64_t vectors_of_pieces() const {
    const int64_t shared = kShared * ceil_div(x.span(1) - 1, x.stride);
    return ceil_div(std::max({kPiece / x.stride, kFewestWindows, shared}), k.lanes);
  }
  int64_t rows_of_bands(int64_t images) const {
    const int64_t for_threads = ceil_div(ceil_div(kUnits, groups), images),
                  for_caches = x.stride * y.span(y.made) * pitch / kBand;
    const int64_t shared = kShared * ceil_div(y.span(1) - 1, y.stride);
    return std::max(
        {ceil_div(y.made, std::max<int64_t>({for_threads, for_caches, 1})), kFewestRows, shared});
  }
  int64_t pitch_of_planes() const {
    const int64_t read = x.span(std::min(pieces.largest() * k.lanes, x.made));
    return is_square() ? round_up(read, k.lanes) : ceil_div(read, x.stride);
  }
};

/// Windows of a plane of x, or zeros.
void pad_phases(const Layout& l, const float* plane, const Band& made, float* to) {
  const Reach rows = l.y.reach(made.rows), columns = l.x.reach(made.columns);
  if (l.x.stride == 1) return pad_plane(l.k, plane, l.x.read, rows, columns, to, l.pitch);
  spread_plane(l.k, plane, l.x.read, rows, columns, l.phases(), to);
}

/// One gradient of a weight.
class GroupedWeight {
 public:
  GroupedWeight(const Layout& layout, const ConvolutionData<float>& data)
      : l_(layout),
        d_(data),
        lease_(borrow_arena(static_cast<size_t>(l_.parts.count * l_.sums()) * sizeof(float) +
                            static_cast<size_t>(l_.taps()) * sizeof(int32_t))),
        sums_(reinterpret_cast<float*>(lease_.data())),
        offsets_(reinterpret_cast<int32_t*>(sums_ + l_.parts.count * l_.sums())) {
    fill_offsets(1, l_.plane(), l_.y, l_.x, l_.phases(), offsets_);
  }

  void run(double flops) const {
    const WorkerMemory memory(l_.plane());
    const int64_t units = l_.groups * l_.parts.count;
    parallel_for(units, units_for_a_thread(units, flops),
                 [&](int64_t begin, int64_t end, int worker) {
                   for (int64_t i = begin; i < end; ++i)
                     run_part(i / l_.parts.count, i % l_.parts.count, memory.of(worker));
                 });
    finish();
  }

 private:
  void run_part(int64_t group, int64_t part, float* plane) const {
    const Range blocks = l_.parts[part];
    const int64_t read = l_.y.read * l_.x.read, made = l_.y.made * l_.x.made,
                  channels = l_.in / l_.z.taps;
    for (int64_t block = blocks.begin; block < blocks.end; ++block)
      for (int64_t c = 0; c < l_.in; ++c) {
        const Band band = l_.band(block);
        const int64_t image = l_.image(block), depth = image % l_.z.made,
                      at = image / l_.z.made * l_.groups + group;  // of all images' groups
        const float* const channel = d_.x + (at * channels + c / l_.z.taps) * l_.z.read * read;
        pad_phases(l_, met_plane(channel, l_.z, depth, c % l_.z.taps, read), band, plane);
        run_tiles({.windows = plane,
                   .offsets = offsets_,
                   .rows = band.rows.size(),
                   .columns = band.columns.size(),
                   .row_step = l_.y.stride * l_.pitch,
                   .y = d_.y + (at * l_.out * l_.z.made + depth) * made +
                        band.rows.begin * l_.x.made + band.columns.begin,
                   .y_channel = l_.z.made * made,
                   .sums = sums_ + part * l_.sums() + group * l_.out * l_.sums_of_channel() +
                           c * l_.taps() * l_.k.lanes,
                   .stride = l_.sums_of_channel(),
                   .adds = block > blocks.begin});
      }
  }

  /// Of all channels of y and all taps.
  void run_tiles(const PlaneWeightSlide& all) const {
    if (l_.is_square()) return run_squares(all);
    const EvenParts channels(l_.out, l_.k.vectors), taps(l_.taps(), l_.k.rows);
    for (int64_t i = 0; i < channels.count; ++i)
      for (int64_t t = 0; t < taps.count; ++t) {
        PlaneWeightSlide slide = all;
        slide.y += channels[i].begin * slide.y_channel;
        slide.sums += channels[i].begin * slide.stride + taps[t].begin * l_.k.lanes;
        slide.offsets += taps[t].begin;
        l_.k.plane_weight_tile(slide, taps[t].size(), channels[i].size());
      }
  }

  void run_squares(PlaneWeightSlide slide) const {
    for (int64_t i = 0; i < l_.out; ++i) {
      l_.k.square_weight_tile(slide, l_.x.taps);
      slide.y += slide.y_channel;
      slide.sums += slide.stride;
    }
  }

  /// Of each weight the parts' lanes, and then these, by a tree.
  void finish() const {
    constexpr int64_t kGrain = 8192;
    const int64_t n = l_.sums() / l_.k.lanes, grain = ceil_div(kGrain, l_.parts.count * l_.k.lanes);
    parallel_for(n, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float* const lanes = sums_ + i * l_.k.lanes;
        add_by_tree(lanes, l_.k.lanes, l_.parts.count, l_.sums());
        add_by_tree(lanes, 1, l_.k.lanes, 1);
        d_.w[i] = *lanes;
      }
    });
  }

  const Layout& l_;
  const ConvolutionData<float>& d_;
  ArenaLease lease_;
  float* sums_;
  int32_t* offsets_;
};

/// The library sums few taps of a channel by itself well, others, and groups of few channels, by
/// loops. (Two threads of a Xeon, 2026-11: how many times as fast as the library. Each channel by
/// itself, 3 x 3 of 7 x 7: 0.55, 14 x 14: 0.94 to 1.02, 28 x 28: 1.02 to 1.16, 56 x 56: 1.35
/// to 1.62, with stride 2 0.4 to 0.9; 5 x 5: 5 to 15, with stride 2 4.8; 7 x 7: 5 to 23. In groups
/// of 2 channels 3.2 to 12, of 4 2 to 7, of 8 0.4 to 1, of 16 0.4 to 0.8. In three dims, one thread
/// of a Zen 4: each by itself 8 to 10, of 8 7, of 16 0.2. One group of 1 to 128 channels that makes
/// 1 to 4, 3 x 3 to 7 x 7 of 14 x 14 to 64 x 64, the same thread: 1.1 to 30; 6 0.75 to 4, 8 0.4
/// to 5.)
bool pays(const Layout& l, const ConvolutionSpec& s) {
  constexpr int64_t kFewTaps = 3, kLongRow = 28, kFewPairs = 16, kFewPairsInDepth = 64,
                    kFewResults = 4, kFewOfSignal = 8;
  const int64_t pairs = l.in / l.z.taps * l.out;
  if (s.groups == 1) return l.out <= (is_signal(s) && s.in == 1 ? kFewOfSignal : kFewResults);
  if (has_depth(s)) return pairs <= kFewPairsInDepth;
  if (pairs > 1) return pairs <= kFewPairs;
  const bool is_small =
      std::max(l.y.taps, l.x.taps) <= kFewTaps && std::max(l.y.dilation, l.x.dilation) == 1;
  return !is_small || (l.x.stride == 1 && l.x.made >= kLongRow);
}

}  // namespace

bool is_weight_grouped(const ConvolutionSpec& s) {
  if (slide_kernels() == nullptr) return false;
  const Layout l(*slide_kernels(), s);
  return pays(l, s) && l.plane() <= kMostPlane && l.parts.count * l.sums() <= kMostSums;
}

void sum_grouped(const SlideKernels& kernels, const ConvolutionSpec& s,
                 const ConvolutionData<float>& data) {
  const Layout l(kernels, s);
  GroupedWeight(l, data).run(flops(s));
}

}  // namespace tandem::machine
