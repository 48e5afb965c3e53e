// Index operations: free functions and methods. Beside index_select, gather, index_add, scatter and
// scatter_add all are made of others.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"

namespace tandem {
namespace {

using runtime::as_int;
using runtime::Call;
using runtime::V;

/// Positions in [-size, size) as [0, size); what lies outside stays outside.
V wrapped(Call& c, V index, Dim size) {
  return c.b.where(c.b.lt(index, Number(0)), c.b.add(index, Number(int64_t{size})), index);
}

/// Positions [k] (or one, []) along `dim`, for a src of `part` sizes.
V along(Call& c, V index, const Shape& part, int dim) {
  Shape sizes = Shape::filled(part.rank(), 1);
  sizes[dim] = part[dim];
  return c.b.expand(c.b.reshape(index, sizes), part);
}

/// self's sizes with as many elements along `dim` as there are positions.
Shape part_sizes(Call& c, V self, int dim, V index) {
  Shape part = c.b.sizes(self);
  part[dim] = c.b.numel(index);
  return part;
}

/// Positions as a vector.
V index_list(Call& c, V index, std::string_view op) {
  if (c.b.rank(index) > 1)
    ir::fail(Errc::Shape, fmt::format("{}: index is not a vector; expected [k], got {}", op,
                                      to_string(c.b.sizes(index))));
  return c.b.at_least_1d(index);
}

/// How many elements up to and with each are true, in row-major order: [n]. Doubles the distance
/// over which counts are complete with every step.
V counts(Call& c, V mask) {
  const Dim n = c.b.numel(mask);
  V sum = c.b.convert(c.b.reshape(mask, {n}), i64);
  for (Dim distance = 1; distance < n; distance *= 2) {
    const Dim before[] = {distance, 0};
    sum = c.b.add(sum, c.b.pad(c.b.slice(sum, 0, 0, n - distance, 1), before, Number(0)));
  }
  return sum;
}

// --- index_put: self seen as [places, rest], with the indexed dims first

/// The dims that have an index, in order.
std::vector<int> indexed_dims(Call& c, V self, const std::vector<Tensor>& indices) {
  std::vector<int> dims;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (indices[d].dtype() != i64 && indices[d].dtype() != i32)
      ir::fail(Errc::DType,
               fmt::format("index_put: an index is not an integer; expected i64, i32 or a mask of "
                           "bool, got {}",
                           ir::name(indices[d].dtype())));
    dims.push_back(static_cast<int>(d));
  }
  if (dims.empty() || dims.back() >= c.b.rank(self))
    ir::fail(Errc::Argument,
             fmt::format("index_put: wrong number of indices; expected between 1 and {}, got {}",
                         c.b.rank(self), dims.empty() ? 0 : indices.size()));
  return dims;
}

/// The sizes that the indices have together.
Shape common_sizes(Call& c, const std::vector<Tensor>& indices, const std::vector<int>& dims) {
  Shape sizes;
  for (int d : dims)
    sizes = c.b.broadcast(sizes, indices[static_cast<size_t>(d)].sizes(), "index_put");
  return sizes;
}

/// Which of the places each position is: [n].
V places(Call& c, V self, const std::vector<Tensor>& indices, const std::vector<int>& dims) {
  const Shape sizes = c.b.sizes(self), positions = common_sizes(c, indices, dims);
  V sum{};
  Dim step = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    const Dim size = sizes[dims[k]];
    const Tensor& index = indices[static_cast<size_t>(dims[k])];
    const V flat = c.b.reshape(wrapped(c, c.in(index, "index"), size), {index.numel()});
    // The table refuses what lies outside this dim.
    const V steps = c.b.index_select(c.b.iota(size, i64, 0, int64_t{step}), 0, flat);
    const V here = c.b.expand(c.b.view(steps, index.sizes()), positions);
    sum = sum.valid() ? c.b.add(sum, here) : here;
    step *= size;
  }
  return c.b.reshape(sum, {ir::numel(positions)});
}

/// The order of self's dims that has `dims` first.
ir::Axes with_first(const std::vector<int>& dims, int rank) {
  ir::Axes order;
  for (int d : dims) order.push_back(d);
  for (int d = 0; d < rank; ++d)
    if (std::ranges::count(dims, d) == 0) order.push_back(d);
  return order;
}

