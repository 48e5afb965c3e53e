// Evaluation rules of reductions, normalisations, losses and contractions. Sums run one element
// after the other in the widest type; the summation order of an equation does not matter here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "ir/interpreter/evaluate_elements.h"

namespace tandem::ir::evaluate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
using Row = std::span<const T>;

/// `t`, which is not a view, with `dims` moved to the end and then flattened: rows [outer, n].
struct Rows {
  Tensor storage;
  int64_t outer = 1, n = 1;

  Rows(const Tensor& t, std::span<const Axis> dims) {
    const Strides from = contiguous_strides(t.sizes());
    Shape sizes;
    Strides strides;
    const auto append = [&](int d) {
      sizes.push_back(t.sizes()[d]);
      strides.push_back(from[d]);
    };
    for (int d = 0; d < t.type.rank(); ++d)
      if (!std::ranges::count(dims, Axis{d})) {
        append(d);
        outer *= t.sizes()[d];
      }
    for (Axis d : dims) {
      append(static_cast<int>(d));
      n *= t.sizes()[static_cast<int>(d)];
    }
    auto positions = std::make_shared<const Positions>(strided_positions(sizes, strides, 0));
    storage = copied({{t.dtype(), sizes}, t.storage, std::move(positions)});
  }
  template <class T>
  Row<T> row(int64_t i) const {
    return {elements<T>(storage) + i * n, static_cast<size_t>(n)};
  }
};

/// One result of R for each row of T.
template <class R, class T, class F>
Tensor reduce_as(const Context& c, F f) {
  const Rows rows(c.operand(0), c.attr<Axes>(Attr::dims));
  Tensor result = zeros(c.result());
  for (int64_t i = 0; i < rows.outer; ++i) elements<R>(result)[i] = f(rows.row<T>(i));
  return result;
}

template <class F>
Tensor reduce_floats(const Context& c, F f) {
  return reduce_as<double, double>(c, f);
}

/// Results in the operand's category.
template <class F>
Tensor reduce_any(const Context& c, F f) {
  return by_category(c.operand(0).dtype(), [&]<class T>(T) { return reduce_as<T, T>(c, f); });
}

double sum_of(Row<double> row) {
  long double sum = 0;
  for (double v : row) sum += v;
  return static_cast<double>(sum);
}
int64_t sum_of(Row<int64_t> row) {
  int64_t sum = 0;
  for (int64_t v : row) sum = add_of(sum, v);
  return sum;
}

double product_of(Row<double> row) {
  long double product = 1;
  for (double v : row) product *= v;
  return static_cast<double>(product);
}
int64_t product_of(Row<int64_t> row) {
  int64_t product = 1;
  for (int64_t v : row) product = mul_of(product, v);
  return product;
}

double max_of(Row<double> row) {
  double max = -kInfinity;
  for (double v : row) max = maximum_of(max, v);
  return max;
}

/// The first position for which `better(v, best so far)` holds last; the first NaN if there is one.
template <class T, class F>
int64_t first_extremum(Row<T> row, F better) {
  size_t best = 0;
  for (size_t i = 0; i < row.size() && !is_nan(row[best]); ++i)
    if (is_nan(row[i]) || better(row[i], row[best])) best = i;
  return static_cast<int64_t>(best);
}

double variance_of(Row<double> row, double correction) {
  const auto n = static_cast<long double>(row.size());
  const long double mean = sum_of(row) / n;
  long double sum = 0;
  for (double v : row) sum += (v - mean) * (v - mean);
  return static_cast<double>(sum / std::max<long double>(n - correction, 0));
}

double sum_of_exp(Row<double> row, double shift) {
  long double sum = 0;
  for (double v : row) sum += std::exp(v - shift);
  return static_cast<double>(sum);
}

/// log(sum(exp(row))).
double log_sum_exp(Row<double> row) {
  const double max = max_of(row);
  const double shift = std::isinf(max) ? 0 : max;
  return std::log(sum_of_exp(row, shift)) + shift;
}

