// Sums without NaN, counts, and what has a size that depends on data.
#include <tandem/indexing.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/sorting.h>

#include <algorithm>
#include <cmath>

#include "runtime/indexing/positions.h"
#include "runtime/indexing/true_places.h"
#include "runtime/ops/reduce/along.h"
#include "runtime/ops/reduce/runs.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using runtime::Call;
using runtime::V;

/// self, perhaps as another dtype.
V as_dtype(Call& c, const Tensor& self, std::optional<DType> dtype) {
  const V x = c.in(self);
  return dtype ? c.b.convert(x, *dtype) : x;
}

V sum_without_nan(Call& c, V x, const DimList& dims, bool keepdim) {
  if (!ir::is_floating(c.b.dtype(x))) return c.b.sum(x, dims.dims, keepdim);
  return c.b.sum(c.b.where(c.b.isnan(x), 0, x), dims.dims, keepdim);
}

// --- histc

struct Range {
  Tensor low, high;  // 0-d
};

Range bins_range(const Tensor& self, double min, double max, const SourceLocation& at) {
  if (!(min <= max) || !std::isfinite(max - min))
    ir::fail(Errc::Argument,
             fmt::format("histc: no finite range; expected min <= max, got {} and {}", min, max));
  Tensor low = full({}, min, self.dtype(), at), high = full({}, max, self.dtype(), at);
  if (min == max && self.numel() > 0) {
    const MinMax extremes = aminmax(self.detach(), {}, false, at);
    low = extremes.min, high = extremes.max;
  }
  const Tensor is_point = low == high;
  return {where(is_point, low - 1, low), where(is_point, high + 1, high)};
}

// --- one place for each of what is kept

/// Which of `size` places each true element gets; all others share one more, the last.
V kept_places(Call& c, V mask, Dim size) {
  const Number last(int64_t{size});
  return c.b.clamp(c.b.where(mask, c.b.sub(runtime::counts(c, mask), 1), last), {}, last);
}

/// The first of each run of equal elements (slices) along dimension 0.
Tensor run_starts(const Tensor& values, const SourceLocation& at) {
  const Tensor head = slice(values, 0, 1, {}, 1, at), before = slice(values, 0, 0, -1, 1, at);
  Tensor differs = head != before;
  if (values.dim() > 1) {
    ir::Axes inner;
    for (int d = 1; d < values.dim(); ++d) inner.push_back(d);
    differs = any(differs, inner, false, at);
  }
  const Tensor first = full({std::min<Dim>(values.size(0), 1)}, true, boolean, at);
  return cat({first, differs}, 0, at);
}

/// Which run each belongs to.
Tensor run_numbers(const Tensor& starts, const SourceLocation& at) {
  return cumsum(starts, 0, {}, at) - 1;
}

/// How many are kept, and what stands where there are fewer.
struct Limit {
  Dim size;
  Number fill;
};

/// The first of each run in a place of its own, as far as the limit goes: [size, ...].
Unique limited(const Tensor& ordered, const Limit& limit, const SourceLocation& at) {
  const Tensor runs = run_numbers(run_starts(ordered, at), at);
  Shape sizes = ordered.sizes();
  sizes[0] = limit.size + 1;
  const Tensor place = clamp_max(runs, int64_t{limit.size});
  const Tensor filled = full(sizes, limit.fill, ordered.dtype(), at);
  const Tensor values = index_copy(filled, 0, place, ordered, at);
  const Tensor counts = bincount_static(place, limit.size + 1, {}, at);
  return {slice(values, 0, 0, limit.size, 1, at), runs, slice(counts, 0, 0, limit.size, 1, at)};
}

/// The same of all runs.
Unique unlimited(const Tensor& ordered, const SourceLocation& at) {
  if (ordered.dim() == 1) return runtime::runs_of(ordered);
  const Tensor starts = run_starts(ordered, at);
  const Tensor first = runtime::true_positions(starts)[0];
  const Dim n = starts.numel();
  const Tensor end = full({std::min<Dim>(n, 1)}, int64_t{n}, i64, at);
  return {index_select(ordered, 0, first, at), run_numbers(starts, at),
          diff(first, 1, 0, {}, end, at)};
}

/// From `ordered`, which is self's slices in the order `places` (undefined: as they are).
Unique unique_of(const Tensor& ordered, const Tensor& places, const std::optional<Limit>& limit,
                 const SourceLocation& at) {
  Unique found = limit ? limited(ordered, *limit, at) : unlimited(ordered, at);
  if (places.defined())
    found.inverse = scatter(zeros_like(found.inverse, {}, at), 0, places, found.inverse);
  return found;
}

/// An order that brings rows [n, m] into lexicographic order: sorted by each column, the last one
/// first.
Tensor row_order(const Tensor& rows, const SourceLocation& at) {
  Tensor order = arange(int64_t{rows.size(0)}, {}, at);
  for (int64_t column = rows.size(1); column-- > 0;) {
    const Tensor keys = index_select(select(rows, 1, column, at), 0, order, at);
    order = index_select(order, 0, argsort(keys, 0, false, true, at), at);
  }
  return order;
}

