// Scans other than sums: each line from its first element to its last, by one thread. Floating
// products run in f64. Steps of a line wait for each other, so several lines are scanned at a time.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "ir/base/error.h"
#include "machine/halves/halves.h"
#include "machine/lines/line.h"
#include "machine/lines/lines.h"
#include "machine/unroll.h"

namespace tandem::machine {
namespace lines {
namespace {

using Views = std::span<const ir::BufferView>;
using Integers64 = std::span<const int64_t>;

/// What T is summed in; integers wrap.
template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<Compute<T>>, double, uint64_t>;

template <class T>
Sum<T> wide(T v) {
  return static_cast<Sum<T>>(load(v));
}
template <class T>
T narrow(Sum<T> v) {
  return store<T>(static_cast<Compute<T>>(v));
}

/// Lines that are looked at together: where they are neighbours, element by element, as those along
/// an outer dimension are, vectors scan them.
constexpr int kTogether = 16;
/// Lines of so few elements are begun more at a time than registers hold addresses of.
constexpr int64_t kFew = 32;

/// The first elements of up to so many lines of a tensor, and how far others are apart.
template <class T>
struct Bundle {
  std::array<T*, kTogether> first;
  int count;
  int64_t stride;

  Bundle(const Lines<T>& lines, int64_t begin, int count) : count(count), stride(lines.stride()) {
    for (int l = 0; l < count; ++l) first[static_cast<size_t>(l)] = lines[begin + l].first;
  }
  Bundle(T* data, int64_t from_line_to_line, int count, int64_t stride)
      : count(count), stride(stride) {
    for (int l = 0; l < count; ++l) first[static_cast<size_t>(l)] = data + l * from_line_to_line;
  }
  bool are_neighbours() const {
    if (count != kTogether) return false;
    for (int l = 1; l < kTogether; ++l)
      if (first[static_cast<size_t>(l)] != first[0] + l) return false;
    return true;
  }
};

/// What the lines of a bundle have come to.
template <class T>
struct Progress {
  std::array<Sum<T>, kTogether> states{};
  int64_t seen = 0;  // elements
};

/// f.first(in[0]...), then f.next(what was before, in[k]...).
template <class T, class F, class... Values>
TANDEM_INLINE void step(const F& f, Sum<T>& state, int64_t k, Values... in) {
  state = k == 0 ? f.first(wide(in)...) : f.next(state, wide(in)...);
}

template <class T, class F, class... In>
void scan_neighbours(int64_t size, const F& f, Progress<T>& progress, const Bundle<T>& out,
                     const Bundle<In>&... in) {
  std::array<Sum<T>, kTogether> state = progress.states;
  const int64_t seen = progress.seen;
  for (int64_t k = 0; k < size; ++k) {
    TANDEM_UNROLL for (int l = 0; l < kTogether; ++l)
        step<T>(f, state[static_cast<size_t>(l)], seen + k, in.first[0][k * in.stride + l]...);
    TANDEM_UNROLL for (int l = 0; l < kTogether; ++l) out.first[0][k * out.stride + l] =
        narrow<T>(state[static_cast<size_t>(l)]);
  }
  progress.states = state;
}

/// `count` lines from the bundle's line `begin` on.
template <int count, class T, class F, class... In>
void scan_some(int begin, int64_t size, const F& f, Progress<T>& progress, const Bundle<T>& out,
               const Bundle<In>&... in) {
  std::array<Sum<T>, count> state;
  std::copy_n(progress.states.begin() + begin, count, state.begin());
  const int64_t seen = progress.seen;
  for (int64_t k = 0; k < size; ++k) TANDEM_UNROLL for (int l = 0; l < count; ++l) {
      Sum<T>& s = state[static_cast<size_t>(l)];
      const auto line = static_cast<size_t>(begin + l);
      step<T>(f, s, seen + k, in.first[line][k * in.stride]...);
      out.first[line][k * out.stride] = narrow<T>(s);
    }
  std::copy_n(state.begin(), count, progress.states.begin() + begin);
}

/// Those from line `begin` on, at most so many at a time.
template <int most, class T, class F, class... In>
void scan_rest(int begin, int64_t size, const F& f, Progress<T>& progress, const Bundle<T>& out,
               const Bundle<In>&... in) {
  for (; begin + most <= out.count; begin += most)
    scan_some<most>(begin, size, f, progress, out, in...);
  if constexpr (most > 1)
    scan_rest<(most > 4 ? most / 2 : most - 1)>(begin, size, f, progress, out, in...);
}

/// The next `size` elements.
template <class T, class F, class... In>
void scan_part(int64_t size, const F& f, Progress<T>& progress, const Bundle<T>& out,
               const Bundle<In>&... in) {
  if (out.are_neighbours() && (in.are_neighbours() && ...)) {
    scan_neighbours(size, f, progress, out, in...);
  } else {
    constexpr int kAtATime = sizeof...(In) == 1 ? 4 : 2;  // whose addresses registers hold
    if (size <= kFew)
      scan_rest<8>(0, size, f, progress, out, in...);
    else
      scan_rest<kAtATime>(0, size, f, progress, out, in...);
  }
  progress.seen += size;
}

/// Elements of a bundle of halves as f32: of neighbours side by side, else line by line.
class WidePart {
 public:
  static constexpr int64_t kElements = 128;  // of each line

