// Medians, modes, quantiles.
#include <tandem/ops/reductions.h>

#include <cmath>
#include <limits>

#include "runtime/levels/levels.h"
#include "runtime/ops/reduce/along.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::Along;
using runtime::Call;
using runtime::V;

ValuesAndIndices median_along(Call&& c, const Tensor& self, int64_t dim, bool keepdim,
                              bool ignore_nan) {
  const Along a(c, self, dim);
  return a.picked(c.b.emit(Op::median_index, {a.x}, {int64_t{a.dim}, ignore_nan}), keepdim);
}

/// `y`, an element of `flat`, with a gradient in equal parts to all that equal it: its value comes
/// from one of them, and from each its distance (none) from itself without a gradient.
V shared_among_equals(Call& c, V flat, V y) {
  const DType dtype = c.b.dtype(flat);
  const V value = c.b.stop_gradient(y);
  const V is_it =
      c.b.logical_or(c.b.eq(flat, value), c.b.logical_and(c.b.isnan(flat), c.b.isnan(value)));
  const V given = c.b.where(c.b.isfinite(flat), c.b.stop_gradient(flat), 0);
  const V distance = c.b.sub(given, c.b.where(is_it, flat, given));
  const V wide = ir::is_half(dtype) ? c.b.convert(distance, f32) : distance;
  const V count = c.b.sum(c.b.convert(is_it, c.b.dtype(wide)));
  return c.b.sub(value, c.b.convert(c.b.sum(c.b.div(wide, count)), dtype));
}

/// Of all elements; NaN of none. (As in ATen, whose median of a dimension is one of the equals.)
Tensor median_of_all(Call&& c, const Tensor& self, bool ignore_nan) {
  if (self.numel() == 0) {
    runtime::require_floating(self);
    return c.out(c.b.add(c.b.sum(c.in(self)), std::numeric_limits<double>::quiet_NaN()));
  }
  const V flat = c.b.reshape(c.in(self), {self.numel()});
  const V place = c.b.emit(Op::median_index, {flat}, {int64_t{0}, ignore_nan});
  const V y = c.b.view(c.b.index_select(flat, 0, place), {});
  const bool is_followed =
      self.requires_grad() || runtime::level_depth() != 0 || runtime::Trace::current() != nullptr;
  return c.out(ir::is_floating(self.dtype()) && is_followed ? shared_among_equals(c, flat, y) : y);
}

// --- quantiles

/// How a value between two elements is found.
struct Interpolation {
  std::string_view name;
  V (*place)(Call& c, V rank);   // the lower of the two elements
  V (*weight)(Call& c, V rank);  // of the higher one; null: the lower one is the value
};

V floor(Call& c, V rank) { return c.b.floor(rank); }
V ceil(Call& c, V rank) { return c.b.ceil(rank); }
V round(Call& c, V rank) { return c.b.round(rank); }
V fraction(Call& c, V rank) { return c.b.sub(rank, c.b.floor(rank)); }
V half(Call& c, V rank) { return c.b.full_like(rank, 0.5); }

constexpr Interpolation kInterpolations[] = {{"linear", floor, fraction},
                                             {"lower", floor, nullptr},
                                             {"higher", ceil, nullptr},
                                             {"nearest", round, nullptr},
                                             {"midpoint", floor, half}};

const Interpolation& interpolation_of(std::string_view name) {
  for (const Interpolation& i : kInterpolations)
    if (i.name == name) return i;
  ir::fail(Errc::Argument,
           fmt::format("{}: unknown interpolation; expected \"linear\", \"lower\", \"higher\", "
                       "\"midpoint\" or \"nearest\", got \"{}\"",
                       ErrorScope::function(), name));
}

void require_quantile_operands(const Tensor& self, const Tensor& q) {
  if (self.dtype() != f32 && self.dtype() != f64)
    ir::fail(Errc::DType, fmt::format("{}: expected self of f32 or f64, got {}",
                                      ErrorScope::function(), ir::name(self.dtype())));
  if (q.dtype() != self.dtype())
    ir::fail(Errc::DType,
             fmt::format("{}: q's dtype differs from self's; expected {}, got {}",
                         ErrorScope::function(), ir::name(self.dtype()), ir::name(q.dtype())));
  if (q.dim() > 1)
    ir::fail(Errc::Shape, fmt::format("{}: expected q of at most one dimension, got {}",
                                      ErrorScope::function(), to_string(q.sizes())));
}

/// (Inside a trace what is out of range is found when it runs, as a position.)
void require_probabilities(const Tensor& q) {
  if (runtime::Trace::current() != nullptr) return;
  for (const double p : q.to_vector<double>())
    if (!(p >= 0 && p <= 1))
      ir::fail(Errc::Argument, fmt::format("{}: q out of range; expected 0 to 1, got {}",
                                           ErrorScope::function(), p));
}

