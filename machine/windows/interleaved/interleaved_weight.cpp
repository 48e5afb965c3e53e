#include "machine/windows/interleaved/interleaved_weight.h"

#include <algorithm>

#include "machine/memory/arena.h"
#include "machine/memory/worker_memory.h"
#include "machine/parts.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/interleaved/interleaved_planes.h"

namespace tandem::machine {
namespace {

constexpr int64_t kDepth = 432;   // taps of channels of x that are summed at once, about
constexpr int64_t kUnits = 32;    // which threads share, at least, if there are as many channels
constexpr int64_t kGrain = 8192;  // elements, too

/// What lies where. x is interleaved; of y, panels of some vectors of channels are [vector of
/// images, pixel, image, channel]. Some channels of x and a panel of y are summed at once, in
/// [channel of x, tap, channel of y].
struct Layout {
  Layout(const SlideKernels& kernels, const ConvolutionSpec& spec)
      : k(kernels),
        s(spec),
        taps(product(s.kernel)),
        made(product(s.output)),
        planes{s.images, s.in, product(s.input), k.lanes},
        panels(ceil_div(s.out, k.lanes), k.weight_vectors),
        channels(s.in,
                 std::clamp<int64_t>(kDepth / taps, 1,
                                     std::max(k.rows, ceil_div(s.in * panels.count, kUnits)))) {}

  /// The channels of y of a panel, and those that are not there, up to whole vectors.
  Range channels_of(int64_t panel) const { return panels[panel].times(k.lanes); }
  /// Elements of y's panels for each of its channels.
  int64_t images() const { return planes.batches() * made * k.lanes; }
  int64_t y() const { return round_up(s.out, k.lanes) * images(); }
  int64_t sums() const { return channels.largest() * taps * k.weight_vectors * k.lanes; }

  const SlideKernels& k;
  const ConvolutionSpec& s;
  int64_t taps, made;
  InterleavedPlanes planes;
  EvenParts panels, channels;
};

class InterleavedWeight {
 public:
  InterleavedWeight(const Layout& layout, const ConvolutionData<float>& d)
      : l_(layout),
        d_(d),
        visits_(l_.s, l_.k.lanes, false),
        lease_(borrow_arena(static_cast<size_t>(l_.planes.size() + l_.y()) * sizeof(float))),
        pixels_(reinterpret_cast<float*>(lease_.data())),
        y_(pixels_ + l_.planes.size()) {}

  void run() const {
    l_.planes.fill(l_.k, d_.x, pixels_);
    pack_y();
    const WorkerMemory memory(l_.sums());
    const int64_t units = l_.panels.count * l_.channels.count;
    parallel_for(
        units, units_for_a_thread(units, flops(l_.s)), [&](int64_t begin, int64_t end, int worker) {
          for (int64_t i = begin; i < end; ++i)
            sum(i / l_.channels.count, l_.channels[i % l_.channels.count], memory.of(worker));
        });
  }

 private:
  const float* panel_of(int64_t panel) const {
    return y_ + l_.channels_of(panel).begin * l_.images();
  }

  void pack_y() const {
    const int64_t lanes = l_.k.lanes, grain = kGrain / (l_.made * l_.s.out) + 1;
    parallel_for(l_.s.images, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t image = begin; image < end; ++image)
        for (int64_t p = 0; p < l_.panels.count; ++p) {
          const Range channels = l_.channels_of(p);
          const int64_t width = channels.size();
          float* const to = y_ + channels.begin * l_.images() +
                            (image / lanes * l_.made * lanes + image % lanes) * width;
          for (int64_t c = channels.begin; c < channels.end; c += lanes)
            l_.k.transpose(d_.y + (image * l_.s.out + c) * l_.made, l_.made,
                           std::min(lanes, l_.s.out - c), l_.made, to + c - channels.begin,
                           lanes * width, lanes);
        }
    });
  }

