// x.index({...}) and x.index_put_({...}, values): what views can do is done by views; tensors of
// positions are joined to one of places in self, of which an op on rows reads or writes.
#include <fmt/format.h>
#include <tandem/indexing.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/indexing/positions.h"
#include "runtime/indexing/true_places.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace {

using runtime::along;
using runtime::Call;
using runtime::counts;
using runtime::V;
using runtime::wrapped;

bool is_mask(const Tensor& index) { return index.defined() && index.dtype() == boolean; }

// --- positions, ranges and new dimensions: a view

/// What is left of indices behind a view: for its first dimensions a tensor each, or an undefined
/// one for all of the dimension (none behind a mask, which stands for several).
struct Selection {
  Tensor view;
  std::vector<Tensor> tensors;
};

/// How many of self's dimensions an index stands for.
int64_t dims_of(const Index& index) {
  switch (index.kind) {
    case Index::Kind::NewAxis:
    case Index::Kind::Ellipsis:
    case Index::Kind::Flag:
      return 0;
    case Index::Kind::Places:
      return is_mask(index.places) ? index.places.dim() : 1;
    default:
      return 1;
  }
}

/// How many dimensions the ellipsis stands for.
int64_t dims_of_ellipsis(const Tensor& self, const std::vector<Index>& indices) {
  int64_t named = 0;
  for (const Index& index : indices) named += dims_of(index);
  if (named > self.dim())
    ir::fail(Errc::Index, fmt::format("index: too many indices; expected at most {} for {}, got {}",
                                      self.dim(), to_string(self.sizes()), named));
  const auto is_ellipsis = [](const Index& i) { return i.kind == Index::Kind::Ellipsis; };
  if (std::ranges::count_if(indices, is_ellipsis) > 1)
    ir::fail(Errc::Argument, "index: several ellipses; expected at most one");
  return self.dim() - named;
}

class Selector {
 public:
  Selector(const Tensor& self, const std::vector<Index>& indices, const SourceLocation& at)
      : at_(at), ellipsis_(dims_of_ellipsis(self, indices)), selected_{self, {}} {
    for (const Index& index : indices) add(index);
    while (!selected_.tensors.empty() && !selected_.tensors.back().defined())
      selected_.tensors.pop_back();
  }
  const Selection& selected() const { return selected_; }

 private:
  void add(const Index& index) {
    Tensor& view = selected_.view;
    switch (index.kind) {
      case Index::Kind::Position:
        view = select(view, dim_, index.position, at_);
        return;
      case Index::Kind::Range:
        if (index.range.start || index.range.end || index.range.step != 1)
          view = slice(view, dim_, index.range.start, index.range.end, index.range.step, at_);
        return pass(1);
      case Index::Kind::Ellipsis:
        return pass(ellipsis_);
      case Index::Kind::NewAxis:
        view = unsqueeze(view, dim_, at_);
        return pass(1);
      case Index::Kind::Flag:
        return add_flag(zeros({index.position}, i64, at_));
      case Index::Kind::Places:
        if (is_mask(index.places) && index.places.dim() == 0)
          return add_flag(index.places.view({1}, at_));
        selected_.tensors.push_back(index.places);
        dim_ += dims_of(index);
    }
  }
  /// A tensor of a dimension of its own.
  void add_flag(const Tensor& places) {
    selected_.view = unsqueeze(selected_.view, dim_, at_);
    selected_.tensors.push_back(places);
    dim_ += 1;
  }
  void pass(int64_t dims) {
    for (int64_t d = 0; d < dims; ++d) selected_.tensors.emplace_back();
    dim_ += dims;
  }

  const SourceLocation& at_;
  int64_t ellipsis_, dim_ = 0;  // of the view: where the next index stands
  Selection selected_;
};

/// As in ATen, bytes are a mask.
std::vector<Index> with_bytes_as_masks(std::vector<Index> indices, const SourceLocation& at) {
  for (Index& index : indices)
    if (index.places.defined() && index.places.dtype() == u8)
      index.places = index.places.to(boolean, at);
  return indices;
}

Selection selection_of(const Tensor& self, const Indices& indices, const SourceLocation& at) {
  return Selector(self, with_bytes_as_masks(indices.list, at), at).selected();
}

