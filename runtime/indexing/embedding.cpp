// Rows of tables at positions that are data: embedding, embedding_bag, one_hot.
#include <fmt/format.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/sorting.h>

#include <limits>

#include "ir/base/error.h"
#include "runtime/indexing/positions.h"
#include "runtime/ops/reduce/along.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::along;
using runtime::Call;
using runtime::V;

[[noreturn]] void refuse(Errc code, std::string_view what) {
  ir::fail(code, fmt::format("{}: {}", ErrorScope::function(), what));
}

/// The identity, but gradients are divided by how often each row is read.
struct ByFrequency : Function<ByFrequency> {
  static Tensor forward(FunctionContext& c, const Tensor& rows, const Tensor& frequency) {
    c.save_for_backward({frequency});
    return rows.clone();
  }
  static std::vector<Tensor> backward(FunctionContext& c, const std::vector<Tensor>& grads) {
    return {grads[0] / c.saved()[0], {}};
  }
};

/// How often each of `indices` [n] is among them: [n, 1].
Tensor frequencies(const Tensor& weight, const Tensor& indices, const SourceLocation& at) {
  const Tensor zeros = tandem::zeros({weight.size(0)}, f32, at);
  const Tensor counts = index_add(zeros, 0, indices, ones(indices.sizes(), f32, at), at);
  return index_select(counts, 0, indices, at).to(weight.dtype(), at).unsqueeze(1, at);
}

void require_table(const Tensor& weight, bool sparse) {
  if (!weight.defined())
    refuse(Errc::Argument, "undefined tensor as weight; expected a tensor, got none");
  if (weight.dim() != 2)
    refuse(Errc::Shape, fmt::format("weight is not a matrix; expected [v, d], got {}",
                                    to_string(weight.sizes())));
  if (sparse) refuse(Errc::Argument, "no sparse gradients; expected sparse = false, got true");
}

/// Which row is padding, counted from the start.
std::optional<int64_t> padding_row(const Tensor& weight, std::optional<int64_t> padding_idx) {
  if (!padding_idx) return {};
  const int64_t rows = weight.size(0), row = *padding_idx;
  if (row < -rows || row >= rows)
    refuse(Errc::Index, fmt::format("padding_idx out of range; expected {} to {}, got {}", -rows,
                                    rows - 1, row));
  return row < 0 ? row + rows : row;
}

/// Brings the rows that are read, in the table, to norms of at most max_norm.
void renormalize(const Tensor& weight, const Tensor& indices, double norm_type, double max_norm,
                 const SourceLocation& at) {
  if (runtime::Trace::current() != nullptr)
    refuse(Errc::Trace,
           "max_norm writes the table; expected a call without it, or outside of traces");
  const NoGrad no_grad;
  const Tensor read = indices.reshape({-1}, at);
  const Tensor rows = index_select(weight, 0, read, at);
  weight.index_copy_(0, read, renorm(rows, norm_type, 0, max_norm, at), at);
}

/// Rows of the table [n, d], with the gradients that the options ask for.
Tensor rows_at(const Tensor& weight, const Tensor& indices, bool scale_grad_by_freq,
               const SourceLocation& at) {
  const Tensor rows = embedding(weight, indices, at);
  return scale_grad_by_freq ? ByFrequency::apply(rows, frequencies(weight, indices, at)) : rows;
}

// --- embedding_bag

enum class Mode : uint8_t { Sum, Mean, Max };

Mode mode_named(std::string_view name) {
  if (name == "sum") return Mode::Sum;
  if (name == "mean") return Mode::Mean;
  if (name == "max") return Mode::Max;
  refuse(Errc::Argument, fmt::format("unknown mode; expected sum, mean or max, got {}", name));
}

void require_options(const Tensor& indices, const EmbeddingBagOptions& options, Mode mode) {
  const Tensor &weights = options.per_sample_weights, &offsets = options.offsets;
  if (indices.dim() != 1 && indices.dim() != 2)
    refuse(Errc::Shape, fmt::format("indices are neither [n] nor [bags, n]; got {}",
                                    to_string(indices.sizes())));
  if (indices.dim() == 2 && offsets.defined())
    refuse(Errc::Argument,
           "offsets beside indices of two dimensions, whose rows are the bags; "
           "expected none, got some");
  if (indices.dim() == 1 && (!offsets.defined() || offsets.dim() != 1))
    refuse(Errc::Argument, "indices of one dimension have no bags; expected offsets [bags]");
  if (mode == Mode::Max && options.scale_grad_by_freq)
    refuse(Errc::Argument, "scale_grad_by_freq of maxima; expected mode sum or mean, got max");
  if (!weights.defined()) return;
  if (mode != Mode::Sum)
    refuse(Errc::Argument, "per_sample_weights; expected mode sum, got another");
  if (weights.sizes() != indices.sizes())
    refuse(Errc::Shape,
           fmt::format("per_sample_weights do not fit the indices; expected {}, got {}",
                       to_string(indices.sizes()), to_string(weights.sizes())));
}

