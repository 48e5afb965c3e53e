// Losses of class numbers: cross entropy with weights, margins between classes, several labels.
#include "runtime/networks/losses.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::reduced_tensor;
using runtime::V;

std::string function() { return ir::ErrorScope::function(); }

/// Classes, and a label for each row of them, of which some count for nothing.
struct Labelled {
  V rows;    // [c] or [n, c, d...]
  V labels;  // [] or [n, d...], a class even where it counts for nothing
  V valid;
};

Labelled labelled(Call& c, V x, const Tensor& target, int64_t ignore_index) {
  const V t = c.in(target, "target");
  if (c.b.dtype(t) != i64)
    ir::fail(Errc::DType,
             fmt::format("{}: target is not i64; expected class numbers in i64, got {}", function(),
                         ir::name(c.b.dtype(t))));
  const int rank = c.b.rank(x);
  if (rank < 1)
    ir::fail(Errc::Shape, fmt::format("{}: no dimension of classes; expected [c] or [n, c, ...], "
                                      "got []",
                                      function()));
  Shape sizes = c.b.sizes(x);
  sizes.erase(rank == 1 ? 0 : 1);
  if (c.b.sizes(t) != sizes && !(rank == 1 && c.b.numel(t) == 1))
    ir::fail(Errc::Shape, fmt::format("{}: target does not fit; expected {}, got {}", function(),
                                      to_string(sizes), to_string(c.b.sizes(t))));
  const V valid = c.b.ne(t, ignore_index), label = c.b.where(valid, t, int64_t{0});
  return {x, label, valid};
}

/// Along the dimension of classes of [c] or [n, c, ...].
int class_dim(Call& c, V x) { return c.b.rank(x) == 1 ? 0 : 1; }

/// What x [n, c, d...] has at the labels [n, d...].
V picked(Call& c, const Labelled& l) {
  const int dim = class_dim(c, l.rows);
  const V index = c.b.reshape(l.labels, [&] {
    Shape sizes = c.b.sizes(l.rows);
    sizes[dim] = 1;
    return sizes;
  }());
  return c.b.squeeze(c.b.gather(l.rows, dim, index), ir::Axes{dim});
}

V class_weights(Call& c, V x, const Tensor& weight) {
  const V w = c.in(weight, "weight");
  const Shape wanted{c.b.sizes(x)[class_dim(c, x)]};
  if (c.b.sizes(w) != wanted)
    ir::fail(Errc::Shape, fmt::format("{}: weight does not fit the classes; expected {}, got {}",
                                      function(), to_string(wanted), to_string(c.b.sizes(w))));
  return w;
}

/// The weight of each label, 0 where it counts for nothing.
V label_weights(Call& c, const Labelled& l, const Tensor& weight) {
  const DType dtype = c.b.dtype(l.rows);
  if (!weight.defined()) return c.b.reshape(c.b.convert(l.valid, dtype), c.b.sizes(l.labels));
  const V flat = c.b.reshape(l.labels, {c.b.numel(l.labels)});
  const V w = c.b.index_select(class_weights(c, l.rows, weight), 0, flat);
  return c.b.where(l.valid, c.b.reshape(w, c.b.sizes(l.labels)), 0);
}

/// The weighted mean of losses that are weighted already, or as the reduction asks.
V weighted_reduction(Call& c, V losses, V weights, std::string_view reduction) {
  if (reduction != "mean") return runtime::reduced(c, losses, reduction);
  return c.b.div(c.b.sum(losses), c.b.sum(weights));
}

V negative_log_likelihood(Call& c, const Labelled& l, V weights) {
  const V at_label = c.b.reshape(picked(c, l), c.b.sizes(l.labels));
  return c.b.where(l.valid, c.b.neg(c.b.mul(at_label, weights)), 0);
}

void require_smoothing(double value) {
  if (!(value >= 0 && value <= 1))
    ir::fail(Errc::Argument,
             fmt::format("{}: label_smoothing out of range; expected 0 to 1, got {}", function(),
                         value));
}