  explicit WidePart(bool of_neighbours) : of_neighbours_(of_neighbours) {}
  WidePart(const WidePart&) = delete;
  WidePart& operator=(const WidePart&) = delete;

  template <class T>
  void read(const Bundle<const T>& from, int64_t begin, int64_t size) {
    size_ = size;
    if (!is_gathered(from)) return for_each_run(from, begin, machine::widen<T>);
    T halves[kTogether * kElements];
    for_each_element(from, begin, [&](T half, int64_t i) { halves[i] = half; });
    machine::widen(halves, from.count * size, numbers_);
  }
  template <class T>
  void write(const Bundle<T>& to, int64_t begin) {
    if (!is_gathered(to))
      return for_each_run(to, begin, [](T* halves, int64_t n, const float* wide) {
        machine::narrow(wide, n, halves);
      });
    T halves[kTogether * kElements];
    machine::narrow(numbers_, to.count * size_, halves);
    for_each_element(to, begin, [&](T& half, int64_t i) { half = halves[i]; });
  }
  /// For `size` elements of each line.
  Bundle<float> bundle(int count, int64_t size) {
    size_ = size;
    return {numbers_, of_neighbours_ ? 1 : size, count, of_neighbours_ ? kTogether : 1};
  }

 private:
  /// Whether what is converted at once is brought together first.
  template <class T>
  bool is_gathered(const Bundle<T>& halves) const {
    return !of_neighbours_ && halves.stride != 1;
  }

  template <class T, class F>
  void for_each_run(const Bundle<T>& halves, int64_t begin, F f) {
    if (of_neighbours_) {
      for (int64_t k = 0; k < size_; ++k)
        f(halves.first[0] + (begin + k) * halves.stride, kTogether, numbers_ + k * kTogether);
    } else {
      for (int l = 0; l < halves.count; ++l)
        f(halves.first[static_cast<size_t>(l)] + begin, size_, numbers_ + l * size_);
    }
  }

  template <class T, class F>
  void for_each_element(const Bundle<T>& halves, int64_t begin, F f) const {
    for (int l = 0; l < halves.count; ++l) {
      T* const line = halves.first[static_cast<size_t>(l)] + begin * halves.stride;
      for (int64_t k = 0; k < size_; ++k) f(line[k * halves.stride], l * size_ + k);
    }
  }

