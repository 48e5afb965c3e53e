// The largest elements of windows and where they lie: the loops of each instruction set.
#ifndef TANDEM_MACHINE_WINDOWS_POOLING_MAXIMA_H
#define TANDEM_MACHINE_WINDOWS_POOLING_MAXIMA_H

#include <cstdint>

#include "machine/parts.h"

namespace tandem::machine {

/// What a window shows of a dim: elements begin, begin + step, ... below end.
struct Shown {
  int64_t begin, end, step;
  int64_t size() const { return end - begin; }
};

/// Windows of planes [depth, height, width].
struct PlaneWindows {
  struct Along {
    const Shown* windows;
    int64_t count;
  };

  int64_t height, width;
  /// Whether an integer as wide as an element tells each place in the plane.
  bool fits;
  Along deep, high, wide;
  /// How far windows of neighbouring columns lie apart, and the columns [begin, end) whose windows
  /// lie in the plane's width as a whole, where vectors can take them: each shows what the one
  /// before shows, so far on.
  int64_t stride, whole_begin, whole_end;
  /// What such a window shows of depth and height where it does not reach beyond them, and where
  /// its elements are, from the first one; `taps_along` of them lie in a row.
  int64_t whole_deep, whole_high;
  const int64_t* taps;
  int64_t tap_count, taps_along;
  /// Whether windows of neighbouring rows share so much that the maxima of each row's are found
  /// once. No window shows more of depth than one element then.
  bool by_rows;
};

/// Each window's largest element and its row-major place in the plane: the first of equals, the
/// last NaN. Either may be left out (nullptr).
template <class T>
struct Maxima {
  T* values;
  int64_t* places;
};

/// Those of the plane x in some rows of windows. `own` [own_elements] is for the kernel's use.
struct MaximaKernels {
  template <class T>
  using OfRows = void (*)(const PlaneWindows& s, Range rows, const T* x, Maxima<T> y, int64_t* own);
  OfRows<float> of_f32;
  OfRows<double> of_f64;
  OfRows<int64_t> of_i64;
};

/// Of rows a value and a place for each of their windows, as many rows as a window reaches over.
inline int64_t own_elements(const PlaneWindows& s) {
  return s.by_rows ? 2 * s.whole_high * s.wide.count : s.tap_count;
}

extern const MaximaKernels kMaximaBase, kMaximaAvx2, kMaximaAvx512;

/// Those of this processor.
const MaximaKernels& maxima_kernels();

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_POOLING_MAXIMA_H