/// Outside of traces, where they can be looked at.
void require_offsets(const Tensor& offsets, Dim count, const SourceLocation& at) {
  if (runtime::Trace::current() != nullptr || offsets.numel() == 0) return;
  const auto first = offsets[0].item<int64_t>(at), last = offsets[-1].item<int64_t>(at);
  if (first != 0)
    refuse(Errc::Argument,
           fmt::format("offsets do not begin where indices do; expected 0, got {}", first));
  if (last > int64_t{count})
    refuse(Errc::Argument, fmt::format("offsets go beyond the indices; expected at most {}, got {}",
                                       int64_t{count}, last));
}

/// What is read, one bag after the other.
struct Bags {
  Tensor indices, bag;  // [n]: positions in the table; which bag each belongs to
  Dim count;
};

Bags bags_of(const Tensor& indices, const EmbeddingBagOptions& options, const SourceLocation& at) {
  const Tensor flat = indices.reshape({-1}, at);
  const Tensor places = arange(int64_t{flat.numel()}, i64, at);
  if (indices.dim() == 2) {
    const int64_t length = std::max<int64_t>(indices.size(1), 1);
    return {flat, floor_divide(Located(places, at), Located(length, at)), indices.size(0)};
  }
  require_offsets(options.offsets, flat.numel(), at);
  const Tensor behind =
      searchsorted(options.offsets.to(i64, at), Located(places, at), {.right = true});
  const Dim count = options.offsets.numel() - (options.include_last_offset ? 1 : 0);
  if (count < 0) refuse(Errc::Argument, "no last offset; expected at least one, got none");
  return {flat, sub(Located(behind, at), Located(1, at)), count};
}

/// What bags are summed in.
DType wide_of(DType dtype) { return dtype == f64 ? f64 : f32; }

/// Sums or means of bags of equal length [bags, n], made in one pass: nothing holds the rows.
Tensor of_equal_bags(const Tensor& weight, const Tensor& indices, const Tensor& per_sample_weights,
                     std::optional<int64_t> padding, Mode mode, const SourceLocation& at) {
  Call c(at);
  const V places = c.in(indices);
  V rows = c.b.embedding(c.in(weight), places);
  if (per_sample_weights.defined())
    rows = c.b.mul(rows, c.b.unsqueeze(c.in(per_sample_weights), 2));
  const DType wide = wide_of(c.b.dtype(rows));
  rows = c.b.convert(rows, wide);
  V counts = c.b.full({indices.size(0), 1}, wide, Number(int64_t{indices.size(1)}));
  if (padding) {
    const V kept = c.b.unsqueeze(c.b.ne(places, *padding), 2);
    rows = c.b.where(kept, rows, 0);
    counts = c.b.sum(c.b.convert(kept, wide), {1});
  }
  V result = c.b.sum(rows, {1});
  if (mode == Mode::Mean) result = c.b.div(result, c.b.maximum(counts, 1));
  return c.out(c.b.convert(result, weight.dtype()));
}

/// Sums of rows [n, d] by bag; halves are summed in f32.
Tensor sums(const Tensor& rows, const Bags& bags, const SourceLocation& at) {
  const DType wide = wide_of(rows.dtype());
  const Tensor start = zeros({bags.count, rows.size(1)}, wide, at);
  return index_add(start, 0, bags.bag, rows.to(wide, at), at);
}

Tensor means(const Tensor& rows, const Bags& bags, const Tensor& kept, const SourceLocation& at) {
  const Tensor total = sums(rows, bags, at);
  const Tensor start = zeros({bags.count}, total.dtype(), at);
  const Tensor counts = index_add(start, 0, bags.bag, kept.to(total.dtype(), at), at);
  const Tensor divisors = clamp_min(Located(counts, at), Located(1, at)).unsqueeze(1, at);
  return div(Located(total, at), Located(divisors, at));
}

// By column the first row of each bag that is its maximum: the gradient is its alone, as in ATen.
Tensor maxima(const Tensor& rows, const Bags& bags, const Tensor& kept, const SourceLocation& at) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Call c(at);
  const V x = c.in(rows), used = c.b.unsqueeze(c.in(kept), 1);
  const Shape sizes = c.b.sizes(x), result{bags.count, sizes[1]};
  const V bag = along(c, c.in(bags.bag), sizes, 0), values = c.b.stop_gradient(x);
  const V lowest = c.b.full(result, rows.dtype(), -kInfinity);
  const V top = c.b.gather(
      c.b.scatter_into(Op::scatter_amax, lowest, 0, bag, c.b.where(used, values, -kInfinity)), 0,
      bag);
  const V both_nan = c.b.logical_and(c.b.isnan(values), c.b.isnan(top));
  const V is_top = c.b.logical_and(used, c.b.logical_or(c.b.eq(values, top), both_nan));
  const Number none(int64_t{sizes[0]});
  const V place = along(c, c.b.iota(sizes[0], i64), sizes, 0);
  const V first = c.b.scatter_into(Op::scatter_amin, c.b.full(result, i64, none), 0, bag,
                                   c.b.where(is_top, place, none));
  const V found = c.b.lt(first, none);
  return c.out(c.b.where(found, c.b.gather(x, 0, c.b.where(found, first, 0)), 0));
}