// --- masks as positions

/// The dims of self that a mask at `first` stands for.
std::vector<int> masked_dims(const Shape& self, const Tensor& mask, int first) {
  std::vector<int> dims;
  bool fits = mask.dim() > 0 && first + mask.dim() <= self.rank();
  for (int d = 0; fits && d < mask.dim(); ++d) {
    dims.push_back(first + d);
    fits = mask.sizes()[d] == self[first + d];
  }
  if (!fits)
    ir::fail(Errc::Shape, fmt::format("index: the mask does not fit; expected the sizes of one or "
                                      "more dimensions of {} from {} on, got {}",
                                      to_string(self), first, to_string(mask.sizes())));
  return dims;
}

/// With positions in place of masks; a tensor for each dimension.
std::vector<Tensor> without_masks(const Shape& self, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> positions;
  for (const Tensor& t : tensors) {
    if (!is_mask(t)) {
      positions.push_back(t);
      continue;
    }
    masked_dims(self, t, static_cast<int>(positions.size()));
    if (runtime::Trace::current() != nullptr)
      ir::fail(Errc::Trace,
               "index: a mask chooses elements whose number depends on data, which a trace cannot "
               "hold; expected where or masked_fill in its place, or the positions that "
               "nonzero_static finds, of a given number; got a mask inside a trace");
    std::ranges::copy(runtime::true_positions(t), std::back_inserter(positions));
  }
  return positions;
}

// --- tensors of positions

/// The dims that have an index, in order.
std::vector<int> indexed_dims(const std::vector<Tensor>& indices) {
  std::vector<int> dims;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (indices[d].dtype() != i64 && indices[d].dtype() != i32)
      ir::fail(
          Errc::DType,
          fmt::format("{}: an index is not an integer; expected i64, i32 or a mask of bool, got {}",
                      ir::ErrorScope::function(), ir::name(indices[d].dtype())));
    dims.push_back(static_cast<int>(d));
  }
  return dims;
}

/// The sizes that the indices have together.
Shape common_sizes(Call& c, const std::vector<Tensor>& indices, const std::vector<int>& dims) {
  Shape sizes;
  for (int d : dims)
    sizes =
        c.b.broadcast(sizes, indices[static_cast<size_t>(d)].sizes(), ir::ErrorScope::function());
  return sizes;
}

/// Which of the places each position is: [n].
V places(Call& c, V self, const std::vector<Tensor>& indices, const std::vector<int>& dims) {
  const Shape sizes = c.b.sizes(self), positions = common_sizes(c, indices, dims);
  if (dims.size() == 1) {
    const V only = c.in(indices[static_cast<size_t>(dims[0])], "index");
    return c.b.reshape(wrapped(c, only, sizes[dims[0]]), {ir::numel(positions)});
  }
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

/// Whether the dims are next to each other: the positions then stand in their place, else in front.
bool are_adjacent(const std::vector<int>& dims) {
  return dims.back() - dims.front() + 1 == static_cast<int>(dims.size());
}

V read(Call& c, V self, const std::vector<Tensor>& indices) {
  const std::vector<int> dims = indexed_dims(indices);
  const int before = are_adjacent(dims) ? dims.front() : 0;
  const V moved = are_adjacent(dims) ? self : c.b.permute(self, with_first(dims, c.b.rank(self)));
  const Shape sizes = c.b.sizes(moved), positions = common_sizes(c, indices, dims);
  Shape flat{1, 1, 1}, result;
  for (int d = 0; d < before; ++d) flat[0] *= sizes[d], result.push_back(sizes[d]);
  for (Dim n : positions) result.push_back(n);
  const int after = before + static_cast<int>(dims.size());
  for (int d = before; d < after; ++d) flat[1] *= sizes[d];
  for (int d = after; d < sizes.rank(); ++d) flat[2] *= sizes[d], result.push_back(sizes[d]);
  const V index = places(c, self, indices, dims);
  if (dims.size() == 1) return c.b.view(c.b.index_select(self, dims[0], index), result);
  return c.b.view(c.b.index_select(c.b.reshape(moved, flat), 1, index), result);
}

// --- index_put: self seen as [places, rest], with the indexed dims first

/// `values` broadcast to what self[indices] is, as [n, rest]. The positions stand where the indexed
/// dims stood if those are next to each other, else in front.
V rows_of(Call& c, V values, const Shape& self, const Shape& positions,
          const std::vector<int>& dims) {
  const int before = are_adjacent(dims) ? dims.front() : 0;
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
    return c.b.permute(c.b.reshape(written, c.b.sizes(moved)), ir::inverse(order));
  }

  Call& c;
  ir::Axes order;
  V moved, flat;
};

