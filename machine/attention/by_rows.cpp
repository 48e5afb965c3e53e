// Attention in f64: one row of scores at a time.
#include <cmath>
#include <limits>

#include "machine/attention/heads.h"
#include "machine/memory/arena.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine::attention {
namespace {

using ir::BufferView;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// One row's operands.
struct RowCall {
  const BufferView &query, &key, &value;
  const BufferView* mask;
  const AttentionOptions& options;
  Sizes n{query, value, key};

  static const double* row(const BufferView& of, int64_t b, int64_t h, int64_t i) {
    return head_of<const double>(of, b, h) + i * of.strides[2];
  }

  double masked(double score, int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (options.causal && j > i) return kNever;
    if (!mask) return score;
    const MaskStrides m(*mask);
    const int64_t at = m.of(b, h) + i * m.row + j * m.column;
    if (!is_bool(*mask)) return score + static_cast<const double*>(mask->data)[at];
    return static_cast<const uint8_t*>(mask->data)[at] ? score : kNever;
  }

  void scores(int64_t b, int64_t h, int64_t i, double* to) const {
    const double* const q = row(query, b, h, i);
    for (int64_t j = 0; j < n.s; ++j) {
      const double* const k = row(key, b, h / n.group(), j);
      double sum = 0;
      for (int64_t l = 0; l < n.d; ++l) sum += q[l] * k[l];
      to[j] = masked(sum * options.scale, b, h, i, j);
    }
  }
};

void add_scaled(double* to, const double* from, double factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Row (b, h, i) of the result; returns its logsumexp.
double attend_row(const RowCall& c, int64_t b, int64_t h, int64_t i, double* p, double* result) {
  const Sizes& n = c.n;
  c.scores(b, h, i, p);
  double largest = kNever, total = 0;
  for (int64_t j = 0; j < n.s; ++j) largest = p[j] > largest ? p[j] : largest;
  const double base = largest == kNever ? 0 : largest;
  std::fill_n(result, n.e, 0.0);
  for (int64_t j = 0; j < n.s; ++j) {
    const double weight = std::exp(p[j] - base);
    total += weight;
    add_scaled(result, RowCall::row(c.value, b, h / n.group(), j), weight, n.e);
  }
  if (total == 0) return kNever;
  for (int64_t l = 0; l < n.e; ++l) result[l] /= total;
  return base + std::log(total);
}

/// What row (b, h, i) adds to the gradients of its keys and values, and its query's.
struct RowGradients {
  double *query, *keys, *values;
};

void gradients_of_row(const RowCall& c, std::span<const BufferView> in, int64_t b, int64_t h,
                      int64_t i, double* p, const RowGradients& to) {
  const Sizes& n = c.n;
  const double *g = RowCall::row(in[0], b, h, i), *result = RowCall::row(in[4], b, h, i);
  const double logsumexp = head_of<const double>(in[5], b, h)[i];
  const double base = logsumexp == kNever ? 0 : logsumexp, delta = dot(g, result, n.e);
  c.scores(b, h, i, p);
  for (int64_t j = 0; j < n.s; ++j) {
    const double weight = std::exp(p[j] - base);
    const double* const value = RowCall::row(c.value, b, h / n.group(), j);
    const double gradient = weight * (dot(g, value, n.e) - delta) * c.options.scale;
    add_scaled(to.values + j * n.e, g, weight, n.e);
    add_scaled(to.keys + j * n.d, RowCall::row(c.query, b, h, i), gradient, n.d);
    add_scaled(to.query, RowCall::row(c.key, b, h / n.group(), j), gradient, n.d);
  }
}

/// f(unit, a row of scores) for each unit.
template <class F>
void for_each_unit(int64_t units, double flops, int64_t scores, F f) {
  const auto row = static_cast<size_t>(scores);
  const ArenaLease scratch =
      borrow_arena(row * sizeof(double) * static_cast<size_t>(num_threads()));
  parallel_for(units, grain_of(flops), [&](int64_t begin, int64_t end, int worker) {
    double* const p = reinterpret_cast<double*>(scratch.data()) + row * static_cast<size_t>(worker);
    for (int64_t i = begin; i < end; ++i) f(i, p);
  });
}

}  // namespace

void attend_by_rows(std::span<const BufferView> in, const AttentionOptions& options,
                    std::span<const BufferView> out) {
  const RowCall c{in[0], in[1], in[2], in.size() > 3 ? &in[3] : nullptr, options};
  const Sizes& n = c.n;
  auto *const result = static_cast<double*>(out[0].data), *const sums =
                                                              static_cast<double*>(out[1].data);
  for_each_unit(n.b * n.h * n.t, 2 * static_cast<double>(n.s * (n.d + n.e)), n.s,
                [&](int64_t at, double* p) {
                  const int64_t head = at / n.t;
                  sums[at] = attend_row(c, head / n.h, head % n.h, at % n.t, p, result + at * n.e);
                });
}

void attend_backward_by_rows(std::span<const BufferView> in, const AttentionOptions& options,
                             std::span<const BufferView> out) {
  const RowCall c{in[1], in[2], in[3], in.size() > 6 ? &in[6] : nullptr, options};
  const Sizes& n = c.n;
  const auto to = [&](int i, int64_t at) { return static_cast<double*>(out[i].data) + at; };
  const auto unit = [&](int64_t at, double* p) {
    const int64_t b = at / n.hk, first = at % n.hk * n.group();
    RowGradients g{.query = to(0, (b * n.h + first) * n.t * n.d),
                   .keys = to(1, at * n.s * n.d),
                   .values = to(2, at * n.s * n.e)};
    std::fill_n(g.query, n.group() * n.t * n.d, 0.0);
    std::fill_n(g.keys, n.s * n.d, 0.0);
    std::fill_n(g.values, n.s * n.e, 0.0);
    for (int64_t i = 0; i < n.group() * n.t; ++i, g.query += n.d)
      gradients_of_row(c, in, b, first + i / n.t, i % n.t, p, g);
  };
  for_each_unit(n.b * n.hk, 5 * n.flops() * static_cast<double>(n.group()), n.s, unit);
}

}  // namespace tandem::machine::attention
