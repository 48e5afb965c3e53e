#include "machine/windows/pooling/pooling.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "machine/cpu.h"
#include "machine/memory/arena.h"
#include "machine/parts.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/pooling/maxima.h"

namespace tandem::machine {
namespace {

/// How far a window of a dim reaches; 0 if it is adaptive.
int64_t span_of(const WindowSpec& s, size_t d) {
  return s.window[d] == 0 ? 0 : (s.window[d] - 1) * s.dilation[d] + 1;
}

Shown window_at(const WindowSpec& s, size_t d, int64_t i) {
  if (s.window[d] == 0)
    return {i * s.input[d] / s.output[d], ((i + 1) * s.input[d] + s.output[d] - 1) / s.output[d],
            1};
  const int64_t start = i * s.stride[d] - s.padding[d], step = s.dilation[d];
  const int64_t begin = start < 0 ? start + (step - 1 - start) / step * step : start;
  return {begin, std::min(start + span_of(s, d), s.input[d]), step};
}

/// The windows along a dim.
std::vector<Shown> windows(const WindowSpec& s, size_t d) {
  std::vector<Shown> out;
  for (int64_t i = 0; i < s.output[d]; ++i) out.push_back(window_at(s, d, i));
  return out;
}

int64_t rows_of_windows(const WindowSpec& s) { return s.output[0] * s.output[1]; }

/// Calls f(row of the output, row of the input) for some rows of the output and each that their
/// windows show; begin(row) before and end(row) after.
template <class Begin, class F, class End>
void for_each_row(const WindowSpec& s, Range rows, Begin begin, F f, End end) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const Shown deep = window_at(s, 0, row / s.output[1]),
                high = window_at(s, 1, row % s.output[1]);
    begin(row);
    for (int64_t p = deep.begin; p < deep.end; p += deep.step)
      for (int64_t q = high.begin; q < high.end; q += high.step) f(row, p * s.input[1] + q);
    end(row);
  }
}

/// Fewer elements are not worth a thread.
constexpr int64_t kGrain = 16384;

/// Calls f(plane, rows of its windows, `each` elements for the thread's own use) for all planes, by
/// at most `bands` bands of rows.
template <class T, class F>
void for_each_band(const WindowSpec& s, int64_t bands, int64_t each, F f) {
  const EvenParts rows(rows_of_windows(s),
                       std::max<int64_t>(ceil_div(rows_of_windows(s), bands), 1));
  const int64_t pixels =
      (product(s.input) + product(s.output)) / std::max<int64_t>(rows.count, 1) + 1;
  const size_t own = static_cast<size_t>(each) + 64 / sizeof(T);
  const ArenaLease memory = borrow_arena(own * sizeof(T) * static_cast<size_t>(num_threads()));
  T* const first = reinterpret_cast<T*>(memory.data());
  parallel_for(
      s.planes * rows.count, kGrain / pixels + 1, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t i = begin; i < end; ++i)
          f(i / rows.count, rows[i % rows.count], first + static_cast<size_t>(worker) * own);
      });
}

/// As many as leave threads something to do where planes are few, and rows enough that little is
/// read of others'.
int64_t bands_of(const WindowSpec& s) {
  constexpr int64_t kBand = 4 * kGrain;
  const int64_t shared = s.window[1] == 0 ? 1 : span_of(s, 1);
  return std::clamp<int64_t>((product(s.input) + product(s.output)) / kBand, 1,
                             std::max<int64_t>(rows_of_windows(s) / (4 * shared), 1));
}