/// f(row of the operand, row of the result) along c's dim.
template <class F>
Tensor map_rows(const Context& c, F f) {
  const Axis dim = c.attr<int64_t>(Attr::dim);
  const Rows rows(c.operand(0), {&dim, 1});
  const Tensor moved = zeros(rows.storage.type);
  for (int64_t i = 0; i < rows.outer; ++i)
    f(rows.row<double>(i), elements<double>(moved) + i * rows.n);
  // Back from [..., n] to where the dimension was.
  Shape order_sizes = c.result().sizes;
  Strides strides = contiguous_strides(moved.sizes());
  const Dim step = strides.back();
  strides.erase(strides.rank() - 1);
  strides.insert(static_cast<int>(dim), step);
  auto positions = std::make_shared<const Positions>(strided_positions(order_sizes, strides, 0));
  return copied({c.result(), moved.storage, std::move(positions)});
}

template <class T>
void add_product(T* out, const T* a, const T* b, int64_t n, int64_t k, int64_t m) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < m; ++j)
        out[i * m + j] = add_of(out[i * m + j], mul_of(a[i * k + l], b[l * m + j]));
}

/// The product of operands `first` and `first + 1`, of `batch` matrices each, added to `result`.
Tensor product(const Context& c, int first, Tensor result) {
  const Shape &a = c.operand(first).sizes(), &b = c.operand(first + 1).sizes();
  const int64_t batch = a.rank() == 3 ? int64_t{a[0]} : 1;
  const int64_t n = a[a.rank() - 2], k = a.back(), m = b.back();
  by_category(c.result().dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < batch; ++i)
      add_product(elements<T>(result) + i * n * m, elements<T>(c.operand(first)) + i * n * k,
                  elements<T>(c.operand(first + 1)) + i * k * m, n, k, m);
  });
  return result;
}

}  // namespace

Tensor sum(const Context& c) {
  return reduce_any(c, [](auto row) { return sum_of(row); });
}
Tensor prod(const Context& c) {
  return reduce_any(c, [](auto row) { return product_of(row); });
}

Tensor amax(const Context& c) {
  return reduce_any(c, []<class T>(Row<T> row) {
    T best = row[0];
    for (T v : row) best = maximum_of(best, v);
    return best;
  });
}

Tensor amin(const Context& c) {
  return reduce_any(c, []<class T>(Row<T> row) {
    T best = row[0];
    for (T v : row) best = minimum_of(best, v);
    return best;
  });
}

Tensor argmax(const Context& c) {
  return by_category(c.operand(0).dtype(), [&]<class T>(T) {
    return reduce_as<int64_t, T>(
        c, [](Row<T> row) { return first_extremum(row, [](T v, T best) { return v > best; }); });
  });
}

Tensor argmin(const Context& c) {
  return by_category(c.operand(0).dtype(), [&]<class T>(T) {
    return reduce_as<int64_t, T>(
        c, [](Row<T> row) { return first_extremum(row, [](T v, T best) { return v < best; }); });
  });
}

namespace {

/// `c` as it is for result `i` alone.
Context of_result(const Context& c, size_t i) {
  Context one = c;
  one.results = c.results.subspan(i, 1);
  return one;
}

template <class F>
std::array<Tensor, 2> extremum_with_indices(const Context& c, F better) {
  return by_category(c.operand(0).dtype(), [&]<class T>(T) -> std::array<Tensor, 2> {
    const auto place = [=](Row<T> row) { return first_extremum(row, better); };
    return {reduce_as<T, T>(c, [=](Row<T> row) { return row[static_cast<size_t>(place(row))]; }),
            reduce_as<int64_t, T>(of_result(c, 1), place)};
  });
}

}  // namespace

std::array<Tensor, 2> max_with_indices(const Context& c) {
  return extremum_with_indices(c, [](auto v, auto best) { return v > best; });
}

std::array<Tensor, 2> min_with_indices(const Context& c) {
  return extremum_with_indices(c, [](auto v, auto best) { return v < best; });
}

std::array<Tensor, 2> aminmax(const Context& c) { return {amin(c), amax(of_result(c, 1))}; }

Tensor any(const Context& c) {
  return reduce_as<int64_t, int64_t>(
      c, [](auto row) { return std::ranges::any_of(row, [](int64_t v) { return v != 0; }); });
}