ir::Axes inverse(const ir::Axes& order) {
  ir::Axes back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
}

/// `values` broadcast to what self[indices] is, as [n, rest]. The positions stand where the indexed
/// dims stood if those are next to each other, else in front.
V rows_of(Call& c, V values, const Shape& self, const Shape& positions,
          const std::vector<int>& dims) {
  const int count = static_cast<int>(dims.size());
  const int before = dims.back() - dims.front() + 1 == count ? dims.front() : 0;
  Shape sizes;
  std::vector<int> front;
  const auto add_positions = [&] {
    for (Dim n : positions) {
      front.push_back(sizes.rank());
      sizes.push_back(n);
    }
  };
  Dim rest = 1;
  int others = 0;
  for (int d = 0; d < self.rank(); ++d) {
    if (std::ranges::count(dims, d) != 0) continue;
    if (others++ == before) add_positions();
    sizes.push_back(self[d]);
    rest *= self[d];
  }
  if (others <= before) add_positions();
  const V spread = c.b.expand(values, sizes);
  return c.b.reshape(c.b.permute(spread, with_first(front, sizes.rank())),
                     {ir::numel(positions), rest});
}

/// self as [places, rest], and back.
struct Rows {
  Rows(Call& c, V self, const std::vector<int>& dims)
      : c(c), order(with_first(dims, c.b.rank(self))), moved(c.b.permute(self, order)) {
    Dim places = 1;
    for (int d : dims) places *= c.b.sizes(self)[d];
    Dim rest = 1;
    for (size_t d = dims.size(); d < order.size(); ++d)
      rest *= c.b.sizes(moved)[static_cast<int>(d)];
    flat = c.b.reshape(moved, {places, rest});
  }
  V back(V written) const {
    return c.b.permute(c.b.reshape(written, c.b.sizes(moved)), inverse(order));
  }

  Call& c;
  ir::Axes order;
  V moved, flat;
};

V index_put(Call& c, V self, const std::vector<Tensor>& indices, V values, bool accumulate) {
  const std::vector<int> dims = indexed_dims(c, self, indices);
  const V index = places(c, self, indices, dims);
  const V rows = rows_of(c, values, c.b.sizes(self), common_sizes(c, indices, dims), dims);
  const Rows r(c, self, dims);
  return r.back(accumulate ? c.b.index_add(r.flat, 0, index, rows)
                           : c.b.scatter(r.flat, 0, along(c, index, c.b.sizes(rows), 0), rows));
}

// --- index_put by a mask: a row of values for each true element, or one for all

bool is_mask(const Tensor& index) { return index.defined() && index.dtype() == boolean; }

/// The dims of self that a mask at `first` stands for.
std::vector<int> masked_dims(Call& c, V self, const std::vector<Tensor>& indices, int first) {
  const Tensor& mask = indices[static_cast<size_t>(first)];
  for (const Tensor& index : indices)
    if (index.defined() && !index.is_same(mask))
      ir::fail(Errc::Unsupported,
               "index_put: a mask stands beside other indices, which would be paired with as many "
               "positions as it has true elements; expected one mask alone, or positions");
  std::vector<int> dims;
  bool fits = mask.dim() > 0 && first + mask.dim() <= c.b.rank(self);
  for (int d = 0; fits && d < mask.dim(); ++d) {
    dims.push_back(first + d);
    fits = mask.sizes()[d] == c.b.sizes(self)[first + d];
  }
  if (!fits)
    ir::fail(Errc::Shape,
             fmt::format("index_put: the mask does not fit; expected the sizes of one or more "
                         "dimensions of {} from {} on, got {}",
                         to_string(c.b.sizes(self)), first, to_string(mask.sizes())));
  return dims;
}

