#include "machine/windows/interleaved/interleaved_convolution.h"

#include <algorithm>
#include <span>

#include "machine/memory/arena.h"
#include "machine/memory/worker_memory.h"
#include "machine/parts.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/interleaved/interleaved_planes.h"

namespace tandem::machine {
namespace {

constexpr int64_t kLine = 16;    // elements
constexpr int64_t kDepth = 576;  // taps of channels whose weights are packed together, about
// Vectors of the result for which weights are packed, about, and what these read of all channels:
// the first stay in the nearest cache, the others in the next.
constexpr int64_t kSpots = 32, kNear = int64_t{5} << 16;

/// What lies where: [vector of images, channel, pixel, image], what is read as a whole, of the
/// result a tile of channels.
struct Layout {
  Layout(const SlideKernels& kernels, const ConvolutionSpec& spec, Sought sought)
      : k(kernels),
        s(spec),
        forward(sought == Sought::Output),
        in(forward ? s.in : s.out),
        out(forward ? s.out : s.in),
        made(product(forward ? s.output : s.input)),
        taps(product(s.kernel)),
        channels(in, std::max<int64_t>(1, kDepth / taps)),
        tiles(out, k.rows),
        planes{s.images, in, product(forward ? s.input : s.output), k.lanes},
        groups(planes.batches(),
               std::max<int64_t>(1, std::min(kSpots / made, kNear / planes.batch()))) {}

  /// Weights of a tile: as they are, [row, channel, tap] forward, [channel, row, tap] back.
  int64_t row_step() const { return forward ? round_up(channels.largest() * taps, kLine) : taps; }
  int64_t depth_step() const { return forward ? taps : tiles.largest() * taps; }
  int64_t panel() const {
    return forward ? tiles.largest() * row_step()
                   : round_up(channels.largest() * depth_step(), kLine);
  }
  int64_t sums() const { return tiles.largest() * made * k.lanes; }  // of a batch

  const SlideKernels& k;
  const ConvolutionSpec& s;
  bool forward;
  int64_t in, out, made, taps;
  EvenParts channels, tiles;
  InterleavedPlanes planes;  // that are read
  EvenParts groups;          // of vectors of images
};

class Interleaving {
 public:
  Interleaving(const Layout& layout, const ConvolutionData<float>& d)
      : l_(layout),
        visits_(l_.s, l_.k.lanes, !l_.forward),
        w_(d.w),
        bias_(d.bias),
        from_(l_.forward ? d.x : d.y),
        to_(l_.forward ? d.y : d.x),
        lease_(borrow_arena(static_cast<size_t>(l_.planes.size()) * sizeof(float))),
        pixels_(reinterpret_cast<float*>(lease_.data())) {}

  void run() const {
    l_.planes.fill(l_.k, from_, pixels_);
    const WorkerMemory memory(l_.panel() + l_.groups.largest() * l_.sums());
    const int64_t units = l_.tiles.count * l_.groups.count;
    parallel_for(units, units_for_a_thread(units, flops(l_.s)),
                 [&](int64_t begin, int64_t end, int worker) {
                   for (int64_t unit = begin; unit < end; ++unit)
                     run_tile(l_.tiles[unit % l_.tiles.count], l_.groups[unit / l_.tiles.count],
                              memory.of(worker));
                 });
  }

 private:
  void run_tile(Range rows, Range group, float* panel) const {
    float* const sums = panel + l_.panel();
    start(rows, group.size(), sums);
    for (int64_t block = 0; block < l_.channels.count; ++block) {
      const Range channels = l_.channels[block];
      pack(rows, channels, panel);
      Ahead ahead = after(rows, channels);
      for (int64_t b = group.begin; b < group.end; ++b)
        add_taps(rows, channels, panel,
                 pixels_ + b * l_.planes.batch() + channels.begin * l_.planes.channel(),
                 sums + (b - group.begin) * l_.sums(), ahead);
    }
    for (int64_t b = group.begin; b < group.end; ++b)
      separate(rows, b, sums + (b - group.begin) * l_.sums());
  }

  void start(Range rows, int64_t batches, float* sums) const {
    const int64_t channel = l_.made * l_.k.lanes;
    for (int64_t b = 0; b < batches; ++b)
      for (int64_t i = 0; i < rows.size(); ++i)
        std::fill_n(sums + b * l_.sums() + i * channel, channel,
                    bias_ != nullptr ? bias_[rows.begin + i] : 0.0f);
  }

  /// Of these rows from a channel on; behind the last, of the rows that follow.
  const float* weights(Range rows, int64_t channel) const {
    const int64_t row = channel < l_.in ? rows.begin : rows.end;
    channel %= l_.in;
    return w_ + (l_.forward ? row * l_.in + channel : channel * l_.out + row) * l_.taps;
  }