  void sum(int64_t panel, Range channels, float* sums) const {
    const int64_t width = l_.channels_of(panel).size();
    for (int64_t b = 0; b < l_.planes.batches(); ++b) {
      TapWeightSlide slide{
          .pixels = pixels_ + b * l_.planes.batch() + channels.begin * l_.planes.channel(),
          .pixel_step = l_.planes.channel(),
          .y = panel_of(panel) + b * l_.made * l_.k.lanes * width,
          .visits = nullptr,
          .visit_count = 0,
          .images = l_.planes.images_of(b),
          .sums = sums,
          .stride = l_.taps * width,
          .adds = b > 0};
      run_tiles(slide, channels.size(), width / l_.k.lanes);
    }
    store(l_.channels_of(panel), channels, sums);
  }

  void run_tiles(TapWeightSlide slide, int64_t channels, int64_t vectors) const {
    const EvenParts tiles(channels, l_.k.most_taps(vectors));
    for (int64_t i = 0; i < tiles.count; ++i) {
      const int64_t n = tiles[i].size();
      for (int64_t t = 0; t < l_.taps; ++t) {
        slide.visits = visits_.of(t).data();
        slide.visit_count = static_cast<int64_t>(visits_.of(t).size());
        l_.k.tap_weight_tile(slide, n, vectors);
        slide.sums += vectors * l_.k.lanes;
      }
      slide.sums += (n - 1) * slide.stride;
      slide.pixels += n * slide.pixel_step;
    }
  }

  /// w [channel of y, channel of x, tap].
  void store(Range out, Range in, const float* sums) const {
    const int64_t row = l_.s.in * l_.taps;
    l_.k.transpose_all(sums, out.size(), in.size() * l_.taps,
                       std::min(out.end, l_.s.out) - out.begin,
                       d_.w + out.begin * row + in.begin * l_.taps, row);
  }

  const Layout& l_;
  const ConvolutionData<float>& d_;
  const Visits visits_;
  ArenaLease lease_;
  float *pixels_, *y_;
};

/// Planes are to be small, or channels many beside them. Few images still pay where windows cover
/// padding; where they do not, a product of few places of the output and many channels is faster.
/// (Two threads of a Xeon with AVX-512, 2026-11: how many times as fast as all else, 16 and 64
/// images of 32 to 512 channels. 3 x 3 over 2 x 2: 1.3 to 4.8; 4 x 4 1.4 to 2.3; 7 x 7 1.0 to 1.5;
/// 8 x 8 1.0 to 1.6; 14 x 14, 64 channels 0.9, 128 0.9 to 1.1, 256 1.1 to 1.2; with stride 2 to 1 x
/// 1 up to 7 x 7: 1.1 to 3.0; one tap, from 1 x 1 to 7 x 7: 1.0 to 2.4, with stride 2 1.3 to 3.0. 3
/// to 64 and 16 to 16 channels: 0.8 to 2.5. AVX2, 8 to 32 images: 1.1 to 7.)
bool pays(const Layout& l) {
  constexpr int64_t kFewPixels = 64, kMorePixels = 200, kManyChannels = 256, kFewestChannels = 8,
                    kFewestWeights = 512;
  constexpr double kMuchPadding = 0.7, kSomePadding = 0.85;
  if (l.made > (l.s.in < kManyChannels ? kFewPixels : kMorePixels)) return false;
  if (l.s.in < kFewestChannels || l.s.in * l.s.out < kFewestWeights) return false;
  const double share = share_of_windows(l.s);
  if (l.s.images < (share <= kSomePadding ? l.k.lanes / 2 : l.k.lanes)) return false;
  const int64_t places = l.s.images * l.made;
  return share <= kMuchPadding || l.s.out < places * (l.taps > 1 ? 4 : 2);
}

}  // namespace

bool can_sum_interleaved(const ConvolutionSpec& s) { return s.groups == 1; }

bool is_weight_interleaved(const ConvolutionSpec& s) {
  if (slide_kernels() == nullptr || !can_sum_interleaved(s)) return false;
  const Layout l(*slide_kernels(), s);
  return pays(l) && l.planes.size() + l.y() <= kMostInterleaved;
}

void sum_interleaved(const SlideKernels& kernels, const ConvolutionSpec& s,
                     const ConvolutionData<float>& data) {
  const Layout l(kernels, s);
  InterleavedWeight(l, data).run();
}

}  // namespace tandem::machine
