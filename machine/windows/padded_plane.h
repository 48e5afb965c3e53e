// Planes with zeros around them, where windows reach beyond.
#ifndef TANDEM_MACHINE_WINDOWS_PADDED_PLANE_H
#define TANDEM_MACHINE_WINDOWS_PADDED_PLANE_H

#include <algorithm>
#include <cstdint>
#include <utility>

#include "machine/parts.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// What windows reach over of a dim of `read` pixels, from `first` on: some that are outside, those
/// inside from `begin` on, and again some outside; `all` together.
struct Reach {
  Reach(int64_t first, int64_t size, int64_t read)
      : all(size),
        before(std::clamp<int64_t>(-first, 0, all)),
        inside(std::clamp<int64_t>(read - first, before, all) - before),
        begin(first + before) {}
  int64_t after() const { return all - before - inside; }

  int64_t all, before, inside, begin;
};

/// What is computed at once of a plane of the result: some of its rows, or a piece of a row.
struct Band {
  Range rows, columns;
};

/// One of the spatial dims of windows.
struct WindowDim {
  WindowDim(const ConvolutionSpec& s, size_t d)
      : taps(s.kernel[d]),
        dilation(s.dilation[d]),
        stride(s.stride[d]),
        padding(s.padding[d]),
        read(s.input[d]),
        made(s.output[d]) {}
  /// How what is read makes what is sought, where windows are one pixel apart: the gradient of an
  /// input is such a convolution too, its kernel turned round.
  WindowDim(const ConvolutionSpec& s, Sought sought, size_t d) : WindowDim(s, d) {
    if (sought == Sought::Output) return;
    padding = span(1) - 1 - padding;
    std::swap(read, made);
  }
  /// Pixels that `n` windows reach over.
  int64_t span(int64_t n) const { return (n - 1) * stride + (taps - 1) * dilation + 1; }
  Reach reach(Range windows) const {
    return {windows.begin * stride - padding, span(windows.size()), read};
  }
  /// What a tap of the n-th window meets; it may lie outside.
  int64_t met(int64_t n, int64_t tap) const { return n * stride - padding + tap * dilation; }

  int64_t taps, dilation, stride, padding, read, made;
};

/// The plane, of `pixels`, that a tap along the depth brings of a channel to the n-th plane of the
/// result; null outside.
inline const float* met_plane(const float* channel, const WindowDim& depth, int64_t n, int64_t tap,
                              int64_t pixels) {
  const int64_t at = depth.met(n, tap);
  return at >= 0 && at < depth.read ? channel + at * pixels : nullptr;
}

/// to: rows, `pitch` apart, of a plane whose own lie `stride` apart; zeros where there is none.
inline void pad_plane(const SlideKernels& k, const float* plane, int64_t stride, const Reach& rows,
                      const Reach& columns, float* to, int64_t pitch) {
  if (plane == nullptr) {
    for (int64_t row = 0; row < rows.all; ++row) std::fill_n(to + row * pitch, columns.all, 0.0F);
    return;
  }
  const float* const from = plane + rows.begin * stride + columns.begin;
  k.pad(from, stride, rows.before, columns.before, 0, columns.all, to, pitch);
  to += rows.before * pitch;
  k.pad(from, stride, rows.inside, columns.before, columns.inside, columns.all, to, pitch);
  to += rows.inside * pitch;
  k.pad(from, stride, rows.after(), columns.before, 0, columns.all, to, pitch);
}

/// Padded planes in which what strides bring into neighbouring windows lies side by side: of each
/// phase of the strides, of `size` elements, its rows. (Of strides of 1 that is the plane.)
struct Phases {
  int64_t rows, columns;  // strides
  int64_t pitch, size;

  /// Of what windows reach over.
  int64_t place(int64_t row, int64_t column) const {
    return (row % rows * columns + column % columns) * size + row / rows * pitch + column / columns;
  }
};

/// to [plane, tap, tap]: from where a window begins, over so many padded planes of `plane`
/// elements.
inline void fill_offsets(int64_t planes, int64_t plane, const WindowDim& y, const WindowDim& x,
                         const Phases& phases, int32_t* to) {
  for (int64_t c = 0; c < planes; ++c)
    for (int64_t i = 0; i < y.taps; ++i)
      for (int64_t j = 0; j < x.taps; ++j)
        *to++ = static_cast<int32_t>(c * plane + phases.place(i * y.dilation, j * x.dilation));
}

/// A row of all phases of its columns: whole steps of the stride are transposed, the first and the
/// last may be partly outside.
inline void spread_row(const SlideKernels& k, const float* row, const Reach& columns,
                       const Phases& p, float* to) {
  const int64_t n = p.columns, end = columns.before + columns.inside,
                first = std::min(ceil_div(columns.before, n), p.pitch),
                last = std::max(std::min(end / n, p.pitch), first);
  const float* const pixels = row + columns.begin - columns.before;  // of the first column
  const auto spread_one = [&](int64_t i) {
    for (int64_t c = 0; c < n; ++c) {
      const int64_t at = i * n + c;
      to[c * p.size + i] = at >= columns.before && at < end ? pixels[at] : 0.0F;
    }
  };
  for (int64_t i = 0; i < first; ++i) spread_one(i);
  k.transpose_all(pixels + first * n, n, last - first, n, to + first, p.size);
  for (int64_t i = last; i < p.pitch; ++i) spread_one(i);
}

/// What windows reach over of a plane of rows of `read` pixels; zeros where there is none.
inline void spread_plane(const SlideKernels& k, const float* plane, int64_t read, const Reach& rows,
                         const Reach& columns, const Phases& p, float* to) {
  const int64_t inside = plane != nullptr ? rows.inside : 0;
  constexpr int64_t kFarApart = 8;  // a vector of a phase takes more gathering than transposing
  if (p.columns >= kFarApart && p.rows == 1 && rows.all == 1 && inside == 1)
    return spread_row(k, plane + rows.begin * read, columns, p, to);
  for (int64_t phase = 0; phase < p.rows * p.columns; ++phase, to += p.size) {
    const int64_t row = phase / p.columns, column = phase % p.columns;
    const auto of_phase = [](int64_t before, int64_t first, int64_t stride) {
      return std::max<int64_t>(ceil_div(before - first, stride), 0);
    };
    const int64_t all = of_phase(rows.all, row, p.rows),
                  begin = std::min(of_phase(rows.before, row, p.rows), all),
                  end = std::min(of_phase(rows.before + inside, row, p.rows), all);
    std::fill_n(to, begin * p.pitch, 0.0F);
    if (begin < end)
      k.spread(plane + (rows.begin - rows.before + row + begin * p.rows) * read + columns.begin -
                   columns.before + column,
               p.rows * read, p.columns, end - begin, of_phase(columns.before, column, p.columns),
               of_phase(columns.before + columns.inside, column, p.columns), to + begin * p.pitch,
               p.pitch);
    std::fill(to + end * p.pitch, to + all * p.pitch, 0.0F);
  }
}

/// f(channel, plane of its result, band of that plane, worker), by the threads that pay.
template <class F>
void for_each_band(int64_t channels, int64_t planes, int64_t bands, double flops, F f) {
  const int64_t units = channels * planes * bands;
  parallel_for(units, units_for_a_thread(units, flops),
               [&](int64_t begin, int64_t end, int worker) {
                 for (int64_t unit = begin; unit < end; ++unit)
                   f(unit / bands / planes, unit / bands % planes, unit % bands, worker);
               });
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_PADDED_PLANE_H