  bool of_neighbours_;
  int64_t size_ = 0;  // elements of each line
  float numbers_[kTogether * kElements];
};

/// Lines of halves.
template <class T, class F, class... In>
void scan_widened(int64_t size, const F& f, const Bundle<T>& out, const Bundle<In>&... in) {
  const bool of_neighbours = out.are_neighbours() && (in.are_neighbours() && ...);
  WidePart results(of_neighbours);
  std::array<WidePart, sizeof...(In)> parts{((void)in, WidePart(of_neighbours))...};
  Progress<float> progress;
  for (int64_t begin = 0; begin < size; begin += WidePart::kElements) {
    const int64_t n = std::min(size - begin, WidePart::kElements);
    [&]<size_t... i>(std::index_sequence<i...>) {
      (parts[i].read(in, begin, n), ...);
      scan_part(n, f, progress, results.bundle(out.count, n), parts[i].bundle(out.count, n)...);
    }(std::index_sequence_for<In...>());
    results.write(out, begin);
  }
}

template <class T, class F, class... In>
void scan_bundle(int64_t size, const F& f, const Bundle<T>& out, const Bundle<In>&... in) {
  if constexpr (is_half<T>) {
    scan_widened(size, f, out, in...);
  } else {
    Progress<T> progress;
    scan_part(size, f, progress, out, in...);
  }
}

/// f(begin, end) for parts of `count` lines of `size` elements, among threads.
template <class F>
void for_each_part(int64_t count, int64_t size, F f) {
  const int64_t grain = std::max({kGrain / std::max<int64_t>(size, 1), int64_t{1},
                                  std::min<int64_t>(count / num_threads(), kTogether)});
  parallel_for(count, grain, [&](int64_t begin, int64_t end, int) { f(begin, end); });
}

/// f(first line, how many) for bundles of them.
template <class F>
void for_each_bundle(int64_t count, int64_t size, F f) {
  for_each_part(count, size, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kTogether)
      f(begin, static_cast<int>(std::min<int64_t>(end - begin, kTogether)));
  });
}

/// Lines each as far from the next, so that no list says where they are: short ones would take
/// longer to list than to scan.
template <class T>
struct EvenLines {
  T* first;
  int64_t apart, stride;

  explicit EvenLines(const Lines<T>& lines)
      : EvenLines(lines[0].first, *lines.apart(), lines.stride()) {}
  EvenLines(T* first, int64_t apart, int64_t stride) : first(first), apart(apart), stride(stride) {}
  T& at(int64_t line, int64_t k) const { return first[line * apart + k * stride]; }
};

/// Lines [begin, begin + count).
template <int count, class T, class F, class... In>
TANDEM_INLINE void scan_even_lines(int64_t begin, int64_t size, const F& f, EvenLines<T> out,
                                   EvenLines<In>... in) {
  std::array<Sum<T>, count> state;
  TANDEM_UNROLL for (int l = 0; l < count; ++l) {
    Sum<T>& s = state[static_cast<size_t>(l)];
    s = f.first(wide(in.at(begin + l, 0))...);
    out.at(begin + l, 0) = narrow<T>(s);
  }
  for (int64_t k = 1; k < size; ++k) TANDEM_UNROLL for (int l = 0; l < count; ++l) {
      Sum<T>& s = state[static_cast<size_t>(l)];
      s = f.next(s, wide(in.at(begin + l, k))...);
      out.at(begin + l, k) = narrow<T>(s);
    }
}

/// Whether lines are best scanned as even ones: neighbours are by vectors, long halves wide.
template <class T, class... In>
bool are_even(const Lines<T>& to, const Lines<In>&... from) {
  const bool are_neighbours = to.size() > 1 && to.apart() == 1 && ((from.apart() == 1) && ...);
  return !(is_half<T> && to.size() >= kFew) && !are_neighbours && to.size() > 0 && to.apart() &&
         (from.apart() && ...);
}

/// Lines [begin, end).
template <class T, class F, class... In>
void scan_even_part(int64_t begin, int64_t end, int64_t size, const F& f, EvenLines<T> out,
                    EvenLines<In>... in) {
  constexpr int kAtATime = sizeof...(In) == 1 ? 4 : 2;  // whose addresses registers hold
  for (; begin + kAtATime <= end; begin += kAtATime)
    scan_even_lines<kAtATime>(begin, size, f, out, in...);
  for (; begin < end; ++begin) scan_even_lines<1>(begin, size, f, out, in...);
}

/// Short lines of halves as f32, one after the other.
class WideLines {
 public:
  static constexpr int64_t kElements = 1024;

