// Tiles of convolutions whose windows slide over padded planes. The result, and the gradient of the
// input, are sums of shifted rows of pixels, each times a weight: some channels by some vectors of
// pixels are summed in registers. The gradient of a weight sums over pixels: some taps by some
// vectors of channels are. Where planes are small, images are interleaved instead, and one tap is
// summed by itself, at the pixels that it meets.
#ifndef TANDEM_MACHINE_WINDOWS_SLIDE_KERNELS_H
#define TANDEM_MACHINE_WINDOWS_SLIDE_KERNELS_H

#include <cstdint>

#include "machine/rounding.h"

namespace tandem::machine {

/// A vector of pixels: where their windows begin in the padded plane, where the first of them that
/// is wanted goes in a plane of the result, and which are (a bit each; those in between, where
/// windows reach from one row to the next, are not).
struct Spot {
  int64_t from, to;
  uint32_t lanes;
};

/// c [rows, pixels of the spots] = bias + weights * windows, or += weights * windows.
struct Slide {
  const float* weights;    // [depth, SlideKernels::rows]
  const float* windows;    // the first padded plane
  const int32_t* offsets;  // [depth], from where a window begins
  int64_t depth;
  const Spot* spots;
  float* c;
  int64_t c_stride;   // of its rows
  const float* bias;  // [rows], or null; not where it adds
  bool adds;
};

/// sums [taps, vectors of channels] = windows [taps, pixels] * y [pixels, vectors of channels], or
/// += that. Steps are in elements of the padded planes.
struct WeightSlide {
  const float* windows;
  const int32_t* offsets;  // [taps], of the window of the first pixel
  int64_t images, rows, columns;
  int64_t image_step, row_step, column_step;
  const float* y;
  float* sums;
  int64_t stride;  // of their rows
  bool adds;
};

/// sums [channels of y, taps, lanes] = y [channels, pixels] * windows [taps, pixels], or += that,
/// each pixel in the lane of its place in a vector of its row. What neighbours of a row read lies
/// side by side.
struct PlaneWeightSlide {
  const float* windows;
  const int32_t* offsets;  // [taps], of the window of the first pixel
  int64_t rows, columns, row_step;
  const float* y;
  int64_t y_channel;  // between them
  float* sums;
  int64_t stride;  // of their channels
  bool adds;
};

/// c [rows, columns] = bias + weights * windows, of a channel by itself. A row that is read is
/// multiplied at once for all rows of c that it belongs to.
struct RowSlide {
  const float* windows;        // of the first pixel
  int64_t depth, plane_step;   // planes, and from one to the next
  int64_t row_taps, row_step;  // rows of taps, and from one to the next
  int64_t taps, tap_step;      // of such a row
  const float* weights;        // [depth, row, tap]
  int64_t weight_step;         // between them
  const float* bias;           // one, or null
  float* c;
  int64_t columns, c_stride;  // of its rows
};

/// sums [windows, lanes] = bias + weights * windows, of a vector of channels each by itself, which
/// lie side by side.
struct ChannelSlide {
  const float* windows;
  int64_t window_step;
  const int32_t* offsets;  // [taps], from where a window begins
  int64_t taps;
  const float* weights;  // [taps, lanes]
  const float* bias;     // [lanes]
  float* sums;
};

/// What a tap brings from one pixel to another: where these begin, each a vector of images.
struct Visit {
  int64_t from, to;
};

/// sums [rows, visits] += weights [rows, depth] * pixels [depth, visits].
struct TapSlide {
  const float* weights;
  int64_t row_step, depth_step;
  const float* pixels;
  int64_t pixel_step;  // of the depth
  int64_t depth;
  const Visit* visits;
  float* sums;
  int64_t sums_step;   // of the rows
  const float* ahead;  // what is read later: a line is fetched in each step of the depth
  int64_t ahead_step;
};

/// sums [channels, vectors of channels of y] = pixels [channels, visited images] * y [visited
/// images, vectors of channels], or += that. A pixel's images lie side by side, in y with their
/// channels.
struct TapWeightSlide {
  const float* pixels;
  int64_t pixel_step;  // of the channels
  const float* y;
  const Visit* visits;  // from pixels to those of y
  int64_t visit_count, images;
  float* sums;
  int64_t stride;  // of their rows
  bool adds;
};

/// Of one instruction set: tiles of at most so many rows and vectors of so many pixels.
struct SlideKernels {
  int64_t rows, vectors, lanes;
  /// From so many pixels on in rows of the result sliding beats the library; or where these are
  /// whole vectors.
  int64_t long_row, long_whole_row;
  /// So it does where the library would compute so many times as much as is asked of it.
  double worthwhile_waste;
  /// Where a group is one channel, and so is its result.
  int64_t depthwise_row;
  /// So does a weight's gradient from so many pixels on in rows of y.
  int64_t weight_row;
  void (*tile)(const Slide& slide, int64_t rows, int64_t vectors);
  void (*row_tile)(const RowSlide& slide, int64_t rows, int64_t vectors);
  /// At most so many.
  int64_t row_tile_rows, row_tile_vectors;
  /// Of at most so many windows.
  void (*channel_tile)(const ChannelSlide& slide, int64_t windows);
  int64_t channel_tile_windows;
  void (*tap_tile)(const TapSlide& slide, int64_t rows, int64_t vectors);
  /// The vectors of a weight's tile, at most, and its taps, or channels, where it has so many.
  int64_t weight_vectors;
  int64_t (*most_taps)(int64_t vectors);
  void (*weight_tile)(const WeightSlide& slide, int64_t taps, int64_t vectors);
  /// Of at most `rows` taps and `vectors` channels of y.
  void (*plane_weight_tile)(const PlaneWeightSlide& slide, int64_t taps, int64_t channels);
  static constexpr bool has_squares_of(int64_t taps) { return taps == 3 || taps == 5 || taps == 7; }
  /// Of as many taps in each row as there are rows, one pixel apart, and one channel of y. The
  /// windows' rows begin lines; offsets are not read.
  void (*square_weight_tile)(const PlaneWeightSlide& slide, int64_t taps);
  void (*tap_weight_tile)(const TapWeightSlide& slide, int64_t channels, int64_t vectors);
  /// Rows of a padded plane, `pitch` apart: `padding` zeros, `n` pixels, which in `from` lie
  /// `stride` apart, and zeros up to `size`. The last vector may reach beyond.
  void (*pad)(const float* from, int64_t stride, int64_t rows, int64_t padding, int64_t n,
              int64_t size, float* to, int64_t pitch);
  /// Rows [pitch] whose places [begin, end) are what lies `step` apart in rows of `from`, `stride`
  /// apart; the others are zeros. The last vector may reach beyond.
  void (*spread)(const float* from, int64_t stride, int64_t step, int64_t rows, int64_t begin,
                 int64_t end, float* to, int64_t pitch);
  /// to [SlideKernels::rows]: `n` weights, `stride` apart; a vector is written.
  void (*pack)(const float* from, int64_t stride, int64_t n, float* to);
  /// to [n, ...] = the transpose of from [rows, n], of no more rows than a vector has lanes;
  /// `written` lanes of each are written, zeros beyond `rows`.
  void (*transpose)(const float* from, int64_t stride, int64_t rows, int64_t n, float* to,
                    int64_t step, int64_t written);

  /// to [n, step] = the transpose of from [rows, n], of any number of rows.
  void transpose_all(const float* from, int64_t stride, int64_t rows, int64_t n, float* to,
                     int64_t step) const {
    for (int64_t i = 0; i < rows; i += lanes) {
      const int64_t some = rows - i < lanes ? rows - i : lanes;
      transpose(from + i * stride, stride, some, n, to + i, step, some);
    }
  }

  /// How many times as many channels the library computes, whose blocks are vectors of them.
  double waste(int64_t channels) const {
    return static_cast<double>(round_up(channels, lanes)) / static_cast<double>(channels);
  }

  /// Of the next tile, where so many are left. One by itself would keep the FMA units half busy.
  int64_t vectors_of(int64_t left) const {
    if (vectors > 2 && left == vectors + 1) return vectors - 1;
    return left < vectors ? left : vectors;
  }
};

extern const SlideKernels kSlideAvx2, kSlideAvx512;

/// Those of this processor; null if it has no AVX2.
const SlideKernels* slide_kernels();

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_SLIDE_KERNELS_H