Tensor all(const Context& c) {
  return reduce_as<int64_t, int64_t>(
      c, [](auto row) { return std::ranges::all_of(row, [](int64_t v) { return v != 0; }); });
}

Tensor mean(const Context& c) {
  return reduce_floats(
      c, [](Row<double> row) { return sum_of(row) / static_cast<double>(row.size()); });
}

Tensor var(const Context& c) {
  const double correction = c.attr<double>(Attr::correction);
  return reduce_floats(c, [=](Row<double> row) { return variance_of(row, correction); });
}

std::array<Tensor, 2> var_mean(const Context& c) { return {var(c), mean(of_result(c, 1))}; }

Tensor std(const Context& c) {
  const double correction = c.attr<double>(Attr::correction);
  return reduce_floats(c, [=](Row<double> row) { return std::sqrt(variance_of(row, correction)); });
}

std::array<Tensor, 2> std_mean(const Context& c) { return {std(c), mean(of_result(c, 1))}; }

Tensor logsumexp(const Context& c) {
  return reduce_floats(c, [](Row<double> row) { return log_sum_exp(row); });
}

Tensor softmax(const Context& c) {
  return map_rows(c, [](Row<double> row, double* out) {
    const double max = max_of(row), sum = sum_of_exp(row, max);
    for (double v : row) *out++ = std::exp(v - max) / sum;
  });
}

Tensor log_softmax(const Context& c) {
  return map_rows(c, [](Row<double> row, double* out) {
    const double max = max_of(row), log_sum = std::log(sum_of_exp(row, max));
    for (double v : row) *out++ = v - max - log_sum;
  });
}

std::array<Tensor, 3> native_layer_norm(const Context& c) {
  const double eps = c.attr<double>(Attr::eps);
  const bool has_weight = c.operands.size() > 1, has_bias = c.operands.size() > 2;
  std::array<Tensor, 3> results{zeros(c.result(0)), zeros(c.result(1)), zeros(c.result(2))};
  auto [out, means, rstds] = std::array{elements<double>(results[0]), elements<double>(results[1]),
                                        elements<double>(results[2])};
  const int64_t rows = results[1].numel(), n = rows == 0 ? 0 : results[0].numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    const Row<double> row(elements<double>(c.operand(0)) + r * n, static_cast<size_t>(n));
    means[r] = sum_of(row) / static_cast<double>(n);
    rstds[r] = 1 / std::sqrt(variance_of(row, 0) + eps);
    for (int64_t i = 0; i < n; ++i) {
      double v = (row[i] - means[r]) * rstds[r];
      if (has_weight) v *= elements<double>(c.operand(1))[i];
      if (has_bias) v += elements<double>(c.operand(2))[i];
      out[r * n + i] = v;
    }
  }
  return results;
}

std::array<Tensor, 3> native_group_norm(const Context& c) {
  const double eps = c.attr<double>(Attr::eps);
  std::array<Tensor, 3> results{zeros(c.result(0)), zeros(c.result(1)), zeros(c.result(2))};
  auto [out, means, rstds] = std::array{elements<double>(results[0]), elements<double>(results[1]),
                                        elements<double>(results[2])};
  const auto channels = int64_t{c.result(0).sizes[1]}, groups = c.attr<int64_t>(Attr::groups);
  const int64_t rows = results[1].numel(), n = rows == 0 ? 0 : results[0].numel() / rows;
  const int64_t image = channels == 0 ? 0 : n * groups / channels;
  const auto parameter = [&](size_t i, int64_t channel, double none) {
    return c.operands.size() > i ? elements<double>(c.operand(i))[channel] : none;
  };
  for (int64_t r = 0; r < rows; ++r) {
    const Row<double> row(elements<double>(c.operand(0)) + r * n, static_cast<size_t>(n));
    means[r] = sum_of(row) / static_cast<double>(n);
    rstds[r] = 1 / std::sqrt(variance_of(row, 0) + eps);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t channel = (r * n + i) / image % channels;
      out[r * n + i] =
          (row[i] - means[r]) * rstds[r] * parameter(1, channel, 1) + parameter(2, channel, 0);
    }
  }
  return results;
}

