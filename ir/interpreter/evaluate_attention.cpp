// Definitions of attention that holds no scores, and of its gradients.
#include <cmath>
#include <limits>

#include "ir/interpreter/evaluate.h"

namespace tandem::ir::evaluate {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Operands from `first` on are query, key and value; there may be a mask behind all others.
struct Heads {
  const Context& c;
  int first, others;
  const Shape& q = c.operand(first).sizes();
  const Shape& v = c.operand(first + 2).sizes();
  int64_t h = q[1], hk = v[1], t = q[2], s = v[2], d = q[3], e = v[3];

  int64_t rows() const { return int64_t{q[0]} * h * t; }  // row = (batch * h + head) * t + query
  /// Row `j` of the keys, or values, that query row `row` sees.
  int64_t seen(int64_t row, int64_t j) const {
    const int64_t head = row / t % h, batch = row / t / h;
    return (batch * hk + head / (h / hk)) * s + j;
  }
  const double* at(int operand, int64_t row, int64_t width) const {
    return elements<double>(c.operand(operand)) + row * width;
  }

  double masked(int64_t row, int64_t j, double score) const {
    const int64_t i = row % t;
    if (c.attr<bool>(Attr::is_causal) && j > i) return kNever;
    if (static_cast<int>(c.operands.size()) <= others) return score;
    const Tensor& mask = c.operand(others);
    Shape index{row / t / h, row / t % h, i, j};
    for (int k = 0; k < 4; ++k)
      if (mask.sizes()[k] == 1) index[k] = 0;
    const int64_t place = position_of(index, contiguous_strides(mask.sizes()));
    if (mask.dtype() != DType::Bool) return score + elements<double>(mask)[place];
    return elements<int64_t>(mask)[place] ? score : kNever;
  }

  double score(int64_t row, int64_t j) const {
    const double *query = at(first, row, d), *key = at(first + 1, seen(row, j), d);
    double sum = 0;
    for (int64_t l = 0; l < d; ++l) sum += query[l] * key[l];
    return masked(row, j, sum * c.attr<double>(Attr::scale));
  }
};

/// The logarithm of the sum of exp(score) over a row.
double logsumexp(const std::vector<double>& scores) {
  double largest = kNever, sum = 0;
  for (const double score : scores) largest = score > largest ? score : largest;
  if (largest == kNever) largest = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  return sum == 0 ? kNever : largest + std::log(sum);
}

double weight(double score, double logsumexp) {
  return std::exp(score - (logsumexp == kNever ? 0 : logsumexp));
}

}  // namespace

std::array<Tensor, 2> flash_attention(const Context& c) {
  const Heads n{c, 0, 3};
  Tensor result = zeros(c.result()), sums = zeros(c.result(1));
  for (int64_t row = 0; row < n.rows(); ++row) {
    std::vector<double> scores;
    for (int64_t j = 0; j < n.s; ++j) scores.push_back(n.score(row, j));
    const double sum = elements<double>(sums)[row] = logsumexp(scores);
    for (int64_t j = 0; j < n.s; ++j)
      for (int64_t l = 0; l < n.e; ++l)
        elements<double>(result)[row * n.e + l] +=
            weight(scores[static_cast<size_t>(j)], sum) * n.at(2, n.seen(row, j), n.e)[l];
  }
  return {result, sums};
}

// p = exp(scores - logsumexp), ds = p (g v^T - sum(g result)) scale: ds k, ds^T q, p^T g
std::array<Tensor, 3> flash_attention_backward(const Context& c) {
  const Heads n{c, 1, 6};
  const std::array<Tensor, 3> gradients{zeros(c.result()), zeros(c.result(1)), zeros(c.result(2))};
  const auto to = [&](size_t i, int64_t row, int64_t width) {
    return elements<double>(gradients[i]) + row * width;
  };
  for (int64_t row = 0; row < n.rows(); ++row) {
    const double *g = n.at(0, row, n.e), *result = n.at(4, row, n.e);
    double delta = 0;
    for (int64_t l = 0; l < n.e; ++l) delta += g[l] * result[l];
    for (int64_t j = 0; j < n.s; ++j) {
      const int64_t key = n.seen(row, j);
      const double p = weight(n.score(row, j), *n.at(5, row, 1));
      double ds = -delta;
      for (int64_t l = 0; l < n.e; ++l) ds += g[l] * n.at(3, key, n.e)[l];
      ds *= p * c.attr<double>(Attr::scale);
      for (int64_t l = 0; l < n.d; ++l) {
        to(0, row, n.d)[l] += ds * n.at(2, key, n.d)[l];
        to(1, key, n.d)[l] += ds * n.at(1, row, n.d)[l];
      }
      for (int64_t l = 0; l < n.e; ++l) to(2, key, n.e)[l] += p * g[l];
    }
  }
  return gradients;
}

}  // namespace tandem::ir::evaluate
