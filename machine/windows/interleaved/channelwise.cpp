#include "machine/windows/interleaved/channelwise.h"

#include <algorithm>

#include "machine/memory/arena.h"
#include "machine/memory/worker_memory.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/padded_plane.h"
#include "machine/windows/sliding_convolution.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

// Floats of the padded planes of a band, about, and at most.
constexpr int64_t kBand = int64_t{1} << 15, kMostBand = int64_t{1} << 18;

/// What lies where. Bands of planes of the result, of a vector of channels, are computed from
/// padded planes [plane, row, column, channel].
struct Layout {
  Layout(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought)
      : k(kernels),
        forward(sought == Sought::Output),
        images(s.images),
        channels(s.groups),
        z(s, sought, 0),
        y(s, sought, 1),
        x(s, sought, 2),
        vectors(ceil_div(channels, k.lanes)),
        bands(z.made, planes_of_bands()) {}

  int64_t taps() const { return z.taps * y.taps * x.taps; }
  int64_t row() const { return x.span(x.made) * k.lanes; }
  int64_t plane() const { return y.span(y.made) * row(); }
  int64_t windows() const { return z.span(bands.largest()) * plane(); }
  int64_t made_plane() const { return y.made * x.made; }
  int64_t sums() const { return bands.largest() * made_plane() * k.lanes; }
  int64_t read() const { return z.read * y.read * x.read; }  // of a channel
  Range channels_of(int64_t vector) const {
    return {vector * k.lanes, std::min(channels, (vector + 1) * k.lanes)};
  }

  const SlideKernels& k;
  bool forward;
  int64_t images, channels;
  WindowDim z, y, x;
  int64_t vectors;
  EvenParts bands;

 private:
  int64_t planes_of_bands() const {
    return std::clamp<int64_t>((kBand / plane() - z.span(1)) / z.stride + 1, 1, z.made);
  }
};

class Channelwise {
 public:
  Channelwise(const Layout& layout, const ConvolutionData<float>& d)
      : l_(layout),
        d_(d),
        lease_(borrow_arena(static_cast<size_t>(l_.vectors * vector_weights()) * sizeof(float) +
                            static_cast<size_t>(l_.taps()) * sizeof(int32_t))),
        weights_(reinterpret_cast<float*>(lease_.data())),
        offsets_(reinterpret_cast<int32_t*>(weights_ + l_.vectors * vector_weights())) {
    fill_weights();
    fill_offsets();
  }

  void run(double flops) const {
    const WorkerMemory memory(l_.windows() + l_.sums());
    for_each_band(l_.images, l_.vectors, l_.bands.count, flops,
                  [&](int64_t image, int64_t vector, int64_t band, int worker) {
                    run_band(image, vector, l_.bands[band], memory.of(worker));
                  });
  }

 private:
  /// The bias of each channel, and the weights of each tap.
  int64_t vector_weights() const { return (1 + l_.taps()) * l_.k.lanes; }

  void fill_weights() const {
    for (int64_t vector = 0; vector < l_.vectors; ++vector) {
      const Range channels = l_.channels_of(vector);
      float* const bias = weights_ + vector * vector_weights();
      std::fill_n(bias, l_.k.lanes, 0.0F);
      if (d_.bias != nullptr) std::copy_n(d_.bias + channels.begin, channels.size(), bias);
      l_.k.transpose(d_.w + channels.begin * l_.taps(), l_.taps(), channels.size(), l_.taps(),
                     bias + l_.k.lanes, l_.k.lanes, l_.k.lanes);
    }
  }

  /// (The gradient of an input takes the weights from the last to the first.)
  void fill_offsets() const {
    int64_t n = 0;
    for (int64_t i = 0; i < l_.z.taps; ++i)
      for (int64_t j = 0; j < l_.y.taps; ++j)
        for (int64_t t = 0; t < l_.x.taps; ++t, ++n)
          offsets_[l_.forward ? n : l_.taps() - 1 - n] =
              static_cast<int32_t>(i * l_.z.dilation * l_.plane() + j * l_.y.dilation * l_.row() +
                                   t * l_.x.dilation * l_.k.lanes);
  }