/// Of all elements, in ascending order or as they are.
Unique unique_elements(const Tensor& self, bool sorts, const std::optional<Limit>& limit,
                       const SourceLocation& at) {
  const Tensor flat = reshape(self, {-1}, at);
  const ValuesAndIndices order =
      sorts ? sort(flat, 0, false, true, at) : ValuesAndIndices{flat, Tensor()};
  Unique found = unique_of(order.values, order.indices, limit, at);
  found.inverse = found.inverse.view(self.sizes(), at);
  return found;
}

/// Of slices along `dim`.
Unique unique_slices(const Tensor& self, int64_t dim, bool sorts, const std::optional<Limit>& limit,
                     const SourceLocation& at) {
  const Tensor first = movedim(self, dim, 0, at);
  const Dim each = ir::numel(Shape(std::span(first.sizes().begin() + 1, first.sizes().end())));
  const Tensor rows = reshape(first, {first.size(0), each}, at);
  const Tensor order = sorts ? row_order(rows, at) : Tensor();
  Unique found = unique_of(sorts ? index_select(first, 0, order, at) : first, order, limit, at);
  found.values = movedim(found.values, 0, dim, at);
  return found;
}

Unique unique_of(const Tensor& self, std::optional<int64_t> dim, bool sorts,
                 const std::optional<Limit>& limit, const SourceLocation& at) {
  if (!limit) runtime::require_no_trace(ErrorScope::function() + "_static, which takes the size");
  if (limit && limit->size < 0)
    ir::fail(Errc::Argument, fmt::format("{}: expected a size of at least 0, got {}",
                                         ErrorScope::function(), int64_t{limit->size}));
  const NoGrad no_grad;
  return dim ? unique_slices(self, *dim, sorts, limit, at)
             : unique_elements(self, sorts, limit, at);
}

void require_numbers_from_zero(const Tensor& self) {
  if (!ir::is_integer(self.dtype()) || self.dim() != 1)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected a vector of integers, got {} of {}", ErrorScope::function(),
                         to_string(self.sizes()), ir::name(self.dtype())));
}

}  // namespace

Tensor nansum(const Tensor& self, const DimList& dims, bool keepdim, std::optional<DType> dtype,
              SourceLocation at) {
  Call c(at);
  return c.out(sum_without_nan(c, as_dtype(c, self, dtype), dims, keepdim));
}
Tensor nanmean(const Tensor& self, const DimList& dims, bool keepdim, std::optional<DType> dtype,
               SourceLocation at) {
  Call c(at);
  runtime::require_floating(self);
  const V x = as_dtype(c, self, dtype);
  const V count = c.b.sum(c.b.logical_not(c.b.isnan(x)), dims.dims, keepdim);
  return c.out(c.b.div(sum_without_nan(c, x, dims, keepdim), c.b.convert(count, c.b.dtype(x))));
}
Tensor count_nonzero(const Tensor& self, const DimList& dims, SourceLocation at) {
  Call c(at);
  return c.out(c.b.sum(c.b.ne(c.in(self), 0), dims.dims));
}
Tensor max(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ErrorScope errors(at);
  return maximum(Located(self, at), Located(other, at));
}
Tensor min(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ErrorScope errors(at);
  return minimum(Located(self, at), Located(other, at));
}
Tensor sum_to_size(const Tensor& self, const Shape& sizes, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  if (c.b.broadcast(self.sizes(), sizes, "sum_to_size") != self.sizes())
    ir::fail(Errc::Shape, fmt::format("sum_to_size: expected sizes that broadcast to {}, got {}",
                                      to_string(self.sizes()), to_string(sizes)));
  // To no dimensions is ATen's sum, whatever it is of.
  const bool is_summed =
      ir::is_integral(self.dtype()) && (self.sizes() != sizes || sizes.rank() == 0);
  const V wide = is_summed ? c.b.convert(x, i64) : x;
  return c.out(c.b.sum_to(wide, sizes));
}
Tensor trace(const Tensor& self, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  if (self.dim() != 2)
    ir::fail(Errc::Shape, fmt::format("trace: expected a matrix, got {}", to_string(self.sizes())));
  return c.out(c.b.sum(c.b.diagonal(x, 0, 0, 1)));
}

Tensor histc(const Tensor& self, int64_t bins, double min, double max, SourceLocation at) {
  const ErrorScope errors(at);
  runtime::require_floating(self);
  if (bins < 1)
    ir::fail(Errc::Argument, fmt::format("histc: expected at least one bin, got {}", bins));
  const Range range = bins_range(self, min, max, at);
  const Tensor x = reshape(self.detach(), {-1}, at);
  const Tensor inside = (x >= range.low) & (x <= range.high);
  const Tensor place = trunc((x - range.low) * bins / (range.high - range.low), at);
  const Tensor bin = clamp_max(where(inside, place, 0).to(i64, at), bins - 1);
  const Tensor counts =
      scatter_add(zeros({bins + 1}, self.dtype(), at), 0, where(inside, bin, bins),
                  ones({}, self.dtype(), at).expand(x.sizes()), at);
  return slice(counts, 0, 0, bins, 1, at).contiguous(at);
}