V index_put(Call& c, V self, const std::vector<Tensor>& indices, V values, bool accumulate) {
  const std::vector<int> dims = indexed_dims(indices);
  const V index = places(c, self, indices, dims);
  const V rows = rows_of(c, values, c.b.sizes(self), common_sizes(c, indices, dims), dims);
  const Rows r(c, self, dims);
  return r.back(accumulate ? c.b.index_add(r.flat, 0, index, rows)
                           : c.b.scatter(r.flat, 0, along(c, index, c.b.sizes(rows), 0), rows));
}

// --- index_put by a mask: a row of values for each true element, or one for all

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

/// Whether a mask is the only index. (Beside others it is as many positions as are true.)
bool is_one_mask(const std::vector<Tensor>& tensors) {
  const auto is_given = [](const Tensor& t) { return t.defined(); };
  return std::ranges::count_if(tensors, is_given) == 1 && std::ranges::any_of(tensors, is_mask);
}

V masked_put(Call& c, V self, const std::vector<Tensor>& indices, V values, bool accumulate) {
  const int first = static_cast<int>(std::ranges::find_if(indices, is_mask) - indices.begin());
  const Tensor& given_mask = indices[static_cast<size_t>(first)];
  const std::vector<int> dims = masked_dims(c.b.sizes(self), given_mask, first);
  const int after = c.b.rank(self) - dims.back() - 1, axis = c.b.rank(values) - after - 1;
  const Dim given = axis < 0 ? Dim(1) : c.b.sizes(values)[axis];
  const V rows = rows_of(c, values, c.b.sizes(self), {given}, dims);
  const V mask = c.in(given_mask, "mask");
  const Rows r(c, self, dims);
  const Shape sizes = c.b.sizes(r.flat);
  const V chosen = given == 1 ? c.b.expand(rows, sizes) : rows_by_count(c, rows, mask);
  const V written = c.b.expand(c.b.reshape(mask, {sizes[0], 1}), sizes);
  return r.back(c.b.where(written, accumulate ? c.b.add(r.flat, chosen) : chosen, r.flat));
}

/// self with values at these places, as index_put.
Tensor put(const Tensor& self, const std::vector<Tensor>& tensors, const Located& values,
           bool accumulate) {
  Call c(values.location, "index_put");
  const V v = c.in(self), from = values.tensor != nullptr ? c.in(*values.tensor, "values")
                                                          : c.written(values.number, self.dtype());
  if (values.tensor != nullptr && values.tensor->dtype() != self.dtype())
    ir::fail(Errc::DType,
             fmt::format("index_put: the values' dtype differs from self's; expected {}, got {}",
                         ir::name(self.dtype()), ir::name(values.tensor->dtype())));
  const V converted = c.b.convert(from, self.dtype());
  const bool by_mask = is_one_mask(tensors);
  const V written =
      by_mask ? masked_put(c, v, tensors, converted, accumulate)
              : index_put(c, v, without_masks(self.sizes(), tensors), converted, accumulate);
  return runtime::laid_out_like(c.out(written), self, values.location);
}

/// As Python's x[...] = values: sizes of 1 in front of what is written are left out.
void write(const Tensor& view, const Located& values, bool accumulate) {
  Tensor source = values.tensor != nullptr ? *values.tensor : Tensor();
  while (source.defined() && source.dim() > view.dim() && source.sizes()[0] == 1)
    source = squeeze(source, 0, values.location);
  const Located from = source.defined() ? Located(source, values.location) : values;
  accumulate ? view.add_(from) : view.copy_(from);
}

