// Evaluation rules of scans, sorts and searches.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/interpreter/evaluate_elements.h"

namespace tandem::ir::evaluate {
namespace {

/// Calls f(first element, step) for each line of `sizes` along `dim`.
template <class F>
void for_each_line(const Shape& sizes, int dim, F f) {
  int64_t inner = 1;
  for (int d = dim + 1; d < sizes.rank(); ++d) inner *= sizes[d];
  const int64_t n = sizes[dim], lines = n == 0 ? 0 : int64_t{numel(sizes)} / n;
  for (int64_t i = 0; i < lines; ++i) f(i / inner * n * inner + i % inner, inner);
}

int dim_of(const Context& c) { return static_cast<int>(c.attr<int64_t>(Attr::dim)); }

/// out = f(x, y[i - 1], i) along each line, in the widest type.
template <class F>
Tensor scanned(const Context& c, F f) {
  Tensor result = zeros(c.result());
  by_category(c.result().dtype, [&]<class T>(T) {
    using Wide = std::conditional_t<std::same_as<T, double>, long double, int64_t>;
    const Shape& sizes = c.result().sizes;
    const int64_t n = sizes[dim_of(c)];
    for_each_line(sizes, dim_of(c), [&](int64_t first, int64_t step) {
      Wide state{};
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = first + i * step;
        state = f(state, at, i == 0, T());
        elements<T>(result)[at] = static_cast<T>(state);
      }
    });
  });
  return result;
}

long double product(long double a, long double b) { return a * b; }
int64_t product(int64_t a, int64_t b) { return mul_of(a, b); }
long double total(long double a, long double b) { return a + b; }
int64_t total(int64_t a, int64_t b) { return add_of(a, b); }

/// x comes before y: NaN is largest.
template <class T>
bool is_before(T x, T y) {
  return is_nan(y) ? !is_nan(x) : x < y;
}

/// For each line: `positions` of the result, from the operand's elements in their order.
template <class F>
Tensor placed(const Context& c, F write) {
  Tensor result = zeros(c.result());
  const int dim = dim_of(c);
  const int64_t n = c.operand(0).sizes()[dim], m = c.result().sizes[dim];
  if (n == 0) return result;
  by_category(c.operand(0).dtype(), [&]<class T>(T) {
    for_each_line(c.operand(0).sizes(), dim, [&](int64_t first, int64_t step) {
      std::vector<T> line(n);
      for (int64_t i = 0; i < n; ++i) line[i] = elements<T>(c.operand(0))[first + i * step];
      const int64_t to = first / (n * step) * m * step + first % step;
      write(line, [&](int64_t i, int64_t position) {
        elements<int64_t>(result)[to + i * step] = position;
      });
    });
  });
  return result;
}

template <class T>
std::vector<int64_t> sorted_positions(const std::vector<T>& line, bool descending = false) {
  std::vector<int64_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return descending ? is_before(line[b], line[a]) : is_before(line[a], line[b]);
  });
  return order;
}

/// The last element so far that `better` holds for against the best before it, or a NaN.
template <class Better>
Tensor extremum_so_far(const Context& c, Better better) {
  return placed(c, [&](const auto& line, auto write) {
    size_t best = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (is_nan(line[i]) || (!is_nan(line[best]) && better(line[i], line[best]))) best = i;
      write(static_cast<int64_t>(i), static_cast<int64_t>(best));
    }
  });
}

}  // namespace

Tensor cumsum(const Context& c) {
  return scanned(c, [&]<class T>(auto sum, int64_t at, bool, T) {
    return total(sum, decltype(sum)(elements<T>(c.operand(0))[at]));
  });
}

Tensor cumprod(const Context& c) {
  return scanned(c, [&]<class T>(auto before, int64_t at, bool is_first, T) {
    const decltype(before) x = elements<T>(c.operand(0))[at];
    return is_first ? x : product(before, x);
  });
}

Tensor linear_scan(const Context& c) {
  return scanned(c, [&]<class T>(auto before, int64_t at, bool is_first, T) {
    using Wide = decltype(before);
    const Wide term = elements<T>(c.operand(0))[at];
    return is_first ? term : total(product(Wide(elements<T>(c.operand(1))[at]), before), term);
  });
}

Tensor logcumsumexp(const Context& c) {
  return scanned(c, [&]<class T>(auto before, int64_t at, bool is_first, T) {
    using Wide = decltype(before);
    const Wide x = elements<T>(c.operand(0))[at];
    if constexpr (std::same_as<Wide, long double>) {
      if (is_first || (x == before && std::isinf(x))) return x;
      if (std::isnan(x) || std::isnan(before)) return x + before;
      return std::max(x, before) + std::log1p(std::exp(std::min(x, before) - std::max(x, before)));
    }
    return x;  // only floating numbers
  });
}

Tensor cummax_indices(const Context& c) {
  return extremum_so_far(c, [](auto x, auto best) { return x >= best; });
}
Tensor cummin_indices(const Context& c) {
  return extremum_so_far(c, [](auto x, auto best) { return x <= best; });
}

Tensor argsort(const Context& c) {
  const bool descending = c.attr<bool>(Attr::descending);
  return placed(c, [&](const auto& line, auto write) {
    int64_t i = 0;
    for (int64_t position : sorted_positions(line, descending)) write(i++, position);
  });
}

Tensor topk_indices(const Context& c) {
  const bool descending = c.attr<bool>(Attr::descending);
  const int64_t length = c.attr<Dim>(Attr::length);
  return placed(c, [&](const auto& line, auto write) {
    const auto order = sorted_positions(line, descending);
    for (int64_t i = 0; i < length; ++i) write(i, order[i]);
  });
}

Tensor kth_index(const Context& c) {
  const int64_t index = c.attr<Dim>(Attr::index);
  return placed(c, [&](const auto& line, auto write) { write(0, sorted_positions(line)[index]); });
}

Tensor median_index(const Context& c) {
  const bool ignores_nan = c.attr<bool>(Attr::ignore_nan);
  return placed(c, [&](const auto& line, auto write) {
    const auto n = static_cast<int64_t>(line.size());
    const int64_t count = n - std::ranges::count_if(line, [](auto v) { return is_nan(v); });
    const bool gives_nan = count == 0 || (count < n && !ignores_nan);
    write(0, sorted_positions(line)[gives_nan ? count : (count - 1) / 2]);
  });
}

Tensor mode_index(const Context& c) {
  return placed(c, [&](const auto& line, auto write) {
    const auto order = sorted_positions(line);
    const auto same = [&](int64_t a, int64_t b) {
      return !is_before(line[a], line[b]) && !is_before(line[b], line[a]);
    };
    size_t most = 0, best = 0, begin = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (!same(order[i], order[begin])) begin = i;
      if (i - begin + 1 > most) most = i - begin + 1, best = i;
    }
    write(0, order[best]);
  });
}

Tensor searchsorted(const Context& c) {
  Tensor result = zeros(c.result());
  const Tensor &sorted = c.operand(0), &values = c.operand(1);
  const bool right = c.attr<bool>(Attr::right), is_one_line = sorted.type.rank() == 1;
  const int64_t n = sorted.sizes().back(), m = values.sizes().back();
  by_category(sorted.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < values.numel(); ++i) {
      const T* line = elements<T>(sorted) + (is_one_line ? 0 : i / m * n);
      const T v = elements<T>(values)[i];
      elements<int64_t>(result)[i] =
          std::partition_point(
              line, line + n,
              [&](T here) { return right ? !is_before(v, here) : is_before(here, v); }) -
          line;
    }
  });
  return result;
}

}  // namespace tandem::ir::evaluate