/// Which element each quantile [.., q] of the sorted rows [.., n] is, perhaps between two. NaN
/// stands last: if they are not ignored, a row that has one gives it.
V ranks(Call& c, V rows, V q, bool ignore_nan) {
  const ir::Axis last{c.b.rank(rows) - 1};
  const int64_t n = c.b.sizes(rows)[c.b.rank(rows) - 1];
  const DType dtype = c.b.dtype(rows);
  const V is_nan = c.b.isnan(rows);
  if (!ignore_nan) {
    const V rank = c.b.mul(q, static_cast<double>(n - 1));
    return c.b.where(c.b.reduce(Op::any, is_nan, {&last, 1}, true), static_cast<double>(n - 1),
                     rank);
  }
  const V count = c.b.sum(c.b.convert(c.b.logical_not(is_nan), dtype), {&last, 1}, true);
  return c.b.mul(q, c.b.clamp(c.b.sub(count, 1), Number(0), {}));
}

/// The quantiles [.., q] of rows [.., n].
V quantiles(Call& c, V rows, V q, bool ignore_nan, const Interpolation& how) {
  const int last = c.b.rank(rows) - 1;
  const V order = c.b.emit(Op::argsort, {rows}, {int64_t{last}, false});
  const V sorted = c.b.gather(rows, last, order);
  const V rank = ranks(c, c.b.stop_gradient(sorted), q, ignore_nan);
  const V lower = c.b.convert(how.place(c, rank), i64);
  const V value = c.b.gather(sorted, last, lower);
  if (how.weight == nullptr) return value;
  const V upper = c.b.gather(sorted, last, c.b.convert(c.b.ceil(rank), i64));
  return c.b.pointwise(Op::lerp, {value, upper, how.weight(c, rank)});
}

/// The result [.., q] with its dimensions in ATen's places.
V placed(Call& c, V found, const Tensor& self, const Tensor& q, std::optional<int> dim,
         bool keepdim) {
  Shape sizes{ir::numel(q.sizes())};
  for (int d = 0; d < self.dim(); ++d) {
    const bool is_reduced = !dim || d == *dim;
    if (!is_reduced) sizes.push_back(self.sizes()[d]);
    if (is_reduced && keepdim) sizes.push_back(1);
  }
  ir::Axes order{c.b.rank(found) - 1};
  for (int d = 0; d + 1 < c.b.rank(found); ++d) order.push_back(d);
  const V first = c.b.reshape(c.b.permute(found, order), sizes);
  return q.dim() == 0 ? c.b.squeeze(first, ir::Axes{0}) : first;
}

Tensor quantile_of(Call&& c, const Tensor& given, const Tensor& given_q, std::optional<int64_t> dim,
                   bool keepdim, std::string_view interpolation, bool ignore_nan) {
  const V v = c.in(given), probabilities = c.in(given_q, "q");
  const Tensor self = c.cast(given), q = c.cast(given_q);
  require_quantile_operands(self, q);
  require_probabilities(q);
  const Interpolation& how = interpolation_of(interpolation);
  if (self.numel() == 0)
    ir::fail(Errc::Shape, fmt::format("{}: no elements; expected at least one, got {}",
                                      ErrorScope::function(), to_string(self.sizes())));
  std::optional<int> wrapped;
  V rows = c.b.reshape(v, {self.numel()});
  if (dim) wrapped = c.b.wrap_dim(*dim, std::max<int>(c.b.rank(v), 1), ErrorScope::function());
  if (dim && self.dim() > 0) {
    ir::Axes order;
    for (int d = 0; d < self.dim(); ++d)
      if (d != *wrapped) order.push_back(d);
    order.push_back(*wrapped);
    rows = c.b.permute(v, order);
  }
  const V found = quantiles(c, rows, c.b.view(probabilities, {q.numel()}), ignore_nan, how);
  return c.out(placed(c, found, self, q, self.dim() > 0 ? wrapped : std::nullopt, keepdim));
}

}  // namespace

Tensor median(const Tensor& self, SourceLocation at) {
  return median_of_all(Call(at), self, false);
}
Tensor nanmedian(const Tensor& self, SourceLocation at) {
  return median_of_all(Call(at), self, true);
}
ValuesAndIndices median(const Tensor& self, int64_t dim, bool keepdim, SourceLocation at) {
  return median_along(Call(at), self, dim, keepdim, false);
}
ValuesAndIndices nanmedian(const Tensor& self, int64_t dim, bool keepdim, SourceLocation at) {
  return median_along(Call(at), self, dim, keepdim, true);
}
ValuesAndIndices mode(const Tensor& self, int64_t dim, bool keepdim, SourceLocation at) {
  Call c(at);
  const Along a(c, self, dim);
  return a.picked(a.scanned(Op::mode_index, a.x), keepdim);
}

Tensor quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation, SourceLocation at) {
  return quantile_of(Call(at), self, q, dim, keepdim, interpolation, false);
}
Tensor quantile(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation, SourceLocation at) {
  const ErrorScope errors(at);
  return quantile(self, full({}, q, self.dtype() == f64 ? f64 : f32, at), dim, keepdim,
                  interpolation, at);
}
Tensor nanquantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation, SourceLocation at) {
  return quantile_of(Call(at), self, q, dim, keepdim, interpolation, true);
}
Tensor nanquantile(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation, SourceLocation at) {
  const ErrorScope errors(at);
  return nanquantile(self, full({}, q, self.dtype() == f64 ? f64 : f32, at), dim, keepdim,
                     interpolation, at);
}

}  // namespace tandem