  void pack(Range rows, Range channels, float* to) const {
    const float* w = weights(rows, channels.begin);
    if (l_.forward)
      for (int64_t r = rows.begin; r < rows.end; ++r, w += l_.in * l_.taps, to += l_.row_step())
        std::copy_n(w, channels.size() * l_.taps, to);
    else
      for (int64_t c = channels.begin; c < channels.end; ++c, w += l_.out * l_.taps)
        to = std::copy_n(w, rows.size() * l_.taps, to) + (l_.depth_step() - rows.size() * l_.taps);
  }

  /// What is packed next, which tiles fetch meanwhile: each a row of weights forward, back a line
  /// of each channel's.
  struct Ahead {
    const float* next;
    int64_t row_step, step, rows;
    /// For the next tile; no further if nothing is left.
    const float* take() {
      if (rows == 0) return step = 0, next;
      --rows;
      const float* const row = next;
      next += row_step;
      return row;
    }
  };
  Ahead after(Range rows, Range channels) const {
    const float* const w = weights(rows, channels.end);
    if (l_.forward) return {w, l_.in * l_.taps, kLine, rows.size()};
    return {w, kLine, l_.out * l_.taps, ceil_div(rows.size() * l_.taps, kLine) + 1};
  }

  void add_taps(Range rows, Range channels, const float* panel, const float* pixels, float* sums,
                Ahead& ahead) const {
    TapSlide slide{.weights = panel,
                   .row_step = l_.row_step(),
                   .depth_step = l_.depth_step(),
                   .pixels = pixels,
                   .pixel_step = l_.planes.channel(),
                   .depth = channels.size(),
                   .visits = nullptr,
                   .sums = sums,
                   .sums_step = l_.made * l_.k.lanes,
                   .ahead = nullptr,
                   .ahead_step = 0};
    for (int64_t t = 0; t < l_.taps; ++t, ++slide.weights) {
      const std::span<const Visit> visits = visits_.of(t);
      slide.visits = visits.data();
      for (auto left = static_cast<int64_t>(visits.size()), n = int64_t{0}; left > 0;
           left -= n, slide.visits += n) {
        n = l_.k.vectors_of(left);
        slide.ahead = ahead.take();
        slide.ahead_step = ahead.step;
        l_.k.tap_tile(slide, rows.size(), n);
      }
    }
  }

  /// The images of a batch, one after the other again.
  void separate(Range rows, int64_t batch, const float* sums) const {
    const int64_t image = l_.out * l_.made;
    l_.k.transpose_all(sums, l_.k.lanes, rows.size() * l_.made, l_.planes.images_of(batch),
                       to_ + batch * l_.k.lanes * image + rows.begin * l_.made, image);
  }

  const Layout& l_;
  const Visits visits_;
  const float *w_, *bias_, *from_;
  float* to_;
  ArenaLease lease_;
  float* pixels_;
};

/// Where padding, which others multiply, is much of what windows cover, and images fill vectors.
/// (Two threads of a Xeon with AVX-512, 2026-11: how many times as fast as the library, or as a
/// product, are the output and the gradient of the input. 3 x 3 over 2 x 2, 64 to 512 channels, 16
/// to 64 images: 1.8 to 2.8, 1.5 to 2.6; over 4 x 4: 1.1 to 1.6, 1.0 to 1.4; 7 x 7: 0.9 to 1.2, 0.8
/// to 1.2; with stride 2 to 1 x 1, 2 x 2 and 4 x 4: 1.9 to 3.2, 1.6 to 3.0; 1.6 to 2.1, 1.4 to 2.1;
/// 1.1 to 1.6, 1.3 to 1.6; to 7 x 7: 0.6 to 1.0, 0.9 to 1.2. AVX2, 8 to 32 images: 2 x 2 1.4
/// to 2.6, 4 x 4 1.0 to 1.8, 7 x 7 1.0 to 1.3, with stride 2 1.5 to 2.9, 1.5 to 1.9, 1.0 to 1.4.
/// One tap: 0.4 to 2.)
bool pays(const Layout& l) {
  constexpr double kMost = 0.7, kMostOfStrides = 0.86;
  const double most = product(l.s.stride) > 1 ? kMostOfStrides : kMost;
  const auto images = static_cast<double>(l.s.images),
             lanes = static_cast<double>(round_up(l.s.images, l.k.lanes));
  return l.taps > 1 && l.planes.batch() <= kNear && l.planes.size() <= kMostInterleaved &&
         share_of_windows(l.s) * lanes <= most * images;
}

}  // namespace

bool can_interleave(const ConvolutionSpec& s, Sought sought) {
  return sought != Sought::Weight && s.groups == 1;
}

bool is_interleaved(const ConvolutionSpec& s, Sought sought) {
  return slide_kernels() != nullptr && can_interleave(s, sought) &&
         pays(Layout(*slide_kernels(), s, sought));
}

void convolve_interleaved(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought,
                          const ConvolutionData<float>& d) {
  const Layout l(kernels, s, sought);
  Interleaving(l, d).run();
}

}  // namespace tandem::machine