Tensor bincount_static(const Tensor& self, Dim size, const Tensor& weights, SourceLocation at) {
  const ErrorScope errors(at);
  require_numbers_from_zero(self);
  if (weights.defined() && weights.sizes() != self.sizes())
    ir::fail(Errc::Shape,
             fmt::format("{}: weights do not fit; expected {}, got {}", ErrorScope::function(),
                         to_string(self.sizes()), to_string(weights.sizes())));
  const DType dtype = !weights.defined() ? i64 : weights.dtype() == f32 ? f32 : f64;
  const Tensor each =
      weights.defined() ? weights.detach().to(dtype, at) : ones({}, dtype, at).expand(self.sizes());
  return scatter_add(zeros({size}, dtype, at), 0, self.to(i64, at), each, at);
}
Tensor bincount(const Tensor& self, const Tensor& weights, int64_t minlength, SourceLocation at) {
  const ErrorScope errors(at);
  runtime::require_no_trace("bincount_static, which takes the size");
  require_numbers_from_zero(self);
  if (minlength < 0)
    ir::fail(Errc::Argument,
             fmt::format("bincount: expected a minlength of at least 0, got {}", minlength));
  int64_t size = minlength;
  if (self.numel() > 0) {
    const MinMax extremes = aminmax(self, {}, false, at);
    const auto lowest = extremes.min.item<int64_t>(at);
    if (lowest < 0)
      ir::fail(Errc::Argument,
               fmt::format("bincount: expected numbers of at least 0, got {}", lowest));
    size = std::max(size, extremes.max.item<int64_t>(at) + 1);
  }
  return bincount_static(self, size, self.numel() > 0 ? weights : Tensor(), at);
}

Tensor nonzero(const Tensor& self, SourceLocation at) {
  const ErrorScope errors(at);
  runtime::require_no_trace("nonzero_static, which takes the size");
  return runtime::true_places(self.dtype() == boolean ? self : self.detach() != 0);
}
Tensor argwhere(const Tensor& self, SourceLocation at) {
  const ErrorScope errors(at);
  return nonzero(self, at);
}
Tensor masked_select(const Tensor& self, const Tensor& mask, SourceLocation at) {
  Call c(at);
  runtime::require_no_trace("masked_select_static, which takes the size");
  const V x = c.in(self), chosen = c.in(mask, "mask");
  if (mask.dtype() != boolean)
    ir::fail(Errc::DType, fmt::format("masked_select: mask is not a mask; expected bool, got {}",
                                      ir::name(mask.dtype())));
  const Shape sizes = c.b.broadcast(self.sizes(), mask.sizes(), "masked_select");
  const V flat = c.b.reshape(c.b.expand(x, sizes), {ir::numel(sizes)});
  const V flags = c.b.reshape(c.b.expand(chosen, sizes), {ir::numel(sizes)});
  return index(c.out(flat), {c.out(flags)}, at);
}
Tensor masked_select_static(const Tensor& self, const Tensor& mask, Dim size,
                            const Number& fill_value, SourceLocation at) {
  Call c(at);
  const V x = c.in(self), chosen = c.in(mask, "mask");
  if (mask.dtype() != boolean)
    ir::fail(Errc::DType,
             fmt::format("masked_select_static: mask is not a mask; expected bool, got {}",
                         ir::name(mask.dtype())));
  const Shape sizes = c.b.broadcast(self.sizes(), mask.sizes(), "masked_select_static");
  const V flat = c.b.reshape(c.b.expand(x, sizes), {ir::numel(sizes)});
  const V flags = c.b.reshape(c.b.expand(chosen, sizes), {ir::numel(sizes)});
  const V filled = c.b.full({size + 1}, self.dtype(), fill_value);
  return c.out(c.b.slice(c.b.scatter(filled, 0, kept_places(c, flags, size), flat), 0, 0, size));
}
Unique unique(const Tensor& self, std::optional<int64_t> dim, SourceLocation at) {
  const ErrorScope errors(at);
  return unique_of(self, dim, true, {}, at);
}
Unique unique_consecutive(const Tensor& self, std::optional<int64_t> dim, SourceLocation at) {
  const ErrorScope errors(at);
  return unique_of(self, dim, false, {}, at);
}
Unique unique_static(const Tensor& self, Dim size, std::optional<int64_t> dim,
                     const Number& fill_value, SourceLocation at) {
  const ErrorScope errors(at);
  return unique_of(self, dim, true, Limit{size, fill_value}, at);
}
Unique unique_consecutive_static(const Tensor& self, Dim size, std::optional<int64_t> dim,
                                 const Number& fill_value, SourceLocation at) {
  const ErrorScope errors(at);
  return unique_of(self, dim, false, Limit{size, fill_value}, at);
}

}  // namespace tandem
