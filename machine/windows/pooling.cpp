#include "machine/windows/pooling.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
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

/// Integers as wide as T: comparisons of vectors of T give vectors of these.
template <class T>
using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

/// What every x86-64 has.
template <class T>
struct Vector {
  using type __attribute__((vector_size(16))) = T;
  static constexpr int64_t kLanes = 16 / sizeof(T);
};

/// A row of the output, and the rows of the input that its windows show.
struct WindowRows {
  Range deep, high;
};

/// The place of the largest element of one window: without branches, which random elements would
/// mislead.
template <class T>
int64_t maximum_of(const WindowSpec& s, const WindowRows& rows, const Range& columns, const T* x) {
  int64_t at = (rows.deep.begin * s.input[1] + rows.high.begin) * s.input[2] + columns.begin;
  T most = x[at];
  for (int64_t p = rows.deep.begin; p < rows.deep.end; p += rows.deep.step)
    for (int64_t q = rows.high.begin; q < rows.high.end; q += rows.high.step)
      for (int64_t i = columns.begin; i < columns.end; i += columns.step) {
        const int64_t here = (p * s.input[1] + q) * s.input[2] + i;
        const T value = x[here];
        const bool better = (value > most) | (value != value);
        at = better ? here : at;
        most = better ? value : most;
      }
  return at;
}

/// A vector of the elements `stride` apart; nothing after the last of them is read.
template <class T, size_t... L>
typename Vector<T>::type load(const T* x, int64_t stride, std::index_sequence<L...>) {
  using Values = typename Vector<T>::type;
  Values first, second;
  if (stride > 2) return Values{x[static_cast<int64_t>(L) * stride]...};
  std::memcpy(&first, x, sizeof(first));
  if (stride == 1) return first;
  std::memcpy(&second, x + sizeof...(L) - 1, sizeof(second));
  return __builtin_shufflevector(first, second, (2 * L < sizeof...(L) ? 2 * L : 2 * L + 1)...);
}

template <class T>
typename Vector<T>::type load(const T* x, int64_t stride) {
  return load(x, stride, std::make_index_sequence<static_cast<size_t>(Vector<T>::kLanes)>());
}

/// The same of the windows of neighbouring columns, a lane for each; `columns` is the first one.
template <class T>
void maxima_of(const WindowSpec& s, const WindowRows& rows, const Range& columns, const T* x,
               int64_t* y) {
  using Values = typename Vector<T>::type;
  using Places = typename Vector<Place<T>>::type;
  constexpr int64_t kLanes = Vector<T>::kLanes;
  const int64_t stride = s.stride[2];
  const int64_t first =
      (rows.deep.begin * s.input[1] + rows.high.begin) * s.input[2] + columns.begin;
  Values most = load(x + first, stride);
  Places at{};  // from the window's first element
  for (int64_t p = rows.deep.begin; p < rows.deep.end; p += rows.deep.step)
    for (int64_t q = rows.high.begin; q < rows.high.end; q += rows.high.step)
      for (int64_t i = columns.begin; i < columns.end; i += columns.step) {
        const int64_t here = (p * s.input[1] + q) * s.input[2] + i;
        const Values value = load(x + here, stride);
        const Places better = (value > most) | (value != value);
        at = better ? Places{} + static_cast<Place<T>>(here - first) : at;
        most = better ? value : most;
      }
  for (int64_t l = 0; l < kLanes; ++l) y[l] = first + l * stride + at[l];
}

/// The columns [begin, end) whose windows lie in the input as a whole, where vectors can take them.
template <class T>
std::pair<int64_t, int64_t> whole_columns(const WindowSpec& s) {
  const bool fits = product(s.input) <= std::numeric_limits<Place<T>>::max();
  if (s.window[2] == 0 || !fits) return {0, 0};
  const int64_t begin = (s.padding[2] + s.stride[2] - 1) / s.stride[2];
  const int64_t last = s.input[2] - 1 - (s.window[2] - 1) * s.dilation[2] + s.padding[2];
  const int64_t end = last < 0 ? 0 : std::min(last / s.stride[2] + 1, s.output[2]);
  return end - begin < Vector<T>::kLanes ? std::pair<int64_t, int64_t>{0, 0}
                                         : std::pair{begin, end};
}

/// Of one row of the output. The last vector may do columns again.
template <class T>
void maxima_of_row(const WindowSpec& s, const WindowRows& rows, const std::vector<Range>& columns,
                   const T* x, int64_t* y) {
  constexpr int64_t kLanes = Vector<T>::kLanes;
  const auto [begin, end] = whole_columns<T>(s);
  const auto singly = [&](int64_t from, int64_t to) {
    for (int64_t c = from; c < to; ++c)
      y[c] = maximum_of(s, rows, columns[static_cast<size_t>(c)], x);
  };
  singly(0, begin);
  for (int64_t c = begin; c < end; c += kLanes) {
    const int64_t at = std::min(c, end - kLanes);
    maxima_of(s, rows, columns[static_cast<size_t>(at)], x, y + at);
  }
  singly(end, s.output[2]);
}

template <class T>
void maxima_of_plane(const WindowSpec& s, const std::vector<Range>& columns, const T* x,
                     int64_t* y) {
  for (int64_t i = 0; i < s.output[0]; ++i)
    for (int64_t j = 0; j < s.output[1]; ++j)
      maxima_of_row(s, {window_at(s, 0, i), window_at(s, 1, j)}, columns, x,
                    y + (i * s.output[1] + j) * s.output[2]);
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
