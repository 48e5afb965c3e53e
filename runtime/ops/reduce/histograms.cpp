// Histograms over bins of one or several dimensions.
#include <tandem/indexing.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/sorting.h>

#include <cmath>

#include "runtime/ops/reduce/along.h"

namespace tandem {
namespace {

using ir::ErrorScope;

template <class... Args>
[[noreturn]] void reject(Errc code, fmt::format_string<Args...> text, Args&&... args) {
  ir::fail(code, ErrorScope::function() + ": " + fmt::format(text, std::forward<Args>(args)...));
}

/// The ends of a dimension's bins, 0-d.
struct Range {
  Tensor low, high;
};

Range range_of(const Tensor& values, const HistogramOptions& o, size_t dim,
               const SourceLocation& at) {
  const DType dtype = values.dtype();
  if (!o.range.empty()) {
    const double low = o.range[2 * dim], high = o.range[2 * dim + 1];
    if (!(low <= high) || !std::isfinite(high - low))
      reject(Errc::Argument, "range is not finite; expected low <= high, got {} and {}", low, high);
    return {full({}, low, dtype, at), full({}, high, dtype, at)};
  }
  if (values.numel() == 0) return {full({}, 0, dtype, at), full({}, 1, dtype, at)};
  const MinMax extremes = aminmax(values.detach(), {}, false, at);
  return {extremes.min, extremes.max};
}

/// `bins` + 1 edges at equal distances; a range without extent is one wide around its point.
Tensor equal_edges(const Range& range, Dim bins, const SourceLocation& at) {
  if (bins < 1) reject(Errc::Argument, "expected at least one bin, got {}", int64_t{bins});
  const Tensor is_point = range.low == range.high;
  const Tensor low = where(is_point, range.low - 0.5, range.low),
               high = where(is_point, range.high + 0.5, range.high);
  const Tensor step = (high - low) / int64_t{bins}, i = arange(int64_t{bins} + 1, {}, at);
  const Tensor from_low = low + step * i, from_high = high - step * (int64_t{bins} - i);
  return where(i < (int64_t{bins} + 1) / 2, from_low, from_high);
}

/// Which bin each value lies in, and which values lie in one: the last has both its edges.
struct Places {
  Tensor bin, inside;
};
Places places(const Tensor& values, const Tensor& edges) {
  const int64_t bins = int64_t{edges.numel()} - 1;
  const Tensor above = bucketize(values, edges, {.right = true}) - 1;
  const Tensor inside = logical_and(values >= edges[0], values <= edges[-1]);
  return {clamp(above, 0, std::max<int64_t>(bins - 1, 0)), inside};
}

void check_edges(const Tensor& edges, const Tensor& self) {
  if (edges.dim() != 1 || edges.numel() < 2 || edges.dtype() != self.dtype())
    reject(Errc::Argument,
           "bins do not fit; expected a vector of at least 2 edges of self's dtype, got {} {}",
           ir::name(edges.dtype()), to_string(edges.sizes()));
}

/// By the number of elements and the extent of each bin.
Tensor density_of(const Tensor& counts, const std::vector<Tensor>& edges) {
  Tensor result = counts / counts.sum();
  for (size_t d = 0; d < edges.size(); ++d) {
    Shape sizes = Shape::filled(static_cast<int>(edges.size()), 1);
    sizes[static_cast<int>(d)] = edges[d].numel() - 1;
    result = result / diff(edges[d]).view(sizes);
  }
  return result;
}

/// How much weight of rows [n, dims] lies in each box of bins.
Tensor counted(const Tensor& rows, const std::vector<Tensor>& edges, const HistogramOptions& o,
               const SourceLocation& at) {
  Shape sizes;
  for (const Tensor& e : edges) sizes.push_back(e.numel() - 1);
  Tensor box = zeros({rows.size(0)}, i64, at), inside = ones({rows.size(0)}, boolean, at);
  for (size_t d = 0; d < edges.size(); ++d) {
    const Places found = places(rows.select(1, static_cast<int64_t>(d)).contiguous(), edges[d]);
    box = box * int64_t{sizes[static_cast<int>(d)]} + found.bin;
    inside = logical_and(inside, found.inside);
  }
  const Tensor weights =
      o.weight.defined() ? o.weight.reshape({-1}) : ones({}, rows.dtype(), at).expand(box.sizes());
  if (weights.numel() != box.numel() || weights.dtype() != rows.dtype())
    reject(Errc::Shape, "weight does not fit; expected {} of self's dtype, got {} {}",
           int64_t{box.numel()}, ir::name(weights.dtype()), to_string(o.weight.sizes()));
  const Tensor none = zeros({ir::numel(sizes)}, rows.dtype(), at);
  return scatter_add(none, 0, box, where(inside, weights, 0), at).view(sizes, at);
}

void check_histogram(const Tensor& self, const HistogramOptions& o, size_t dims) {
  if (!ir::is_floating(self.dtype()))
    reject(Errc::DType, "expected a floating dtype, got {}", ir::name(self.dtype()));
  if (!o.range.empty() && o.range.size() != 2 * dims)
    reject(Errc::Argument, "range does not fit; expected {} numbers, got {}", 2 * dims,
           o.range.size());
}

Tensor rows_of(const Tensor& self) {
  if (self.dim() < 2 || self.size(-1) < 1)
    reject(Errc::Shape, "expected [..., dimensions of bins], got {}", to_string(self.sizes()));
  return self.reshape({-1, self.size(-1)});
}

Histograms histograms(const Tensor& rows, std::vector<Tensor> edges, const HistogramOptions& o,
                      const SourceLocation& at) {
  const Tensor counts = counted(rows.detach(), edges, o, at);
  return {o.density ? density_of(counts, edges) : counts, std::move(edges)};
}

Histogram histogram_of(const Tensor& self, const Tensor& edges, const HistogramOptions& o,
                       const SourceLocation& at) {
  return {histograms(self.reshape({-1, 1}, at), {edges}, o, at).hist, edges};
}

}  // namespace

Histogram histogram(const Tensor& self, Dim bins, const HistogramOptions& options,
                    SourceLocation at) {
  const ErrorScope errors(at);
  check_histogram(self, options, 1);
  return histogram_of(self, equal_edges(range_of(self, options, 0, at), bins, at), options, at);
}
Histogram histogram(const Tensor& self, const Tensor& bins, const HistogramOptions& options,
                    SourceLocation at) {
  const ErrorScope errors(at);
  check_histogram(self, options, 1);
  check_edges(bins, self);
  return histogram_of(self, bins, options, at);
}

Histograms histogramdd(const Tensor& self, const std::vector<Dim>& bins,
                       const HistogramOptions& options, SourceLocation at) {
  const ErrorScope errors(at);
  const Tensor rows = rows_of(self);
  check_histogram(self, options, bins.size());
  if (rows.size(1) != static_cast<int64_t>(bins.size()))
    reject(Errc::Argument, "bins do not fit; expected {} numbers, got {}", int64_t{rows.size(1)},
           bins.size());
  std::vector<Tensor> edges;
  for (size_t d = 0; d < bins.size(); ++d)
    edges.push_back(equal_edges(range_of(rows.select(1, static_cast<int64_t>(d)), options, d, at),
                                bins[d], at));
  return histograms(rows, edges, options, at);
}
Histograms histogramdd(const Tensor& self, Dim bins, const HistogramOptions& options,
                       SourceLocation at) {
  const ErrorScope errors(at);
  const auto dims = static_cast<size_t>(int64_t{rows_of(self).size(1)});
  return histogramdd(self, std::vector<Dim>(dims, bins), options, at);
}
Histograms histogramdd(const Tensor& self, const std::vector<Tensor>& bins,
                       const HistogramOptions& options, SourceLocation at) {
  const ErrorScope errors(at);
  const Tensor rows = rows_of(self);
  check_histogram(self, options, bins.size());
  if (rows.size(1) != static_cast<int64_t>(bins.size()))
    reject(Errc::Argument, "bins do not fit; expected {} vectors, got {}", int64_t{rows.size(1)},
           bins.size());
  for (const Tensor& edges : bins) check_edges(edges, self);
  return histograms(rows, bins, options, at);
}

}  // namespace tandem
