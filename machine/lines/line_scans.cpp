// Scans: each line from its first element to its last, by one thread. Floating sums and products
// run in f64.
#include <array>
#include <cmath>
#include <concepts>
#include <type_traits>
#include <utility>

#include "ir/base/error.h"
#include "machine/lines/line.h"
#include "machine/lines/lines.h"

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

/// out[i] = state after step(state, in[i]).
template <class T, class Step>
void scan(const Lines<const T>& from, const Lines<T>& to, Sum<T> start, Step step) {
  for_each_line(to.count(), to.size(), [&](int64_t i, int) {
    const Line<const T> in = from[i];
    const Line<T> out = to[i];
    Sum<T> state = start;
    for (int64_t k = 0; k < in.size; ++k) {
      state = step(state, wide(in[k]));
      out[k] = narrow<T>(state);
    }
  });
}

template <class Step>
void scan_numbers(Views in, int64_t dim, const ir::BufferView& out, int start, Step step) {
  with_type<Numbers>(out.dtype, [&]<class T>(Tag<T>) {
    scan<T>(Lines<const T>(in[0], dim), Lines<T>(out, dim), static_cast<Sum<T>>(start), step);
  });
}

/// log(exp(x) + exp(y)); NaN if either is.
double log_add_exp(double x, double y) {
  const double low = y != y ? y : x != x ? x : std::min(x, y);
  const double high = y != y ? y : x != x ? x : std::max(x, y);
  if (low == high && std::isinf(low)) return x;
  return std::log1p(std::exp(low - high)) + high;
}

/// Where the extremum is so far: the last of equals, and the last NaN.
template <class Better>
void extremum_indices(Views in, int64_t dim, const ir::BufferView& out, Better better) {
  const Lines<int64_t> to(out, dim);
  with_type<All>(in[0].dtype, [&]<class T>(Tag<T>) {
    const Lines<const T> from(in[0], dim);
    for_each_line(to.count(), to.size(), [&](int64_t i, int) {
      const Line<const T> line = from[i];
      const Line<int64_t> places = to[i];
      int64_t best = 0;
      for (int64_t k = 0; k < line.size; ++k) {
        const auto v = load(line[k]), held = load(line[best]);
        if (v != v || (held == held && better(v, held))) best = k;
        places[k] = best;
      }
    });
  });
}

}  // namespace

void cumsum(Views in, Integers64 numbers, const ir::BufferView& out) {
  scan_numbers(in, numbers[0], out, 0, [](auto sum, auto v) { return sum + v; });
}

void cumprod(Views in, Integers64 numbers, const ir::BufferView& out) {
  scan_numbers(in, numbers[0], out, 1, [](auto product, auto v) { return product * v; });
}

void logcumsumexp(Views in, Integers64 numbers, const ir::BufferView& out) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  with_type<Floats>(out.dtype, [&]<class T>(Tag<T>) {
    scan<T>(Lines<const T>(in[0], numbers[0]), Lines<T>(out, numbers[0]), kNothing, log_add_exp);
  });
}

void linear_scan(Views in, Integers64 numbers, const ir::BufferView& out) {
  with_type<Numbers>(out.dtype, [&]<class T>(Tag<T>) {
    const Lines<const T> terms(in[0], numbers[0]), factors(in[1], numbers[0]);
    const Lines<T> to(out, numbers[0]);
    for_each_line(to.count(), to.size(), [&](int64_t i, int) {
      const Line<const T> term = terms[i], factor = factors[i];
      const Line<T> result = to[i];
      Sum<T> state = 0;
      for (int64_t k = 0; k < term.size; ++k) {
        state = k == 0 ? wide(term[k]) : wide(factor[k]) * state + wide(term[k]);
        result[k] = narrow<T>(state);
      }
    });
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