/// For each place the row of values that is written there, zeros where none is: [places, rest].
/// Every place is out of range if there are not as many rows as true elements.
V rows_by_count(Call& c, V rows, V mask) {
  const Dim given = c.b.sizes(rows)[0], places = c.b.numel(mask);
  if (places == 0 && given > 0)
    ir::fail(Errc::Index, fmt::format("index_put: a mask without elements; expected no rows of "
                                      "values, got {}",
                                      int64_t{given}));
  if (places == 0) return rows;
  const Dim one_more[] = {0, 1, 0, 0};
  const V table = c.b.pad(rows, one_more, Number(0)), count = counts(c, mask);
  const V total = c.b.slice(count, 0, places - 1, places, 1);
  const Number past(int64_t{given});
  const V number = c.b.where(c.b.reshape(mask, {places}), c.b.sub(count, Number(1)), past);
  const V fits = c.b.eq(total, past);
  return c.b.index_select(table, 0, c.b.where(fits, number, Number(int64_t{given} + 1)));
}

V masked_put(Call& c, V self, const std::vector<Tensor>& indices, V values, bool accumulate) {
  const int first = static_cast<int>(std::ranges::find_if(indices, is_mask) - indices.begin());
  const std::vector<int> dims = masked_dims(c, self, indices, first);
  const int after = c.b.rank(self) - dims.back() - 1, axis = c.b.rank(values) - after - 1;
  const Dim given = axis < 0 ? Dim(1) : c.b.sizes(values)[axis];
  const V rows = rows_of(c, values, c.b.sizes(self), {given}, dims);
  const V mask = c.in(indices[static_cast<size_t>(first)], "mask");
  const Rows r(c, self, dims);
  const Shape sizes = c.b.sizes(r.flat);
  const V chosen = given == 1 ? c.b.expand(rows, sizes) : rows_by_count(c, rows, mask);
  const V written = c.b.expand(c.b.reshape(mask, {sizes[0], 1}), sizes);
  return r.back(c.b.where(written, accumulate ? c.b.add(r.flat, chosen) : chosen, r.flat));
}

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
  if (src.tensor != nullptr) return c.out(c.b.scatter(v, as_int(dim), i, c.in(*src.tensor, "src")));
  return c.out(c.b.scatter(v, as_int(dim), i, c.b.full(index.sizes(), self.dtype(), src.number)));
}
Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                  SourceLocation at) {
  Call c(at);
  const V v = c.b.at_least_1d(c.in(self));
  const V i = index_list(c, c.in(index, "index"), "index_copy"), source = c.in(src, "src");
  const V from = c.b.rank(v) == 1 ? c.b.at_least_1d(source) : source;
  const int d = c.b.wrap_dim(dim, c.b.rank(v), "index_copy");
  const Shape part = part_sizes(c, v, d, i);
  if (c.b.sizes(from) != part)
    ir::fail(Errc::Shape, fmt::format("index_copy: src does not fit; expected {}, got {}",
                                      to_string(part), to_string(src.sizes())));
  return c.out(c.b.view(c.b.scatter(v, d, along(c, i, part, d), from), self.sizes()));
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Located& value) {
  Call c(value.location);
  const V v = c.b.at_least_1d(c.in(self));
  const V i = index_list(c, c.in(index, "index"), "index_fill");
  const V filling = c.in(value, v, "value");
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
Tensor index_put(const Tensor& self, const std::vector<Tensor>& indices, const Located& values,
                 bool accumulate) {
  Call c(values.location);
  const V v = c.in(self), from = c.in(values, v, "values");
  if (values.tensor != nullptr && values.tensor->dtype() != self.dtype())
    ir::fail(Errc::DType,
             fmt::format("index_put: the values' dtype differs from self's; expected {}, got {}",
                         ir::name(self.dtype()), ir::name(values.tensor->dtype())));
  const V converted = c.b.convert(from, self.dtype());
  const V written = std::ranges::any_of(indices, is_mask)
                        ? masked_put(c, v, indices, converted, accumulate)
                        : index_put(c, v, indices, converted, accumulate);
  return runtime::laid_out_like(c.out(written), self, values.location);
}
Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& src,
                      SourceLocation at) {
  Call c(at);
  const V v = c.in(self), m = c.in(mask, "mask");
  return c.out(masked_scatter(c, v, m, c.in(src, "src")));
}
Tensor embedding(const Tensor& weight, const Tensor& indices, SourceLocation at) {
  Call c(at);
  const V v = c.in(weight, "weight");
  return c.out(c.b.embedding(v, c.in(indices, "indices")));
}
Tensor one_hot(const Tensor& labels, Dim classes, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (labels.dtype() != i64)
    ir::fail(Errc::DType, fmt::format("one_hot: labels are not class numbers; expected i64, got {}",
                                      ir::name(labels.dtype())));
  if (classes < 1)
    ir::fail(Errc::Argument,
             fmt::format("one_hot: no classes; expected at least 1, got {}", int64_t{classes}));
  Call c(at);
  const V column = c.b.unsqueeze(c.in(labels, "labels"), -1);
  Shape sizes = labels.sizes();
  sizes.push_back(classes);
  const V zeros = c.b.full(sizes, i64, 0), one = c.b.full(c.b.sizes(column), i64, 1);
  return c.out(c.b.scatter(zeros, labels.sizes().rank(), column, one));
}

