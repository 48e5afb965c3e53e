// Planes with zeros around them, where windows reach beyond.
#ifndef TANDEM_MACHINE_WINDOWS_PADDED_PLANE_H
#define TANDEM_MACHINE_WINDOWS_PADDED_PLANE_H

#include <algorithm>
#include <cstdint>

#include "machine/parts.h"
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

/// One of the spatial dims of windows.
struct WindowDim {
  WindowDim(const ConvolutionSpec& s, size_t d)
      : taps(s.kernel[d]),
        dilation(s.dilation[d]),
        stride(s.stride[d]),
        padding(s.padding[d]),
        read(s.input[d]),
        made(s.output[d]) {}
  /// Pixels that `n` windows reach over.
  int64_t span(int64_t n) const { return (n - 1) * stride + (taps - 1) * dilation + 1; }
  Reach reach(Range windows) const {
    return {windows.begin * stride - padding, span(windows.size()), read};
  }
  /// What a tap of the n-th window meets; it may lie outside.
  int64_t met(int64_t n, int64_t tap) const { return n * stride - padding + tap * dilation; }
  bool has(int64_t at) const { return at >= 0 && at < read; }

  int64_t taps, dilation, stride, padding, read, made;
};

/// The same where windows are one pixel apart: how what is read makes what is written. The gradient
/// of an input is such a convolution too, its kernel turned round.
struct SlideDim {
  SlideDim(const ConvolutionSpec& s, Sought sought, size_t d)
      : taps(s.kernel[d]), dilation(s.dilation[d]) {
    const bool forward = sought == Sought::Output;
    read = forward ? s.input[d] : s.output[d];
    made = forward ? s.output[d] : s.input[d];
    padding = forward ? s.padding[d] : reach() - s.padding[d];
  }
  /// How far the last tap of a window is from the first.
  int64_t reach() const { return (taps - 1) * dilation; }

  int64_t taps, dilation, read, made, padding;
};

/// Of one dim of what windows are made of: channels, or taps along it.
struct Steps {
  int64_t count, size;
};

/// to [channel, tap, tap]: from where a window begins.
inline void fill_offsets(Steps channels, Steps rows, Steps columns, int32_t* to) {
  for (int64_t c = 0; c < channels.count; ++c)
    for (int64_t i = 0; i < rows.count; ++i)
      for (int64_t j = 0; j < columns.count; ++j)
        *to++ = static_cast<int32_t>(c * channels.size + i * rows.size + j * columns.size);
}

/// to: rows, `pitch` apart, of a plane whose own lie `stride` apart.
inline void pad_plane(const SlideKernels& k, const float* plane, int64_t stride, const Reach& rows,
                      const Reach& columns, float* to, int64_t pitch) {
  const float* const from = plane + rows.begin * stride + columns.begin;
  k.pad(from, stride, rows.before, columns.before, 0, columns.all, to, pitch);
  to += rows.before * pitch;
  k.pad(from, stride, rows.inside, columns.before, columns.inside, columns.all, to, pitch);
  to += rows.inside * pitch;
  k.pad(from, stride, rows.after(), columns.before, 0, columns.all, to, pitch);
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_PADDED_PLANE_H
