// Views, shapes and index operations: free functions and methods.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/error.h"
#include "runtime/call.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::Call;
using runtime::V;

std::span<const Dim> span_of(const Shape& dims) { return {dims.begin(), dims.size()}; }

/// The tensor of a view: a new one even if the builder found nothing to change.
Tensor view_result(Call& c, V self, V result) {
  return c.out(result == self ? c.b.emit(Op::alias, {self}) : result);
}

template <class Make>
Tensor make_view(const Tensor& self, const SourceLocation& at, Make make) {
  Call c(at);
  const V v = c.in(self);
  return view_result(c, v, make(c, v));
}

std::vector<V> values(Call& c, std::span<const Tensor> tensors) {
  std::vector<V> out;
  for (const Tensor& t : tensors) out.push_back(c.in(t));
  return out;
}

int as_int(int64_t dim) { return static_cast<int>(std::clamp<int64_t>(dim, -1000, 1000)); }

}  // namespace

// --- views

Tensor view(const Tensor& self, const Shape& sizes, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.view(v, sizes); });
}
Tensor reshape(const Tensor& self, const Shape& sizes, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.reshape(v, sizes); });
}
Tensor permute(const Tensor& self, const Shape& dims, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.permute(v, span_of(dims)); });
}
Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1, SourceLocation at) {
  return make_view(self, at,
                   [&](Call& c, V v) { return c.b.transpose(v, as_int(dim0), as_int(dim1)); });
}
Tensor expand(const Tensor& self, const Shape& sizes, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.expand(v, sizes); });
}
Tensor slice(const Tensor& self, int64_t dim, std::optional<Dim> start, std::optional<Dim> end,
             Dim step, SourceLocation at) {
  return make_view(self, at,
                   [&](Call& c, V v) { return c.b.slice(v, as_int(dim), start, end, step); });
}
Tensor select(const Tensor& self, int64_t dim, Dim index, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.select(v, as_int(dim), index); });
}
Tensor squeeze(const Tensor& self, const DimList& dims, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) {
    return dims.dims.empty() ? c.b.squeeze(v) : c.b.squeeze(v, span_of(dims.dims));
  });
}
Tensor unsqueeze(const Tensor& self, int64_t dim, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.unsqueeze(v, as_int(dim)); });
}
Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim, SourceLocation at) {
  return make_view(
      self, at, [&](Call& c, V v) { return c.b.flatten(v, as_int(start_dim), as_int(end_dim)); });
}
Tensor diagonal(const Tensor& self, Dim offset, int64_t dim0, int64_t dim1, SourceLocation at) {
  return make_view(
      self, at, [&](Call& c, V v) { return c.b.diagonal(v, offset, as_int(dim0), as_int(dim1)); });
}
Tensor as_strided(const Tensor& self, const Shape& sizes, const Strides& strides, Dim offset,
                  SourceLocation at) {
  return make_view(self, at,
                   [&](Call& c, V v) { return c.b.as_strided(v, sizes, strides, offset); });
}

std::vector<Tensor> split(const Tensor& self, Dim size, int64_t dim, SourceLocation at) {
  if (size < 1)
    ir::fail(Errc::Argument,
             fmt::format("split: expected parts of at least 1, got {}", int64_t{size}));
  const Dim total = self.size(dim);
  std::vector<Tensor> parts;
  for (Dim start = 0; start < total || parts.empty(); start += size)
    parts.push_back(slice(self, dim, start, std::min<int64_t>(start + size, total), 1, at));
  return parts;
}

std::vector<Tensor> chunk(const Tensor& self, Dim chunks, int64_t dim, SourceLocation at) {
  if (chunks < 1)
    ir::fail(Errc::Argument,
             fmt::format("chunk: expected at least 1 part, got {}", int64_t{chunks}));
  return split(self, std::max<int64_t>((self.size(dim) + chunks - 1) / chunks, 1), dim, at);
}

// --- shapes

