#include "machine/windows/pooling.h"

#include <algorithm>
#include <vector>

#include "machine/memory/arena.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

/// Elements begin, begin + step, ... below end.
struct Range {
  int64_t begin, end, step;
};

Range window_at(const WindowSpec& s, size_t d, int64_t i) {
  if (s.window[d] == 0)
    return {i * s.input[d] / s.output[d], ((i + 1) * s.input[d] + s.output[d] - 1) / s.output[d],
            1};
  const int64_t start = i * s.stride[d] - s.padding[d], step = s.dilation[d];
  const int64_t begin = start < 0 ? start + (step - 1 - start) / step * step : start;
  return {begin, std::min(start + (s.window[d] - 1) * step + 1, s.input[d]), step};
}

int64_t product(const Extents& e) { return e[0] * e[1] * e[2]; }

/// The windows along the last dimension.
std::vector<Range> columns(const WindowSpec& s) {
  std::vector<Range> out;
  for (int64_t i = 0; i < s.output[2]; ++i) out.push_back(window_at(s, 2, i));
  return out;
}

/// Calls f(row of the output, row of the input) for each row of the output and each that its
/// windows show; begin(row) before and end(row) after.
template <class Begin, class F, class End>
void for_each_row(const WindowSpec& s, Begin begin, F f, End end) {
  for (int64_t i = 0; i < s.output[0]; ++i) {
    const Range deep = window_at(s, 0, i);
    for (int64_t j = 0; j < s.output[1]; ++j) {
      const Range high = window_at(s, 1, j);
      const int64_t row = i * s.output[1] + j;
      begin(row);
      for (int64_t p = deep.begin; p < deep.end; p += deep.step)
        for (int64_t q = high.begin; q < high.end; q += high.step) f(row, p * s.input[1] + q);
      end(row);
    }
  }
}

/// Fewer elements are not worth a thread.
constexpr int64_t kGrain = 16384;

/// Calls plane(number, a row of the input's width for the thread's own use).
template <class T, class F>
void for_each_plane(const WindowSpec& s, F plane) {
  const int64_t each = std::max<int64_t>(product(s.input) + product(s.output), 1);
  const size_t width = static_cast<size_t>(s.input[2]) + 64 / sizeof(T);
  const ArenaLease rows = borrow_arena(width * sizeof(T) * static_cast<size_t>(num_threads()));
  T* const first = reinterpret_cast<T*>(rows.data());
  parallel_for(s.planes, kGrain / each + 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t p = begin; p < end; ++p) plane(p, first + static_cast<size_t>(worker) * width);
  });
}

template <class T>
void add_row(T* __restrict to, const T* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

template <class T>
void sum_plane(const WindowSpec& s, const std::vector<Range>& columns, const T* x, T* y, T* sums) {
  const int64_t width = s.input[2];
  for_each_row(
      s, [&](int64_t) { std::fill_n(sums, width, T(0)); },
      [&](int64_t, int64_t from) { add_row(sums, x + from * width, width); },
      [&](int64_t row) {
        T* out = y + row * s.output[2];
        for (const Range& c : columns) {
          T sum(0);
          for (int64_t i = c.begin; i < c.end; ++i) sum += sums[i];
          *out++ = sum;
        }
      });
}

template <class T>
void spread_plane(const WindowSpec& s, const std::vector<Range>& columns, const T* y, T* x,
                  T* sums) {
  const int64_t width = s.input[2];
  std::fill_n(x, product(s.input), T(0));
  for_each_row(
      s,
      [&](int64_t row) {
        std::fill_n(sums, width, T(0));
        const T* in = y + row * s.output[2];
        for (const Range& c : columns) {
          for (int64_t i = c.begin; i < c.end; ++i) sums[i] += *in;
          ++in;
        }
      },
      [&](int64_t, int64_t to) { add_row(x + to * width, sums, width); }, [](int64_t) {});
}

template <class T>
void maxima_of_plane(const WindowSpec& s, const std::vector<Range>& columns, const T* x,
                     int64_t* y) {
  const int64_t width = s.input[2];
  for_each_row(
      s, [&](int64_t row) { std::fill_n(y + row * s.output[2], s.output[2], int64_t{-1}); },
      [&](int64_t row, int64_t from) {
        int64_t* best = y + row * s.output[2];
        for (const Range& c : columns) {
          int64_t at = *best;
          T most = at < 0 ? T() : x[at];
          for (int64_t i = c.begin; i < c.end; i += c.step) {
            const T value = x[from * width + i];
            if (at < 0 || value > most || value != value) at = from * width + i, most = value;
          }
          *best++ = at;
        }
      },
      [](int64_t) {});
}

}  // namespace

template <class T>
void sum_windows(const WindowSpec& s, const T* x, T* y) {
  const std::vector<Range> c = columns(s);
  const int64_t in = product(s.input), out = product(s.output);
  for_each_plane<T>(s, [&](int64_t p, T* sums) { sum_plane(s, c, x + p * in, y + p * out, sums); });
}

template <class T>
void spread_windows(const WindowSpec& s, const T* y, T* x) {
  const std::vector<Range> c = columns(s);
  const int64_t in = product(s.input), out = product(s.output);
  for_each_plane<T>(s,
                    [&](int64_t p, T* sums) { spread_plane(s, c, y + p * out, x + p * in, sums); });
}

template <class T>
void find_maxima(const WindowSpec& s, const T* x, int64_t* y) {
  const std::vector<Range> c = columns(s);
  const int64_t in = product(s.input), out = product(s.output);
  for_each_plane<T>(s, [&](int64_t p, T*) { maxima_of_plane(s, c, x + p * in, y + p * out); });
}

TANDEM_WINDOWS(template, float)
TANDEM_WINDOWS(template, double)
TANDEM_WINDOWS(template, int64_t)

}  // namespace tandem::machine
