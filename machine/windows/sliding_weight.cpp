#include "machine/windows/sliding_weight.h"

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

constexpr int64_t kLine = 16;     // elements
constexpr int64_t kPixels = 512;  // that are summed at once, at most
// Floats of the padded planes of a block: about so many, and beyond the most it is not worth it.
constexpr int64_t kPlanes = int64_t{1} << 17, kMostPlanes = int64_t{1} << 20;
// Threads share about so many units, of at least so many operations.
constexpr int64_t kUnits = 16;
constexpr double kUnitFlops = 4e6;
constexpr int64_t kSums = int64_t{1} << 20;  // of all parts together, at most

/// Pixels of y that are summed at once.
struct Block {
  Range images, rows, columns;
  int64_t pixels() const { return rows.size() * columns.size(); }
};

/// What a thread sums by itself: a part's blocks, for some channels of x and some panels of y.
struct Unit {
  Range blocks;
  int64_t part;
  Range channels, panels;
};

/// What lies where. A plane of y is an image; what a tap along the depth brings to it of a channel
/// of x is a channel. y's pixels are cut into blocks: some images, or rows of one, or pixels of one
/// row. Parts of the blocks are summed each by itself: [channel and tap of x, channel of y]. y is
/// read in panels of a few vectors of channels.
struct Layout {
  Layout(const SlideKernels& kernels, const ConvolutionSpec& s)
      : k(kernels),
        z(s, 0),
        y(s, 1),
        x(s, 2),
        in(s.in * z.taps),
        out(s.out),
        columns(x.made, kPixels),
        rows(y.made, std::max<int64_t>(1, kPixels / columns.largest())),
        images(s.images * z.made, std::max<int64_t>(1, kPixels / made())),
        units(std::clamp<int64_t>(static_cast<int64_t>(flops(s) / kUnitFlops), 1, kUnits)),
        parts(blocks(), ceil_div(blocks(), std::clamp<int64_t>(kSums / sums(), 1, units))),
        panels(ceil_div(out, k.lanes), k.weight_vectors),
        panel_cuts(panels.count, ceil_div(panels.count, best_panel_cuts())),
        channel_cuts(in, most_channels()) {}

  int64_t read() const { return y.read * x.read; }
  int64_t made() const { return y.made * x.made; }
  int64_t taps() const { return y.taps * x.taps; }

  int64_t blocks() const { return images.count * rows.count * columns.count; }
  Block block(int64_t i) const {
    return {images[i / columns.count / rows.count], rows[i / columns.count % rows.count],
            columns[i % columns.count]};
  }
  int64_t unit_count() const { return parts.count * panel_cuts.count * channel_cuts.count; }
  Unit unit(int64_t i) const {
    const int64_t part = i / channel_cuts.count / panel_cuts.count;
    return {parts[part], part, channel_cuts[i % channel_cuts.count],
            panel_cuts[i / channel_cuts.count % panel_cuts.count]};
  }

  // Of padded planes [channel, image, row, column]. Planes are of an odd number of lines.
  int64_t pitch() const { return x.span(columns.largest()); }
  int64_t plane() const { return (ceil_div(y.span(rows.largest()) * pitch(), kLine) | 1) * kLine; }
  int64_t channel() const { return images.largest() * plane(); }
  int64_t planes() const { return channel_cuts.largest() * channel() + k.lanes; }

  /// A panel of y: [image, row, column, channel].
  int64_t panel() const {
    return images.largest() * rows.largest() * columns.largest() * k.weight_vectors * k.lanes;
  }
  /// The channels of y of a panel, and those that are not there, up to whole vectors.
  Range channels_of(int64_t panel) const { return panels[panel].times(k.lanes); }

  int64_t width() const { return round_up(out, k.lanes); }
  int64_t sums() const { return in * taps() * width(); }
  int64_t offsets() const { return round_up(channel_cuts.largest() * taps(), kLine); }

  const SlideKernels& k;
  WindowDim z, y, x;
  int64_t in, out;
  EvenParts columns, rows, images;
  int64_t units;  // about
  EvenParts parts, panels, panel_cuts, channel_cuts;

