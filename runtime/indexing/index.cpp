// Index operations: free functions and methods. Beside index_select, gather, index_add, scatter and
// scatter_add all are made of others. What writes at positions touches nothing else of self.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/indexing/positions.h"
#include "runtime/ops/reduce/along.h"
#include "runtime/tape/autograd.h"

namespace tandem {
namespace {

using runtime::along;
using runtime::as_int;
using runtime::Call;
using runtime::counts;
using runtime::require_apart;
using runtime::V;
using runtime::wrapped;

// --- masked_scatter

V masked_scatter(Call& c, V self, V mask, V src) {
  if (c.b.dtype(mask) != boolean)
    ir::fail(Errc::DType, fmt::format("masked_scatter: mask is not a mask; expected bool, got {}",
                                      ir::name(c.b.dtype(mask))));
  if (c.b.dtype(src) != c.b.dtype(self))
    ir::fail(Errc::DType,
             fmt::format("masked_scatter: src's dtype differs from self's; expected {}, got {}",
                         ir::name(c.b.dtype(self)), ir::name(c.b.dtype(src))));
  const Shape sizes = c.b.broadcast(c.b.sizes(self), c.b.sizes(mask), "masked_scatter");
  const V written = c.b.expand(mask, sizes), count = c.b.view(counts(c, written), sizes);
  // Elements that are not written read a zero behind src's; one that src lacks is out of range.
  const Dim given = c.b.numel(src), one_more[] = {0, 1};
  const V table = c.b.pad(c.b.reshape(src, {given}), one_more, Number(0));
  const V missing = c.b.gt(count, Number(int64_t{given}));
  const V number = c.b.where(missing, Number(int64_t{given} + 1), c.b.sub(count, Number(1)));
  const V index = c.b.where(written, number, Number(int64_t{given}));
  const V chosen = c.b.view(c.b.index_select(table, 0, c.b.reshape(index, {-1})), sizes);
  return c.b.where(written, chosen, self);
}

/// A number, which has no gradient to take once where a place is named twice.
const Tensor& fill_places(const Tensor& self, int64_t dim, const Tensor& index,
                          const Located& number) {
  Call c(number.location, "index_fill", true);
  require_apart(self, {&index});
  const V v = c.b.at_least_1d(c.in(self)), positions = runtime::index_list(c, index);
  const int d = c.b.wrap_dim(dim, c.b.rank(v), "index_fill");
  Shape part = c.b.sizes(v);
  const V wrapped_positions = wrapped(c, positions, part[d]);
  part[d] = c.b.numel(positions);
  c.b.scatter_in_place(ir::Op::scatter, v, d, along(c, wrapped_positions, part, d),
                       c.given(number.number, self.dtype(), part));
  return self;
}

}  // namespace

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.index_select(v, as_int(dim), c.in(index, "index")));
}
Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.gather(v, as_int(dim), c.in(index, "index")));
}
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                 SourceLocation at) {
  Call c(at);
  const V v = c.in(self), i = c.in(index, "index");
  return c.out(c.b.index_add(v, as_int(dim), i, c.in(src, "src")));
}
Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                   SourceLocation at) {
  Call c(at);
  const V v = c.in(self), i = c.in(index, "index");
  return c.out(c.b.scatter_add(v, as_int(dim), i, c.in(src, "src")));
}
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Located& src) {
  Call c(src.location);
  const V v = c.in(self), i = c.in(index, "index");
  return c.out(c.b.scatter(v, as_int(dim), i, runtime::source_of(c, src, self.dtype(), index)));
}
Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                  SourceLocation at) {
  Call c(at);
  c.note_together({&self, &src});
  const runtime::Parts parts(c, self, dim, index, src, "src");
  return c.out(c.b.view(c.b.scatter(parts.self, parts.dim, parts.index, parts.src), self.sizes()));
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Located& value) {
  Call c(value.location);
  const V v = c.b.at_least_1d(c.in(self));
  const V i = runtime::index_list(c, index);
  const V filling =
      value.tensor != nullptr ? c.in(*value.tensor, "value") : c.given(value.number, self.dtype());
  const int d = c.b.wrap_dim(dim, c.b.rank(v), "index_fill");
  if (c.b.rank(filling) != 0)
    ir::fail(Errc::Shape, fmt::format("index_fill: value is not one element; expected [], got {}",
                                      to_string(c.b.sizes(filling))));
  // Through a mask: a place that is named twice takes the value once, and gives it one gradient.
  const Shape sizes = c.b.sizes(v);
  const V ones = c.b.full({c.b.numel(i)}, boolean, true);
  const V places =
      c.b.scatter(c.b.full({sizes[d]}, boolean, false), 0, wrapped(c, i, sizes[d]), ones);
  const V filled = c.b.where(along(c, places, sizes, d), c.b.convert(filling, self.dtype()), v);
  return runtime::laid_out_like(c.out(c.b.view(filled, self.sizes())), self, value.location);
}
Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& src,
                      SourceLocation at) {
  Call c(at);
  const V v = c.in(self), m = c.in(mask, "mask");
  return c.out(masked_scatter(c, v, m, c.in(src, "src")));
}
// --- as methods

Tensor Tensor::index_select(int64_t dim, const Tensor& index, SourceLocation at) const {
  return tandem::index_select(*this, dim, index, at);
}
Tensor Tensor::gather(int64_t dim, const Tensor& index, SourceLocation at) const {
  return tandem::gather(*this, dim, index, at);
}

const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                 SourceLocation at) const {
  Call c(at, "index_add", true);
  require_apart(*this, {&index, &src});
  const V v = c.in(*this), i = c.in(index, "index");
  c.b.scatter_in_place(ir::Op::index_add, v, as_int(dim), i, c.in(src, "src"));
  return *this;
}
const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                   SourceLocation at) const {
  Call c(at, "scatter_add", true);
  require_apart(*this, {&index, &src});
  const V v = c.in(*this), i = c.in(index, "index");
  c.b.scatter_in_place(ir::Op::scatter_add, v, as_int(dim), i, c.in(src, "src"));
  return *this;
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Located& src) const {
  Call c(src.location, "scatter", true);
  require_apart(*this, {&index, src.tensor});
  const V v = c.in(*this), i = c.in(index, "index");
  const V from = runtime::source_of(c, src, dtype(), index);
  c.b.scatter_in_place(ir::Op::scatter, v, as_int(dim), i, from);
  return *this;
}
const Tensor& Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& src,
                                  SourceLocation at) const {
  Call c(at, "index_copy", true);
  require_apart(*this, {&index, &src});
  const runtime::Parts parts(c, *this, dim, index, src, "src");
  c.b.scatter_in_place(ir::Op::scatter, parts.self, parts.dim, parts.index, parts.src);
  return *this;
}
const Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, const Located& value) const {
  if (value.tensor == nullptr) return fill_places(*this, dim, index, value);
  const ir::ErrorScope errors(value.location);
  require_apart(*this, {&index});
  return copy_(Located(tandem::index_fill(*this, dim, index, value), value.location));
}
const Tensor& Tensor::masked_scatter_(const Tensor& mask, const Tensor& src,
                                      SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::masked_scatter(*this, mask, src, at), at));
}

}  // namespace tandem