/// Each class's weight beside x [n, c, d...].
V beside_classes(Call& c, V x, V weight) {
  Shape sizes = Shape::filled(std::max(c.b.rank(x) - 1, 1), 1);
  sizes[0] = c.b.numel(weight);
  return c.b.reshape(weight, sizes);
}

/// -sum over the classes of weight * p * log_softmax(x); the mean is over rows.
V probability_loss(Call& c, V x, V p, const CrossEntropyOptions& o) {
  const int dim = class_dim(c, x);
  const Dim classes = c.b.sizes(x)[dim], count = c.b.numel(x);
  if (o.label_smoothing > 0)
    p = c.b.add(c.b.mul(p, 1 - o.label_smoothing),
                o.label_smoothing / static_cast<double>(int64_t{classes}));
  V terms = c.b.mul(c.b.log_softmax(x, dim), p);
  if (o.weight.defined())
    terms = c.b.mul(terms, beside_classes(c, x, class_weights(c, x, o.weight)));
  const V losses = c.b.neg(c.b.sum(terms, {dim}));
  if (o.reduction != "mean") return runtime::reduced(c, losses, o.reduction);
  const double rows = count == 0 ? 0 : static_cast<double>(int64_t{count / classes});
  return c.b.div(c.b.sum(losses), rows);
}

/// (1 - s) of the label's loss and s of the weighted mean over all classes.
V label_loss(Call& c, V x, const Tensor& target, const CrossEntropyOptions& o) {
  const int dim = class_dim(c, x);
  const V log_p = c.b.log_softmax(x, dim);
  const Labelled l = labelled(c, log_p, target, o.ignore_index);
  const V weights = label_weights(c, l, o.weight);
  const V loss =
      weighted_reduction(c, negative_log_likelihood(c, l, weights), weights, o.reduction);
  if (o.label_smoothing == 0) return loss;
  V all = c.b.neg(log_p);
  if (o.weight.defined()) all = c.b.mul(all, beside_classes(c, x, class_weights(c, x, o.weight)));
  const V sums = c.b.reshape(c.b.sum(all, {dim}), c.b.sizes(l.labels));
  const V smooth = weighted_reduction(c, c.b.where(l.valid, sums, 0), weights, o.reduction);
  const double share = o.label_smoothing / static_cast<double>(int64_t{c.b.sizes(x)[dim]});
  return c.b.add(c.b.mul(loss, 1 - o.label_smoothing), c.b.mul(smooth, share));
}

/// [] and [c] as [1, c].
V as_rows(Call& c, V x) {
  if (c.b.rank(x) > 2)
    ir::fail(Errc::Shape, fmt::format("{}: expected [c] or [n, c], got {}", function(),
                                      to_string(c.b.sizes(x))));
  return c.b.rank(x) == 2 ? x : c.b.unsqueeze(c.b.at_least_1d(x), 0);
}

/// A loss of each row, as the reduction asks; of one row, 0-d.
Tensor of_rows(Call& c, V losses, bool is_one, std::string_view reduction) {
  if (is_one) losses = c.b.reshape(losses, {});
  return reduced_tensor(c, losses, reduction);
}

/// Rows [n, c] of labels, up to the first -1: which are there.
V labels_there(Call& c, V labels) {
  const Shape sizes = c.b.sizes(labels);
  V there = c.b.ge(c.b.slice(labels, 1, 0, 1), 0);
  std::vector<V> columns{there};
  for (int64_t i = 1; i < sizes[1]; ++i) {
    there = c.b.logical_and(there, c.b.ge(c.b.slice(labels, 1, i, i + 1), 0));
    columns.push_back(there);
  }
  return c.b.cat(columns, 1);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options,
                     SourceLocation at) {
  Call c(at);
  const V x = c.in(logits, "logits");
  require_smoothing(options.label_smoothing);
  const V t = c.in(target, "target");
  if (!ir::is_floating(c.b.dtype(t))) return c.out(label_loss(c, x, target, options));
  require_same_sizes(c, x, t, "target");
  if (options.ignore_index >= 0)
    ir::fail(Errc::Argument, fmt::format("{}: ignore_index beside class probabilities; expected "
                                         "labels, or no ignore_index, got {}",
                                         function(), options.ignore_index));
  return c.out(probability_loss(c, x, t, options));
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllOptions& options,
                SourceLocation at) {
  Call c(at);
  const Labelled l =
      labelled(c, c.in(log_probabilities, "log_probabilities"), target, options.ignore_index);
  const V weights = label_weights(c, l, options.weight);
  return c.out(
      weighted_reduction(c, negative_log_likelihood(c, l, weights), weights, options.reduction));
}