 private:
  /// Each cut of the panels pads all of x again, each of the channels packs all of y.
  int64_t best_panel_cuts() const {
    constexpr int64_t kPadding = 4;  // of a channel takes as long as packing so many
    const auto cost = [&](int64_t cuts) {
      return kPadding * in * cuts + out * channel_cuts_beside(cuts);
    };
    int64_t best = 1;
    for (int64_t cuts = 2; cuts <= std::min(panels.count, units); cuts *= 2)
      if (cost(cuts) < cost(best)) best = cuts;
    return best;
  }
  int64_t channel_cuts_beside(int64_t cuts) const {
    return std::min(in, ceil_div(units, parts.count * cuts));
  }
  int64_t most_channels() const {
    return std::clamp<int64_t>(kPlanes / channel(), 1,
                               ceil_div(in, channel_cuts_beside(panel_cuts.count)));
  }
};

/// One gradient of a weight.
class SlidingWeight {
 public:
  SlidingWeight(const Layout& layout, const ConvolutionData<float>& data)
      : l_(layout),
        d_(data),
        lease_(borrow_arena(static_cast<size_t>(l_.parts.count * l_.sums()) * sizeof(float) +
                            static_cast<size_t>(l_.offsets()) * sizeof(int32_t))),
        sums_(reinterpret_cast<float*>(lease_.data())),
        offsets_(reinterpret_cast<int32_t*>(sums_ + l_.parts.count * l_.sums())) {
    const Phases one{1, 1, l_.pitch(), l_.channel()};  // windows are read at their strides
    fill_offsets(l_.channel_cuts.largest(), l_.channel(), l_.y, l_.x, one, offsets_);
  }

  void run() const {
    const WorkerMemory memory(l_.planes() + l_.panel());
    parallel_for(l_.unit_count(), 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) run_unit(l_.unit(i), memory.of(worker));
    });
    finish();
  }

 private:
  void run_unit(const Unit& unit, float* memory) const {
    float *const planes = memory, *const panel = memory + l_.planes();
    float* const sums =
        sums_ + unit.part * l_.sums() + unit.channels.begin * l_.taps() * l_.width();
    for (int64_t i = unit.blocks.begin; i < unit.blocks.end; ++i) {
      const Block b = l_.block(i);
      pad_planes(b, unit.channels, planes);
      for (int64_t p = unit.panels.begin; p < unit.panels.end; ++p) {
        pack_panel(b, p, panel);
        run_tiles({.windows = planes,
                   .offsets = offsets_,
                   .images = b.images.size(),
                   .rows = b.rows.size(),
                   .columns = b.columns.size(),
                   .image_step = l_.plane(),
                   .row_step = l_.y.stride * l_.pitch(),
                   .column_step = l_.x.stride,
                   .y = panel,
                   .sums = sums + l_.channels_of(p).begin,
                   .stride = l_.width(),
                   .adds = i > unit.blocks.begin},
                  unit.channels.size() * l_.taps(), l_.panels[p].size());
      }
    }
  }

  void run_tiles(WeightSlide slide, int64_t taps, int64_t vectors) const {
    const EvenParts tiles(taps, l_.k.most_taps(vectors));
    for (int64_t t = 0; t < tiles.count; ++t) {
      const int64_t n = tiles[t].size();
      l_.k.weight_tile(slide, n, vectors);
      slide.offsets += n;
      slide.sums += n * slide.stride;
    }
  }

  /// The plane of x that a channel brings to an image; null outside.
  const float* windows(int64_t image, int64_t channel) const {
    const int64_t c = image / l_.z.made * (l_.in / l_.z.taps) + channel / l_.z.taps;
    return met_plane(d_.x + c * l_.z.read * l_.read(), l_.z, image % l_.z.made, channel % l_.z.taps,
                     l_.read());
  }

  /// What the windows of a block read.
  void pad_planes(const Block& b, Range channels, float* planes) const {
    const Reach rows = l_.y.reach(b.rows), columns = l_.x.reach(b.columns);
    for (int64_t c = channels.begin; c < channels.end; ++c, planes += l_.channel())
      for (int64_t i = 0; i < b.images.size(); ++i)
        pad_plane(l_.k, windows(b.images.begin + i, c), l_.x.read, rows, columns,
                  planes + i * l_.plane(), l_.pitch());
  }

  const float* pixels(int64_t image, int64_t channel) const {
    return d_.y +
           ((image / l_.z.made * l_.out + channel) * l_.z.made + image % l_.z.made) * l_.made();
  }

  void pack_panel(const Block& b, int64_t panel, float* to) const {
    const Range channels = l_.channels_of(panel);
    for (int64_t i = b.images.begin; i < b.images.end; ++i, to += b.pixels() * channels.size())
      for (int64_t c = channels.begin; c < channels.end; c += l_.k.lanes)
        l_.k.transpose(pixels(i, c) + b.rows.begin * l_.x.made + b.columns.begin,
                       l_.z.made * l_.made(), std::min(l_.k.lanes, l_.out - c), b.pixels(),
                       to + c - channels.begin, channels.size(), l_.k.lanes);
  }

  /// w [channel of y, channel and tap of x]: the parts' sum.
  void finish() const {
    constexpr int64_t kGrain = 8192;
    const int64_t n = l_.in * l_.taps(), lanes = l_.k.lanes;
    const int64_t grain = ceil_div(kGrain, l_.parts.count * lanes * l_.width());
    parallel_for(ceil_div(n, lanes), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin * lanes; i < std::min(n, end * lanes); i += lanes) {
        const int64_t rows = std::min(lanes, n - i);
        float* const sums = sums_ + i * l_.width();
        add_by_tree(sums, rows * l_.width(), l_.parts.count, l_.sums());
        l_.k.transpose(sums, l_.width(), rows, l_.out, d_.w + i, n, rows);
      }
    });
  }

  const Layout& l_;
  const ConvolutionData<float>& d_;
  ArenaLease lease_;
  float* sums_;
  int32_t* offsets_;
};