  WideLines(int64_t count, int64_t size) : count_(count), size_(size) {}

  /// As many lines from `begin` on.
  template <class T>
  EvenLines<const float> read(const EvenLines<const T>& from, int64_t begin) {
    const int64_t n = count_ * size_;
    if (is_run(from)) {
      machine::widen(&from.at(begin, 0), n, numbers_);
    } else {
      T halves[kElements];
      for_each_element([&](int64_t l, int64_t k, int64_t i) { halves[i] = from.at(begin + l, k); });
      machine::widen(halves, n, numbers_);
    }
    return {numbers_, size_, 1};
  }
  EvenLines<float> lines() { return {numbers_, size_, 1}; }
  template <class T>
  void write(const EvenLines<T>& to, int64_t begin) const {
    if (is_run(to)) return machine::narrow(numbers_, count_ * size_, &to.at(begin, 0));
    T halves[kElements];
    machine::narrow(numbers_, count_ * size_, halves);
    for_each_element([&](int64_t l, int64_t k, int64_t i) { to.at(begin + l, k) = halves[i]; });
  }

 private:
  template <class T>
  bool is_run(const EvenLines<T>& halves) const {
    return halves.stride == 1 && halves.apart == size_;
  }

  template <class F>
  void for_each_element(F f) const {
    for (int64_t l = 0; l < count_; ++l)
      for (int64_t k = 0; k < size_; ++k) f(l, k, l * size_ + k);
  }

  int64_t count_, size_;
  float numbers_[kElements];
};

template <class T, class F, class... In>
void scan_even_halves(int64_t begin, int64_t end, int64_t size, const F& f, EvenLines<T> out,
                      EvenLines<In>... in) {
  for (int64_t count; begin < end; begin += count) {
    count = std::min(WideLines::kElements / size, end - begin);
    WideLines results(count, size);
    std::array<WideLines, sizeof...(In)> parts{((void)in, WideLines(count, size))...};
    [&]<size_t... i>(std::index_sequence<i...>) {
      scan_even_part(0, count, size, f, results.lines(), parts[i].read(in, begin)...);
    }(std::index_sequence_for<In...>());
    results.write(out, begin);
  }
}

template <class T, class F, class... In>
void scan_even(const F& f, const Lines<T>& to, const Lines<In>&... from) {
  for_each_part(to.count(), to.size(), [&](int64_t begin, int64_t end) {
    if constexpr (is_half<T>)
      scan_even_halves(begin, end, to.size(), f, EvenLines(to), EvenLines(from)...);
    else
      scan_even_part(begin, end, to.size(), f, EvenLines(to), EvenLines(from)...);
  });
}

/// Each line for itself.
template <class T, class F, class... In>
void scan(const F& f, const Lines<T>& to, const Lines<In>&... from) {
  if (are_even(to, from...)) return scan_even(f, to, from...);
  for_each_bundle(to.count(), to.size(), [&](int64_t begin, int count) {
    scan_bundle(to.size(), f, Bundle<T>(to, begin, count), Bundle<In>(from, begin, count)...);
  });
}

/// A scan that begins with a number.
template <class S, class Step>
struct From {
  S start;
  Step step;
  S first(S v) const { return step(start, v); }
  S next(S state, S v) const { return step(state, v); }
};

/// state = factor * state + term, the first factor aside.
template <class S>
struct Linear {
  S first(S term, S) const { return term; }
  S next(S state, S term, S factor) const { return factor * state + term; }
};

template <class Step>
void scan_numbers(Views in, int64_t dim, const ir::BufferView& out, int start, Step step) {
  with_type<Numbers>(out.dtype, [&]<class T>(Tag<T>) {
    using S = Sum<T>;
    const From<S, Step> f{static_cast<S>(start), step};
    scan(f, Lines<T>(out, dim), Lines<const T>(in[0], dim));
  });
}

/// log(exp(x) + exp(y)); NaN if either is.
double log_add_exp(double x, double y) {
  const double low = y != y ? y : x != x ? x : std::min(x, y);
  const double high = y != y ? y : x != x ? x : std::max(x, y);
  if (low == high && std::isinf(low)) return x;
  return std::log1p(std::exp(low - high)) + high;
}

/// Where the extremum is so far, in `count` lines from the bundles' line `begin` on: the last of
/// equals, and the last NaN.
template <int count, class T, class Better>
void extrema_of_some(int begin, int64_t size, Better better, const Bundle<const T>& in,
                     const Bundle<int64_t>& places) {
  if (size == 0) return;
  std::array<Compute<T>, count> held;
  std::array<int64_t, count> best{};
  for (int l = 0; l < count; ++l)
    held[static_cast<size_t>(l)] = load(*in.first[static_cast<size_t>(begin + l)]);
  for (int64_t k = 0; k < size; ++k) TANDEM_UNROLL for (int l = 0; l < count; ++l) {
      const auto line = static_cast<size_t>(begin + l), at = static_cast<size_t>(l);
      const auto v = load(in.first[line][k * in.stride]);
      const bool is_better = v != v || better(v, held[at]);  // than NaN no number is
      held[at] = is_better ? v : held[at];
      best[at] = is_better ? k : best[at];
      places.first[line][k * places.stride] = best[at];
    }
}

template <class Better>
void extremum_indices(Views in, int64_t dim, const ir::BufferView& out, Better better) {
  const Lines<int64_t> to(out, dim);
  with_type<All>(in[0].dtype, [&]<class T>(Tag<T>) {
    const Lines<const T> from(in[0], dim);
    for_each_bundle(to.count(), to.size(), [&](int64_t begin, int count) {
      const Bundle<const T> line(from, begin, count);
      const Bundle<int64_t> places(to, begin, count);
      if (line.are_neighbours())
        return extrema_of_some<kTogether>(0, to.size(), better, line, places);
      constexpr int kAtATime = 4;  // whose addresses registers hold
      int l = 0;
      for (; l + kAtATime <= count; l += kAtATime)
        extrema_of_some<kAtATime>(l, to.size(), better, line, places);
      for (; l < count; ++l) extrema_of_some<1>(l, to.size(), better, line, places);
    });
  });
}

}  // namespace

