// x.index({...}) and x.index_put_({...}, values): what views can do is done by views; tensors of
// positions are joined to one of places in self, at which an op on rows reads or writes.
#include <fmt/format.h>
#include <tandem/indexing.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/indexing/index_put.h"
#include "runtime/indexing/places.h"
#include "runtime/indexing/positions.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::counts;
using runtime::is_mask;
using runtime::V;

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

/// The order of self's dims that has `dims` first.
ir::Axes with_first(const std::vector<int>& dims, int rank) {
  ir::Axes order;
  for (int d : dims) order.push_back(d);
  for (int d = 0; d < rank; ++d)
    if (std::ranges::count(dims, d) == 0) order.push_back(d);
  return order;
}

V read(Call& c, V self, const std::vector<Tensor>& indices) {
  const std::vector<int> dims = runtime::indexed_dims(indices);
  const int before = runtime::are_adjacent(dims) ? dims.front() : 0;
  const V moved =
      runtime::are_adjacent(dims) ? self : c.b.permute(self, with_first(dims, c.b.rank(self)));
  const Shape sizes = c.b.sizes(moved), positions = runtime::common_sizes(c, indices, dims);
  Shape flat{1, 1, 1}, result;
  for (int d = 0; d < before; ++d) flat[0] *= sizes[d], result.push_back(sizes[d]);
  for (Dim n : positions) result.push_back(n);
  const int after = before + static_cast<int>(dims.size());
  for (int d = before; d < after; ++d) flat[1] *= sizes[d];
  for (int d = after; d < sizes.rank(); ++d) flat[2] *= sizes[d], result.push_back(sizes[d]);
  const V index =
      runtime::places(c, self, indices, dims, runtime::steps_along(dims, c.b.sizes(self)));
  if (dims.size() == 1) return c.b.view(c.b.index_select(self, dims[0], index), result);
  return c.b.view(c.b.index_select(c.b.reshape(moved, flat), 1, index), result);
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
  if (s.tensors.empty()) return s.view.impl() == self.impl() ? self.alias(at) : s.view;
  const std::vector<Tensor> tensors = runtime::without_masks(s.view.sizes(), s.tensors);
  Call c(at);
  return c.out(read(c, c.in(s.view), tensors));
}

Tensor index_put(const Tensor& self, const Indices& indices, const Located& values,
                 bool accumulate) {
  const ir::ErrorScope errors(values.location);
  const Selection s = selection_of(self, indices, values.location);
  if (s.view.impl() == self.impl() && !s.tensors.empty())
    return runtime::put(self, s.tensors, values, accumulate);
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
  runtime::put_into(s.view, s.tensors, values, accumulate);
  return *this;
}
Tensor Tensor::nonzero_static(Dim size, int64_t fill_value, SourceLocation at) const {
  return tandem::nonzero_static(*this, size, fill_value, at);
}

}  // namespace tandem