/// y's rows are to be long, or x's channels few, y's channels more than a vector; and there are to
/// be pixels enough to pay for the sums' transpose at the end, and windows for packing y. (As in
/// slide_avx512.cpp, 8 to 256 channels of 7 to 112 pixels a row: beside them 0.5 to 0.9.) In three
/// dims they are to be channels of x of which the library's blocks would be half empty. (One thread
/// of a Zen 4: 4 to 16 8, 8 to 8 5, 32 to 32 0.87. With stride 2, of 1 and 2 channels 1.1, and 2.5
/// with AVX2, of 3 0.9 to 1.1.)
bool pays(const Layout& l, const ConvolutionSpec& s) {
  constexpr int64_t kFewChannels = 16, kFewPixels = 8, kFewestPixels = 512, kFewWindows = 64,
                    kFirstChannels = 3;
  if (has_depth(s)) return l.k.waste(s.in) >= l.k.worthwhile_waste;
  if (2 * l.out <= l.k.lanes || s.images * product(s.output) < kFewestPixels) return false;
  if (l.x.stride > 1 && l.in >= kFirstChannels && l.in * l.taps() < kFewWindows) return false;
  const bool has_waste = l.k.waste(l.in) * l.k.waste(l.out) >= l.k.worthwhile_waste;
  return l.x.made >= (l.in <= kFewChannels || has_waste ? kFewPixels : l.k.weight_row);
}

}  // namespace

bool is_weight_sliding(const ConvolutionSpec& s) {
  if (slide_kernels() == nullptr || s.groups > 1) return false;
  const Layout l(*slide_kernels(), s);
  return pays(l, s) && l.planes() <= kMostPlanes;
}

void sum_sliding(const SlideKernels& kernels, const ConvolutionSpec& s,
                 const ConvolutionData<float>& data) {
  const Layout l(kernels, s);
  SlidingWeight(l, data).run();
}

}  // namespace tandem::machine