Tensor reduced(const Tensor& rows, const Bags& bags, const Tensor& kept, Mode mode,
               const SourceLocation& at) {
  if (mode == Mode::Max && bags.indices.numel() > 0) return maxima(rows, bags, kept, at);
  const Tensor used = where(kept.unsqueeze(1, at), Located(rows, at), Located(0, at));
  return mode == Mode::Mean ? means(used, bags, kept, at) : sums(used, bags, at);
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, SourceLocation at) {
  Call c(at);
  const V v = c.in(weight, "weight");
  return c.out(c.b.embedding(v, c.in(indices, "indices")));
}

Tensor embedding(const Tensor& weight, const Tensor& indices, const EmbeddingOptions& options,
                 SourceLocation at) {
  const ErrorScope errors(at);
  require_table(weight, options.sparse);
  const auto padding = padding_row(weight, options.padding_idx);
  if (options.max_norm) renormalize(weight, indices, options.norm_type, *options.max_norm, at);
  const Tensor flat = indices.reshape({-1}, at);
  Tensor rows = rows_at(weight, flat, options.scale_grad_by_freq, at);
  if (padding) {
    const Tensor is_padding = eq(Located(flat, at), Located(*padding, at)).unsqueeze(1, at);
    rows = where(is_padding, Located(rows.detach(at), at), Located(rows, at));
  }
  Shape sizes = indices.sizes();
  sizes.push_back(weight.size(1));
  return rows.view(sizes, at);
}

Tensor embedding_bag(const Tensor& weight, const Tensor& indices,
                     const EmbeddingBagOptions& options, SourceLocation at) {
  const ErrorScope errors(at);
  require_table(weight, options.sparse);
  const Mode mode = mode_named(options.mode);
  require_options(indices, options, mode);
  const auto padding = padding_row(weight, options.padding_idx);
  const bool are_equal = indices.dim() == 2 && mode != Mode::Max && !options.scale_grad_by_freq;
  // (Offsets are looked at before anything is written.)
  const Bags bags = are_equal ? Bags() : bags_of(indices, options, at);
  if (options.max_norm) renormalize(weight, indices, options.norm_type, *options.max_norm, at);
  if (are_equal)
    return of_equal_bags(weight, indices, options.per_sample_weights, padding, mode, at);
  Tensor rows = rows_at(weight, bags.indices, options.scale_grad_by_freq, at);
  if (options.per_sample_weights.defined())
    rows = mul(Located(rows, at), Located(options.per_sample_weights.reshape({-1, 1}, at), at));
  const Tensor kept = padding ? ne(Located(bags.indices, at), Located(*padding, at))
                              : ones(bags.indices.sizes(), boolean, at);
  return reduced(rows, bags, kept, mode, at).to(weight.dtype(), at);
}

Tensor one_hot(const Tensor& labels, Dim classes, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (labels.dtype() != i64)
    ir::fail(Errc::DType, fmt::format("one_hot: labels are not class numbers; expected i64, got {}",
                                      ir::name(labels.dtype())));
  if (classes < 1)
    ir::fail(Errc::Argument,
             fmt::format("one_hot: no classes; expected at least 1, got {}", int64_t{classes}));
  // A label is looked up among the classes, which refuses what is none; to be equal to one is then
  // computed wherever it is used.
  Call c(at);
  Shape sizes = labels.sizes();
  const V numbers = c.b.iota(classes, i64), flat = c.b.reshape(c.in(labels, "labels"), {-1}),
          column = c.b.reshape(c.b.index_select(numbers, 0, flat), sizes);
  sizes.push_back(classes);
  const V is_class =
      c.b.eq(c.b.expand(c.b.unsqueeze(column, -1), sizes), c.b.expand(numbers, sizes));
  return c.out(c.b.convert(is_class, i64));
}

Tensor one_hot(const Tensor& labels, SourceLocation at) {
  const ir::ErrorScope errors(at);
  runtime::require_no_trace("the number of classes");
  if (labels.numel() == 0)
    ir::fail(Errc::Argument,
             "one_hot: no labels say how many classes there are; expected their number, got none");
  return one_hot(labels, Dim(amax(labels, {}, false, at).item<int64_t>(at) + 1), at);
}

}  // namespace tandem