/// The loss of one row of scores for its target class.
static double row_loss(Row<double> row, int64_t target, double smoothing) {
  const double max = max_of(row), log_sum = std::log(sum_of_exp(row, max));
  const auto log_probability = [&](double v) { return v - max - log_sum; };
  const double loss = -log_probability(row[target]);
  if (smoothing == 0) return loss;
  long double sum = 0;
  for (double v : row) sum -= log_probability(v);
  return (1 - smoothing) * loss +
         smoothing * static_cast<double>(sum / static_cast<long double>(row.size()));
}

Tensor cross_entropy(const Context& c) {
  const int64_t n = c.operand(0).sizes()[0], classes = c.operand(0).sizes()[1];
  const int64_t ignored = c.attr<int64_t>(Attr::ignore_index);
  const double smoothing = c.attr<double>(Attr::label_smoothing);
  std::vector<double> losses(static_cast<size_t>(n));
  int64_t counted = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t target = elements<int64_t>(c.operand(1))[i];
    if (target == ignored) continue;
    if (target < 0 || target >= classes)
      fail(Errc::Index,
           fmt::format("cross_entropy: target out of range; expected 0 <= target < {}, got {}",
                       classes, target));
    const double* row = elements<double>(c.operand(0)) + i * classes;
    losses[i] = row_loss({row, static_cast<size_t>(classes)}, target, smoothing);
    ++counted;
  }
  const auto& reduction = c.attr<std::string>(Attr::reduction);
  Tensor result = zeros(c.result());
  if (reduction == "none") {
    result.storage->floats = losses;
  } else {
    const double total = sum_of(Row<double>(losses));
    result.storage->floats[0] = reduction == "sum" ? total : total / static_cast<double>(counted);
  }
  return result;
}

Tensor mm(const Context& c) { return product(c, 0, zeros(c.result())); }
Tensor bmm(const Context& c) { return product(c, 0, zeros(c.result())); }
Tensor addmm(const Context& c) { return product(c, 1, copied(c.operand(0))); }

/// Scores of one query [d] against keys [s, d], as probabilities.
static std::vector<double> attention_weights(const double* query, const double* keys, int64_t s,
                                             int64_t d, double scale, const auto& masked) {
  std::vector<double> scores(static_cast<size_t>(s));
  for (int64_t j = 0; j < s; ++j) {
    double dot = 0;
    for (int64_t l = 0; l < d; ++l) dot += query[l] * keys[j * d + l];
    scores[j] = masked(j, dot * scale);
  }
  const double max = max_of(scores), sum = sum_of_exp(scores, max);
  for (double& v : scores) v = max == -kInfinity ? 0 : std::exp(v - max) / sum;
  return scores;
}

Tensor scaled_dot_product_attention(const Context& c) {
  const Shape &q = c.operand(0).sizes(), &v = c.operand(2).sizes();
  const int64_t t = q[q.rank() - 2], d = q.back(), s = v[v.rank() - 2], e = v.back();
  const double scale = c.attr<double>(Attr::scale);
  const bool causal = c.attr<bool>(Attr::is_causal);
  const Tensor* mask = c.operands.size() > 3 ? &c.operand(3) : nullptr;
  Tensor result = zeros(c.result());
  const int64_t rows = t * e == 0 ? 0 : result.numel() / e;
  for (int64_t row = 0; row < rows; ++row) {  // row = batch * t + query
    const int64_t batch = row / t, i = row % t;
    const auto masked = [&](int64_t j, double score) {
      if (causal && j > i) return -kInfinity;
      if (!mask) return score;
      if (mask->dtype() != DType::Bool) return score + elements<double>(*mask)[row * s + j];
      return elements<int64_t>(*mask)[row * s + j] ? score : -kInfinity;
    };
    const auto weights =
        attention_weights(elements<double>(c.operand(0)) + row * d,
                          elements<double>(c.operand(1)) + batch * s * d, s, d, scale, masked);
    add_product(elements<double>(result) + row * e, weights.data(),
                elements<double>(c.operand(2)) + batch * s * e, 1, s, e);
  }
  return result;
}

}  // namespace tandem::ir::evaluate