template <class T>
void add_row(T* __restrict to, const T* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

template <class T>
void sum_rows(const WindowSpec& s, Range rows, const std::vector<Shown>& columns, const T* x, T* y,
              T* sums) {
  const int64_t width = s.input[2];
  for_each_row(
      s, rows, [&](int64_t) { std::fill_n(sums, width, T(0)); },
      [&](int64_t, int64_t from) { add_row(sums, x + from * width, width); },
      [&](int64_t row) {
        T* out = y + row * s.output[2];
        for (const Shown& c : columns) {
          T sum(0);
          for (int64_t i = c.begin; i < c.end; ++i) sum += sums[i];
          *out++ = sum;
        }
      });
}

template <class T>
void spread_plane(const WindowSpec& s, const std::vector<Shown>& columns, const T* y, T* x,
                  T* sums) {
  const int64_t width = s.input[2];
  std::fill_n(x, product(s.input), T(0));
  for_each_row(
      s, {0, rows_of_windows(s)},
      [&](int64_t row) {
        std::fill_n(sums, width, T(0));
        const T* in = y + row * s.output[2];
        for (const Shown& c : columns) {
          for (int64_t i = c.begin; i < c.end; ++i) sums[i] += *in;
          ++in;
        }
      },
      [&](int64_t, int64_t to) { add_row(x + to * width, sums, width); }, [](int64_t) {});
}

/// Whether an integer as wide as T tells each place in a plane.
template <class T>
bool fits(const WindowSpec& s) {
  return sizeof(T) == sizeof(int64_t) || product(s.input) <= std::numeric_limits<int32_t>::max();
}

/// The columns [begin, end) whose windows lie in the input as a whole.
std::pair<int64_t, int64_t> whole_columns(const WindowSpec& s) {
  if (s.window[2] == 0) return {0, 0};
  const int64_t begin = (s.padding[2] + s.stride[2] - 1) / s.stride[2];
  const int64_t last = s.input[2] - span_of(s, 2) + s.padding[2];
  const int64_t end = last < 0 ? 0 : std::min(last / s.stride[2] + 1, s.output[2]);
  return end <= begin ? std::pair<int64_t, int64_t>{0, 0} : std::pair{begin, end};
}

/// Where a window's elements are from its first one; of none that are adaptive.
std::vector<int64_t> taps_of(const WindowSpec& s) {
  std::vector<int64_t> out;
  for (int64_t p = 0; p < s.window[0]; ++p)
    for (int64_t q = 0; q < s.window[1]; ++q)
      for (int64_t i = 0; i < s.window[2]; ++i)
        out.push_back((p * s.dilation[0] * s.input[1] + q * s.dilation[1]) * s.input[2] +
                      i * s.dilation[2]);
  return out;
}

constexpr int64_t kFewestColumns = 8;  // fill the narrowest vectors

/// Whether it takes fewer comparisons to find the maxima of each row's windows first.
template <class T>
bool by_rows(const WindowSpec& s) {
  const bool flat = s.window[0] == 1 && s.window[1] > 0 && s.window[2] > 0;
  if (!flat || !fits<T>(s) || s.output[2] < kFewestColumns) return false;
  return s.window[2] * s.stride[1] + s.window[1] < s.window[2] * s.window[1];
}

template <class T>
Maxima<T> at(Maxima<T> y, int64_t i) {
  return {y.values == nullptr ? nullptr : y.values + i,
          y.places == nullptr ? nullptr : y.places + i};
}

template <class T>
auto kernel_of(const MaximaKernels& kernels) {
  if constexpr (std::is_same_v<T, float>)
    return kernels.of_f32;
  else if constexpr (std::is_same_v<T, double>)
    return kernels.of_f64;
  else
    return kernels.of_i64;
}

}  // namespace

const MaximaKernels& maxima_kernels() {
  return *for_this_processor(&kMaximaBase, &kMaximaAvx2, &kMaximaAvx512);
}

template <class T>
void sum_windows(const WindowSpec& s, const T* x, T* y) {
  const std::vector<Shown> c = windows(s, 2);
  const int64_t in = product(s.input), out = product(s.output);
  for_each_band<T>(s, bands_of(s), s.input[2], [&](int64_t p, Range rows, T* sums) {
    sum_rows(s, rows, c, x + p * in, y + p * out, sums);
  });
}

template <class T>
void spread_windows(const WindowSpec& s, const T* y, T* x) {
  const std::vector<Shown> c = windows(s, 2);
  const int64_t in = product(s.input), out = product(s.output);
  for_each_band<T>(s, 1, s.input[2], [&](int64_t p, Range, T* sums) {
    spread_plane(s, c, y + p * out, x + p * in, sums);
  });
}

template <class T>
void find_maxima(const WindowSpec& s, const T* x, Maxima<T> y, const MaximaKernels& kernels) {
  const std::vector<Shown> deep = windows(s, 0), high = windows(s, 1), wide = windows(s, 2);
  const std::vector<int64_t> taps = taps_of(s);
  const auto [begin, end] = fits<T>(s) ? whole_columns(s) : std::pair<int64_t, int64_t>{0, 0};
  const PlaneWindows plane{.height = s.input[1],
                           .width = s.input[2],
                           .fits = fits<T>(s),
                           .deep = {deep.data(), s.output[0]},
                           .high = {high.data(), s.output[1]},
                           .wide = {wide.data(), s.output[2]},
                           .stride = s.stride[2],
                           .whole_begin = begin,
                           .whole_end = end,
                           .whole_deep = span_of(s, 0),
                           .whole_high = span_of(s, 1),
                           .taps = taps.data(),
                           .tap_count = product(s.window),
                           .taps_along = s.window[2],
                           .by_rows = by_rows<T>(s)};
  const int64_t in = product(s.input), out = product(s.output);
  const auto find = kernel_of<T>(kernels);
  for_each_band<int64_t>(s, bands_of(s), own_elements(plane),
                         [&](int64_t p, Range rows, int64_t* own) {
                           find(plane, rows, x + p * in, at(y, p * out), own);
                         });
}

TANDEM_WINDOWS(template, float)
TANDEM_WINDOWS(template, double)
TANDEM_WINDOWS(template, int64_t)

}  // namespace tandem::machine