Tensor cat(std::span<const Tensor> tensors, int64_t dim, SourceLocation at) {
  Call c(at);
  return c.out(c.b.cat(values(c, tensors), as_int(dim)));
}
Tensor cat(std::initializer_list<Tensor> tensors, int64_t dim, SourceLocation at) {
  return cat(std::span(tensors.begin(), tensors.size()), dim, at);
}
Tensor stack(std::span<const Tensor> tensors, int64_t dim, SourceLocation at) {
  Call c(at);
  return c.out(c.b.stack(values(c, tensors), as_int(dim)));
}
Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim, SourceLocation at) {
  return stack(std::span(tensors.begin(), tensors.size()), dim, at);
}

Tensor pad(const Tensor& self, const std::vector<Dim>& padding, const Number& value,
           SourceLocation at) {
  const auto rank = static_cast<size_t>(self.dim());
  if (padding.size() % 2 != 0 || padding.size() > 2 * rank)
    ir::fail(Errc::Argument,
             fmt::format("pad: expected pairs for at most {} dimensions, got {} numbers", rank,
                         padding.size()));
  std::vector<Dim> by_dim(2 * rank, 0);  // first dimension first
  for (size_t i = 0; i < padding.size(); i += 2) {
    by_dim[2 * (rank - 1 - i / 2)] = padding[i];
    by_dim[2 * (rank - 1 - i / 2) + 1] = padding[i + 1];
  }
  Call c(at);
  const V v = c.in(self), padded = c.b.pad(v, by_dim, value);
  return c.out(padded == v ? c.b.clone(v) : padded);
}

Tensor flip(const Tensor& self, const DimList& dims, SourceLocation at) {
  Call c(at);
  const V v = c.in(self), flipped = c.b.flip(v, span_of(dims.dims));
  return c.out(flipped == v ? c.b.clone(v) : flipped);
}

Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim, std::optional<Dim> start,
                     std::optional<Dim> end, Dim step, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.slice_scatter(v, c.in(src), as_int(dim), start.value_or(0),
                                 end.value_or(self.size(dim)), step));
}
Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, Dim index,
                      SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.select_scatter(v, c.in(src), as_int(dim), index));
}

// --- index

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.index_select(v, as_int(dim), c.in(index)));
}
Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.gather(v, as_int(dim), c.in(index)));
}
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                 SourceLocation at) {
  Call c(at);
  const V v = c.in(self), i = c.in(index);
  return c.out(c.b.index_add(v, as_int(dim), i, c.in(src)));
}
Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                   SourceLocation at) {
  Call c(at);
  const V v = c.in(self), i = c.in(index);
  return c.out(c.b.scatter_add(v, as_int(dim), i, c.in(src)));
}
Tensor embedding(const Tensor& weight, const Tensor& indices, SourceLocation at) {
  Call c(at);
  const V v = c.in(weight);
  return c.out(c.b.embedding(v, c.in(indices)));
}
Tensor one_hot(const Tensor& labels, Dim classes, SourceLocation at) {
  Call c(at);
  const V column = c.b.unsqueeze(c.in(labels), -1);
  return c.out(c.b.convert(c.b.eq(column, c.b.iota(classes, labels.dtype())), i64));
}

// --- as methods

// A tensor of positions picks rows: [n, ...][index sizes] is [index sizes, ...].
Tensor Tensor::operator[](const LocatedIndex& index) const {
  if (index.tensor == nullptr) return tandem::select(*this, 0, index.index, index.location);
  Call c(index.location);
  const V positions = c.in(*index.tensor);
  const V rows = c.b.index_select(c.in(*this), 0, c.b.reshape(positions, {-1}));
  Shape sizes = index.tensor->sizes();
  for (int d = 1; d < dim(); ++d) sizes.push_back(this->sizes()[d]);
  return c.out(c.b.view(rows, sizes));
}