/// What the write reads lies elsewhere.
void require_apart(const Tensor& self, const std::vector<Tensor>& tensors, const Located& values) {
  for (const Tensor& index : tensors)
    if (index.defined() && ir::is_integral(index.dtype()))
      runtime::require_apart(
          self, {&index},
          is_mask(index) ? runtime::Sharing::AllOrNothing : runtime::Sharing::Nothing);
  runtime::require_apart(self, {values.tensor});
}

}  // namespace

Indices::Indices(std::initializer_list<Index> list) : list(list) {}
Indices::Indices(const std::vector<Tensor>& tensors) : list(tensors.begin(), tensors.end()) {}

Tensor index(const Tensor& self, const Indices& indices, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const Selection s = selection_of(self, indices, at);
  if (s.tensors.empty()) return s.view.is_same(self) ? self.alias(at) : s.view;
  const std::vector<Tensor> tensors = without_masks(s.view.sizes(), s.tensors);
  Call c(at);
  return c.out(read(c, c.in(s.view), tensors));
}

Tensor index_put(const Tensor& self, const Indices& indices, const Located& values,
                 bool accumulate) {
  const ir::ErrorScope errors(values.location);
  const Selection s = selection_of(self, indices, values.location);
  if (s.view.is_same(self) && !s.tensors.empty()) return put(self, s.tensors, values, accumulate);
  const Tensor written = clone(self, values.location);
  return written.index_put_(indices, values, accumulate);
}

// How many are true up to each says which row it is; those behind `size` fall on one more row.
Tensor nonzero_static(const Tensor& self, Dim size, int64_t fill_value, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (size < 0)
    ir::fail(Errc::Argument,
             fmt::format("nonzero_static: expected a size of at least 0, got {}", int64_t{size}));
  Call c(at);
  const V mask = c.b.reshape(c.b.ne(c.in(self), Number(0)), {self.numel()});
  const Number last(int64_t{size});
  const V row = c.b.clamp(c.b.where(mask, c.b.sub(counts(c, mask), Number(1)), last), {}, last);
  std::vector<V> columns;
  Dim step = self.numel();
  for (Dim n : self.sizes()) {
    step = n == 0 ? Dim(0) : step / n;
    const V place = c.b.iota(self.numel(), i64);
    const V along =
        n == 0 ? place
               : c.b.remainder(c.b.floor_divide(place, Number(int64_t{step})), Number(int64_t{n}));
    const V filled = c.b.full({size + 1}, i64, Number(fill_value));
    columns.push_back(c.b.slice(c.b.scatter(filled, 0, row, along), 0, 0, size));
  }
  return c.out(columns.empty() ? c.b.full({size, 0}, i64, 0) : c.b.stack(columns, 1));
}

// --- as methods

// A tensor of positions picks rows: [n, ...][index sizes] is [index sizes, ...].
Tensor Tensor::operator[](const LocatedIndex& index) const {
  if (index.tensor == nullptr) return tandem::select(*this, 0, index.index, index.location);
  const ir::ErrorScope errors(index.location);
  if (!index.tensor->defined())
    ir::fail(Errc::Argument, "undefined tensor as index; expected a tensor, got none");
  return tandem::index(*this, {*index.tensor}, index.location);
}
Tensor Tensor::index(const Indices& indices, SourceLocation at) const {
  return tandem::index(*this, indices, at);
}
Tensor Tensor::index_put(const Indices& indices, const Located& values, bool accumulate) const {
  return tandem::index_put(*this, indices, values, accumulate);
}
const Tensor& Tensor::index_put_(const Indices& indices, const Located& values,
                                 bool accumulate) const {
  const ir::ErrorScope errors(values.location);
  const Selection s = selection_of(*this, indices, values.location);
  if (s.tensors.empty()) return write(s.view, values, accumulate), *this;
  require_apart(*this, s.tensors, values);
  s.view.copy_(Located(tandem::put(s.view, s.tensors, values, accumulate), values.location));
  return *this;
}
Tensor Tensor::nonzero_static(Dim size, int64_t fill_value, SourceLocation at) const {
  return tandem::nonzero_static(*this, size, fill_value, at);
}

}  // namespace tandem