// --- as methods

// A tensor of positions picks rows: [n, ...][index sizes] is [index sizes, ...].
Tensor Tensor::operator[](const LocatedIndex& index) const {
  if (index.tensor == nullptr) return tandem::select(*this, 0, index.index, index.location);
  Call c(index.location);
  const V v = c.in(*this), positions = c.in(*index.tensor, "index");
  if (dim() == 0) ir::fail(Errc::Index, "index: too many indices; expected none for [], got 1");
  const V rows = c.b.index_select(v, 0, c.b.reshape(positions, {-1}));
  Shape sizes = index.tensor->sizes();
  for (int d = 1; d < dim(); ++d) sizes.push_back(this->sizes()[d]);
  return c.out(c.b.view(rows, sizes));
}
Tensor Tensor::index_select(int64_t dim, const Tensor& index, SourceLocation at) const {
  return tandem::index_select(*this, dim, index, at);
}
Tensor Tensor::gather(int64_t dim, const Tensor& index, SourceLocation at) const {
  return tandem::gather(*this, dim, index, at);
}

namespace {

/// As ATen, what such a write reads lies elsewhere.
void require_apart(const Tensor& self, std::initializer_list<const Tensor*> read,
                   runtime::Sharing allowed = runtime::Sharing::Nothing) {
  for (const Tensor* t : read)
    if (t != nullptr && t->defined() && self.defined()) runtime::check_apart(self, *t, allowed);
}

}  // namespace

// Through the functional forms: they have no writing ones of their own.
const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                 SourceLocation at) const {
  const ir::ErrorScope errors(at);
  require_apart(*this, {&index, &src});
  return copy_(Located(tandem::index_add(*this, dim, index, src, at), at));
}
const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                   SourceLocation at) const {
  const ir::ErrorScope errors(at);
  require_apart(*this, {&index, &src});
  return copy_(Located(tandem::scatter_add(*this, dim, index, src, at), at));
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Located& src) const {
  const ir::ErrorScope errors(src.location);
  require_apart(*this, {&index, src.tensor});
  return copy_(Located(tandem::scatter(*this, dim, index, src), src.location));
}
const Tensor& Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& src,
                                  SourceLocation at) const {
  const ir::ErrorScope errors(at);
  require_apart(*this, {&index, &src});
  return copy_(Located(tandem::index_copy(*this, dim, index, src, at), at));
}
const Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, const Located& value) const {
  const ir::ErrorScope errors(value.location);
  require_apart(*this, {&index});
  return copy_(Located(tandem::index_fill(*this, dim, index, value), value.location));
}
const Tensor& Tensor::index_put_(const std::vector<Tensor>& indices, const Located& values,
                                 bool accumulate) const {
  const ir::ErrorScope errors(values.location);
  for (const Tensor& index : indices)
    if (index.defined() && ir::is_integral(index.dtype()))
      require_apart(*this, {&index},
                    is_mask(index) ? runtime::Sharing::AllOrNothing : runtime::Sharing::Nothing);
  require_apart(*this, {values.tensor});
  return copy_(Located(tandem::index_put(*this, indices, values, accumulate), values.location));
}
const Tensor& Tensor::masked_scatter_(const Tensor& mask, const Tensor& src,
                                      SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::masked_scatter(*this, mask, src, at), at));
}

}  // namespace tandem