Tensor Tensor::view(const Shape& sizes, SourceLocation at) const {
  return tandem::view(*this, sizes, at);
}
Tensor Tensor::reshape(const Shape& sizes, SourceLocation at) const {
  return tandem::reshape(*this, sizes, at);
}
Tensor Tensor::permute(const Shape& dims, SourceLocation at) const {
  return tandem::permute(*this, dims, at);
}
Tensor Tensor::transpose(int64_t dim0, int64_t dim1, SourceLocation at) const {
  return tandem::transpose(*this, dim0, dim1, at);
}
Tensor Tensor::t(SourceLocation at) const {
  if (dim() > 2)
    ir::fail(Errc::Shape, "t: expected at most 2 dimensions, got " + ir::to_string(sizes()));
  return dim() < 2 ? alias(at) : tandem::transpose(*this, 0, 1, at);
}
Tensor Tensor::expand(const Shape& sizes, SourceLocation at) const {
  return tandem::expand(*this, sizes, at);
}
Tensor Tensor::slice(int64_t dim, std::optional<Dim> start, std::optional<Dim> end, Dim step,
                     SourceLocation at) const {
  return tandem::slice(*this, dim, start, end, step, at);
}
Tensor Tensor::narrow(int64_t dim, Dim start, Dim length, SourceLocation at) const {
  const Dim total = size(dim), from = start < 0 ? start + total : start;
  if (from < 0 || length < 0 || from + length > total)
    ir::fail(Errc::Index, fmt::format("narrow: expected a range within {} elements, got start {} "
                                      "and length {}",
                                      int64_t{total}, int64_t{start}, int64_t{length}));
  return tandem::slice(*this, dim, from, from + length, 1, at);
}
Tensor Tensor::select(int64_t dim, Dim index, SourceLocation at) const {
  return tandem::select(*this, dim, index, at);
}
Tensor Tensor::squeeze(const DimList& dims, SourceLocation at) const {
  return tandem::squeeze(*this, dims, at);
}
Tensor Tensor::unsqueeze(int64_t dim, SourceLocation at) const {
  return tandem::unsqueeze(*this, dim, at);
}
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim, SourceLocation at) const {
  return tandem::flatten(*this, start_dim, end_dim, at);
}
Tensor Tensor::diagonal(Dim offset, int64_t dim0, int64_t dim1, SourceLocation at) const {
  return tandem::diagonal(*this, offset, dim0, dim1, at);
}
Tensor Tensor::as_strided(const Shape& sizes, const Strides& strides, Dim offset,
                          SourceLocation at) const {
  return tandem::as_strided(*this, sizes, strides, offset, at);
}
Tensor Tensor::alias(SourceLocation at) const {
  return make_view(*this, at, [](Call&, V v) { return v; });
}
Tensor Tensor::detach(SourceLocation at) const {
  return make_view(*this, at, [](Call& c, V v) { return c.b.emit(Op::detach, {v}); });
}
std::vector<Tensor> Tensor::chunk(Dim chunks, int64_t dim, SourceLocation at) const {
  return tandem::chunk(*this, chunks, dim, at);
}
std::vector<Tensor> Tensor::split(Dim size, int64_t dim, SourceLocation at) const {
  return tandem::split(*this, size, dim, at);
}
std::vector<Tensor> Tensor::unbind(int64_t dim, SourceLocation at) const {
  std::vector<Tensor> parts;
  for (Dim i = 0; i < size(dim); i += 1) parts.push_back(tandem::select(*this, dim, i, at));
  return parts;
}
Tensor Tensor::flip(const DimList& dims, SourceLocation at) const {
  return tandem::flip(*this, dims, at);
}
Tensor Tensor::index_select(int64_t dim, const Tensor& index, SourceLocation at) const {
  return tandem::index_select(*this, dim, index, at);
}
Tensor Tensor::gather(int64_t dim, const Tensor& index, SourceLocation at) const {
  return tandem::gather(*this, dim, index, at);
}

// Through the functional forms: they have no writing ones of their own.
const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                 SourceLocation at) const {
  return copy_(Located(tandem::index_add(*this, dim, index, src, at), at));
}
const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                   SourceLocation at) const {
  return copy_(Located(tandem::scatter_add(*this, dim, index, src, at), at));
}

}  // namespace tandem
