// Losses.
#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {
namespace {

/// What the terms of cross entropy share; all [n, 1] but centred [n, c].
struct Rows {
  V max, centred, log_sum;
};

// log_softmax(x)[i, j] = centred[i, j] - log_sum[i]
Rows rows_of(Builder& b, V x) {
  const V max = b.amax(x, {1}, true);
  const V centred = b.sub(x, max);
  return {max, centred, b.log(b.sum(b.exp(centred), {1}, true))};
}

/// -log_softmax(x)[i, target[i]], [n].
V negative_log_likelihood(Builder& b, const Rows& rows, V x, V target) {
  const Dim n = b.sizes(x)[0];
  const V logit = b.gather(x, 1, b.reshape(target, {n, 1}));
  return b.reshape(b.sub(rows.log_sum, b.sub(logit, rows.max)), {n});
}

/// -sum_j log_softmax(x)[i, j], [n].
V negative_log_sum(Builder& b, const Rows& rows) {
  return b.sum(b.sub(rows.log_sum, rows.centred), {1});
}

}  // namespace

// loss_i = (1 - s) nll_i + s / c sum_j -log_softmax(x)_ij; 0 where target_i is ignored; its mean is
// over the rows that are not
V cross_entropy(Context& c) {
  Builder& b = c.b;
  const V x = c[0];
  const double smoothing = c.attr<double>(Attr::label_smoothing);
  const V ignored = b.eq(c[1], c.attr<int64_t>(Attr::ignore_index));
  const Rows rows = rows_of(b, x);
  V loss = negative_log_likelihood(b, rows, x, b.where(ignored, 0, c[1]));
  if (smoothing != 0) {
    const double share = smoothing / static_cast<double>(b.sizes(x)[1]);
    loss = b.add(b.mul(loss, 1 - smoothing), b.mul(negative_log_sum(b, rows), share));
  }
  loss = b.where(ignored, 0, loss);
  const std::string& reduction = c.attr<std::string>(Attr::reduction);
  if (reduction == "none") return loss;
  const V total = b.sum(loss);
  if (reduction == "sum") return total;
  return b.div(total, b.sum(b.convert(b.logical_not(ignored), b.dtype(x))));
}

}  // namespace tandem::decomps::rules