// The mean over the other classes of weight[y] max(0, margin - x[y] + x[i])^p.
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, int64_t p, double margin,
                         const Tensor& weight, std::string_view reduction, SourceLocation at) {
  Call c(at);
  if (p != 1 && p != 2)
    ir::fail(Errc::Argument, fmt::format("{}: expected p of 1 or 2, got {}", function(), p));
  const V given = c.in(input, "input"), x = as_rows(c, given);
  const bool is_one = c.b.rank(given) < 2;
  const V labels = c.b.reshape(c.in(target, "target"), {c.b.sizes(x)[0], Dim(1)});
  const V own = c.b.gather(x, 1, labels);
  V terms = c.b.relu(c.b.add(c.b.sub(x, own), margin));
  if (p == 2) terms = c.b.square(terms);
  if (weight.defined()) {
    const V flat = c.b.reshape(labels, {c.b.sizes(x)[0]});
    const V w = c.b.index_select(class_weights(c, x, weight), 0, flat);
    terms = c.b.mul(terms, c.b.unsqueeze(w, 1));
  }
  const Dim classes = c.b.sizes(x)[1];
  const V others = c.b.ne(c.b.iota(classes, i64), labels);
  const V sums = c.b.sum(c.b.where(others, terms, 0), {1});
  return of_rows(c, c.b.div(sums, static_cast<double>(int64_t{classes})), is_one, reduction);
}

// The sum over labels j and classes i that are none of max(0, 1 - (x[j] - x[i])) / classes.
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                              SourceLocation at) {
  Call c(at);
  const V given = c.in(input, "input"), x = as_rows(c, given);
  const V labels = as_rows(c, c.in(target, "target"));
  require_same_sizes(c, x, labels, "target");
  const V there = labels_there(c, labels), safe = c.b.where(there, labels, int64_t{0});
  const Dim classes = c.b.sizes(x)[1];
  const V own = c.b.unsqueeze(c.b.gather(x, 1, safe), 2);  // [n, j, 1]
  const V is_label = c.b.logical_and(c.b.eq(c.b.unsqueeze(safe, 2), c.b.iota(classes, i64)),
                                     c.b.unsqueeze(there, 2));  // [n, j, i]
  const V is_other =
      c.b.logical_not(c.b.reduce(ir::Op::any, is_label, ir::Axes{1}, true));  // [n, 1, i]
  const V terms = c.b.relu(c.b.add(c.b.sub(c.b.unsqueeze(x, 1), own), 1));
  const V counts = c.b.logical_and(c.b.unsqueeze(there, 2), is_other);
  const V sums = c.b.sum(c.b.where(counts, terms, 0), {1, 2});
  return of_rows(c, c.b.div(sums, static_cast<double>(int64_t{classes})), c.b.rank(given) < 2,
                 reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                                   std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V x = c.in(input, "input"), y = c.in(target, "target");
  const V positive = c.b.mul(y, c.b.pointwise(ir::Op::log_sigmoid, {x}));
  const V negative = c.b.mul(c.b.sub(1, y), c.b.pointwise(ir::Op::log_sigmoid, {c.b.neg(x)}));
  V losses = c.b.neg(c.b.add(positive, negative));
  if (weight.defined()) losses = c.b.mul(losses, c.in(weight, "weight"));
  return reduced_tensor(c, c.b.mean(losses, {-1}), reduction);
}

}  // namespace tandem