  void run_band(int64_t image, int64_t vector, Range planes, float* windows) const {
    const Range channels = l_.channels_of(vector);
    const int64_t first = image * l_.channels + channels.begin, pixels = l_.made_plane(),
                  made = l_.z.made * pixels;
    float *const sums = windows + l_.windows(), *sum = sums;
    pad((l_.forward ? d_.x : d_.y) + first * l_.read(), channels.size(), planes, windows);
    for (int64_t i = 0; i < planes.size(); ++i)
      for (int64_t j = 0; j < l_.y.made; ++j, sum += l_.x.made * l_.k.lanes)
        run_row(windows + i * l_.z.stride * l_.plane() + j * l_.y.stride * l_.row(), vector, sum);
    l_.k.transpose_all(sums, l_.k.lanes, planes.size() * pixels, channels.size(),
                       (l_.forward ? d_.y : d_.x) + first * made + planes.begin * pixels, made);
  }

  /// What the windows of some planes reach over: rows brought from `channels` planes.
  void pad(const float* from, int64_t channels, Range planes, float* to) const {
    const Reach deep = l_.z.reach(planes), high = l_.y.reach({0, l_.y.made}),
                wide = l_.x.reach({0, l_.x.made});
    const int64_t lanes = l_.k.lanes, row = l_.row(), pixels = l_.y.read * l_.x.read;
    to = std::fill_n(to, deep.before * l_.plane(), 0.0F);
    for (int64_t i = 0; i < deep.inside; ++i) {
      to = std::fill_n(to, high.before * row, 0.0F);
      for (int64_t j = 0; j < high.inside; ++j) {
        to = std::fill_n(to, wide.before * lanes, 0.0F);
        l_.k.transpose(from + (deep.begin + i) * pixels + (high.begin + j) * l_.x.read + wide.begin,
                       l_.read(), channels, wide.inside, to, lanes, lanes);
        to = std::fill_n(to + wide.inside * lanes, wide.after() * lanes, 0.0F);
      }
      to = std::fill_n(to, high.after() * row, 0.0F);
    }
    std::fill_n(to, deep.after() * l_.plane(), 0.0F);
  }

  void run_row(const float* windows, int64_t vector, float* sums) const {
    const float* const bias = weights_ + vector * vector_weights();
    const int64_t step = l_.x.stride * l_.k.lanes;
    const EvenParts tiles(l_.x.made, l_.k.channel_tile_windows);
    for (int64_t i = 0; i < tiles.count; ++i) {
      const Range tile = tiles[i];
      l_.k.channel_tile({.windows = windows + tile.begin * step,
                         .window_step = step,
                         .offsets = offsets_,
                         .taps = l_.taps(),
                         .weights = bias + l_.k.lanes,
                         .bias = bias,
                         .sums = sums + tile.begin * l_.k.lanes},
                        tile.size());
    }
  }

  const Layout& l_;
  const ConvolutionData<float>& d_;
  ArenaLease lease_;
  float* weights_;
  int32_t* offsets_;
};

/// In three dims the library loops. Half of the lanes or more are to be used. (One thread of a Zen
/// 4, how many times as fast as all else, AVX-512 and AVX2, 64 channels, 3 x 3 x 3: with stride 2,
/// 7 x 7 x 7 7, 6, 16 x 16 x 16 2.6, 3.0, 32 x 32 x 32 1.3, 1.6; with stride 1, 4 x 4 x 4 8, 5, 7 x
/// 7 x 7 4.3, 2.6, 8 x 14 x 14 1.3, 1.6, 16 x 16 x 16 1.1, 1.3, 32 x 32 x 32 0.7, 0.9.)
bool pays(const Layout& l, const ConvolutionSpec& s) {
  constexpr double kMostWaste = 2;
  constexpr int64_t kLongRow = 32;
  return has_depth(s) && (has_strides(s) || l.x.made < kLongRow) &&
         l.k.waste(l.channels) <= kMostWaste;
}

}  // namespace

bool can_be_channelwise(const ConvolutionSpec& s, Sought sought) {
  return can_slide(s, sought) && s.in == s.groups && s.out == s.groups;
}

bool is_channelwise(const ConvolutionSpec& s, Sought sought) {
  if (slide_kernels() == nullptr || !can_be_channelwise(s, sought)) return false;
  const Layout l(*slide_kernels(), s, sought);
  return pays(l, s) && l.windows() <= kMostBand;
}

void convolve_channelwise(const SlideKernels& kernels, const ConvolutionSpec& s, Sought sought,
                          const ConvolutionData<float>& d) {
  const Layout l(kernels, s, sought);
  Channelwise(l, d).run(flops(s));
}

}  // namespace tandem::machine