void cumprod(Views in, Integers64 numbers, const ir::BufferView& out) {
  scan_numbers(in, numbers[0], out, 1, [](auto product, auto v) { return product * v; });
}

void logcumsumexp(Views in, Integers64 numbers, const ir::BufferView& out) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  with_type<Floats>(out.dtype, [&]<class T>(Tag<T>) {
    const From<double, decltype(&log_add_exp)> f{kNothing, log_add_exp};
    scan(f, Lines<T>(out, numbers[0]), Lines<const T>(in[0], numbers[0]));
  });
}

void linear_scan(Views in, Integers64 numbers, const ir::BufferView& out) {
  with_type<Numbers>(out.dtype, [&]<class T>(Tag<T>) {
    const int64_t dim = numbers[0];
    scan(Linear<Sum<T>>{}, Lines<T>(out, dim), Lines<const T>(in[0], dim),
         Lines<const T>(in[1], dim));
  });
}

void cummax_indices(Views in, Integers64 numbers, const ir::BufferView& out) {
  extremum_indices(in, numbers[0], out, [](auto v, auto held) { return v >= held; });
}

void cummin_indices(Views in, Integers64 numbers, const ir::BufferView& out) {
  extremum_indices(in, numbers[0], out, [](auto v, auto held) { return v <= held; });
}

}  // namespace lines

LineFunction line_function(std::string_view name) {
  static constexpr std::pair<std::string_view, LineFunction> kFunctions[] = {
#define X(name) {#name, lines::name},
      TANDEM_LINE_FUNCTIONS(X)
#undef X
  };
  for (const auto& [of, function] : kFunctions)
    if (of == name) return function;
  ir::fail(ir::Errc::Graph, std::string(name) + ": no function of the library has this name");
}

}  // namespace tandem::machine
