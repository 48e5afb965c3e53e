// Views and shapes: free functions and methods.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/strides.h"
#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/rearrange.h"
#include "runtime/tensor/whole_memory.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::as_int;
using runtime::Call;
using runtime::V;

/// The tensor of a view: a new one even if the builder found nothing to change.
Tensor view_result(Call& c, V self, V result) {
  return c.out(result == self ? c.b.emit(Op::alias, {self}) : result);
}

template <class Make>
Tensor make_view(const Tensor& self, const SourceLocation& at, Make make,
                 std::string_view function = __builtin_FUNCTION()) {
  Call c(at, function);
  const V v = c.in(self);
  return view_result(c, v, make(c, v));
}

std::vector<V> values(Call& c, std::span<const Tensor> tensors) {
  std::vector<V> out;
  for (const Tensor& t : tensors) out.push_back(c.in(t, "one of the tensors"));
  return out;
}

}  // namespace

// --- views

Tensor view(const Tensor& self, const Shape& sizes, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.view(v, sizes); });
}
Tensor reshape(const Tensor& self, const Shape& sizes, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.reshape(v, sizes); });
}
Tensor permute(const Tensor& self, const DimList& dims, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.permute(v, dims.dims); });
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
    return dims.is_every ? c.b.squeeze(v) : c.b.squeeze(v, dims.dims);
  });
}
Tensor unsqueeze(const Tensor& self, int64_t dim, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.unsqueeze(v, as_int(dim)); });
}
Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim, SourceLocation at) {
  const auto is = [&](int64_t dim, int64_t d) { return dim == d || dim == d - self.dim(); };
  for (int64_t d = 0; d < self.dim(); ++d)
    if (is(start_dim, d) && is(end_dim, d)) return self;  // as ATen: nothing to merge
  return make_view(
      self, at, [&](Call& c, V v) { return c.b.flatten(v, as_int(start_dim), as_int(end_dim)); });
}
Tensor diagonal(const Tensor& self, Dim offset, int64_t dim0, int64_t dim1, SourceLocation at) {
  return make_view(
      self, at, [&](Call& c, V v) { return c.b.diagonal(v, offset, as_int(dim0), as_int(dim1)); });
}

namespace {

/// Whether `memory`, which is dense, holds what these sizes and strides show.
bool contains(const Tensor& memory, const Shape& sizes, const Strides& strides, Dim offset) {
  if (!memory.defined() || sizes.rank() != strides.rank()) return false;
  return offset >= memory.impl()->offset && ir::end_of({sizes, strides, offset}, "as_strided") <=
                                                memory.impl()->offset + memory.numel();
}

}  // namespace

// Over the tensor itself, over what it is a view of, or over all of the memory: the first that
// holds the elements.
Tensor as_strided(const Tensor& self, const Shape& sizes, const Strides& strides,
                  std::optional<Dim> storage_offset, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const runtime::LocationScope scope(at);
  Tensor memory = runtime::in_memory_order(self, at);
  const Dim offset = storage_offset.value_or(self.impl()->offset);
  if (storage_offset || !contains(memory, sizes, strides, offset)) runtime::ask_offset(self);
  if (const Tensor base = runtime::base_of(self);
      !contains(memory, sizes, strides, offset) && base.defined() && runtime::is_value(base))
    memory = runtime::in_memory_order(base, at);
  if (!contains(memory, sizes, strides, offset)) memory = runtime::whole_memory(self, at);
  return make_view(memory, at, [&](Call& c, V v) {
    return c.b.as_strided(v, sizes, strides, offset - memory.impl()->offset);
  });
}

Tensor view(const Tensor& self, DType dtype, SourceLocation at) {
  return make_view(self, at, [&](Call& c, V v) { return c.b.view_dtype(v, dtype); });
}
Tensor view_as(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return view(self, other.sizes(), at);
}
Tensor reshape_as(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return reshape(self, other.sizes(), at);
}
Tensor expand_as(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return expand(self, other.sizes(), at);
}
Tensor broadcast_to(const Tensor& self, const Shape& sizes, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return expand(self, sizes, at);
}
Tensor alias(const Tensor& self, SourceLocation at) { return self.alias(at); }
Tensor detach(const Tensor& self, SourceLocation at) { return self.detach(at); }

Tensor narrow(const Tensor& self, int64_t dim, Dim start, Dim length, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const Dim total = self.size(dim), from = start < 0 ? start + total : start;
  if (from < 0 || from > total || length < 0 || length > total - from)
    ir::fail(Errc::Index, fmt::format("narrow: expected a range within {} elements, got start {} "
                                      "and length {}",
                                      int64_t{total}, int64_t{start}, int64_t{length}));
  return slice(self, dim, from, from + length, 1, at);
}

Tensor movedim(const Tensor& self, const DimList& source, const DimList& destination,
               SourceLocation at) {
  const ir::ErrorScope errors(at);
  Call c(at);
  const int rank = static_cast<int>(self.dim()), dims = std::max(rank, 1);
  const auto from = c.b.wrap_dims(source.dims, dims, "movedim");
  const auto to = c.b.wrap_dims(destination.dims, dims, "movedim");
  if (from.size() != to.size())
    ir::fail(Errc::Argument, fmt::format("movedim: expected as many destinations as sources, got "
                                         "{} and {}",
                                         to.size(), from.size()));
  ir::Axes order(static_cast<size_t>(rank), -1);
  for (size_t i = 0; rank > 0 && i < to.size(); ++i) order[static_cast<size_t>(to[i])] = from[i];
  ir::Axis next = 0;
  for (ir::Axis& d : order) {
    while (std::ranges::count(from, next) != 0) next += 1;
    if (d == -1) d = next++;
  }
  return permute(self, order, at);
}

Tensor swapaxes(const Tensor& self, int64_t dim0, int64_t dim1, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return transpose(self, dim0, dim1, at);
}
Tensor t(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (self.dim() > 2)
    ir::fail(Errc::Shape,
             fmt::format("t: expected at most two dimensions, got {}", to_string(self.sizes())));
  return self.dim() == 2 ? transpose(self, 0, 1, at) : self.alias(at);
}
Tensor matrix_transpose(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (self.dim() == 0) return self;
  if (self.dim() < 2)
    ir::fail(Errc::Shape,
             fmt::format("mT: expected at least two dimensions, got {}", to_string(self.sizes())));
  return transpose(self, -2, -1, at);
}

Tensor unflatten(const Tensor& self, int64_t dim, const Shape& sizes, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const Dim size = self.size(dim);
  const auto d = static_cast<int>(dim < 0 ? dim + self.dim() : dim);
  Dim known = 1;
  for (Dim s : sizes) known *= s == -1 ? Dim(1) : s;
  Shape all;
  for (int i = 0; i < self.dim(); ++i) {
    if (i != d) all.push_back(self.sizes()[i]);
    for (int k = 0; i == d && k < sizes.rank(); ++k)
      all.push_back(sizes[k] == -1 && known != 0 ? size / known : sizes[k]);
  }
  return view(self, all, at);
}
// Of what is not contiguous always a copy, also where strides would do.
Tensor ravel(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return view(self.contiguous(at), {self.numel()}, at);
}
Tensor unfold(const Tensor& self, int64_t dim, Dim length, Dim step, SourceLocation at) {
  return make_view(self, at,
                   [&](Call& c, V v) { return c.b.unfold(v, as_int(dim), length, step); });
}

Tensor real(const Tensor& self, SourceLocation) { return self; }
Tensor imag(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  ir::fail(Errc::Unsupported,
           fmt::format("imag: there are no complex tensors; expected a complex tensor, got {}",
                       ir::name(self.dtype())));
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

Tensor flip(const Tensor& self, const DimList& dims, SourceLocation at) {
  Call c(at);
  const V v = c.in(self), flipped = c.b.flip(v, dims.dims);
  return flipped == v ? clone(self, at) : c.out(flipped);
}

Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim, std::optional<Dim> start,
                     std::optional<Dim> end, Dim step, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.slice_scatter(v, c.in(src, "src"), as_int(dim), start.value_or(0),
                                 end.value_or(self.size(dim)), step));
}
Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, Dim index,
                      SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.select_scatter(v, c.in(src, "src"), as_int(dim), index));
}
Tensor diagonal_scatter(const Tensor& self, const Tensor& src, Dim offset, int64_t dim0,
                        int64_t dim1, SourceLocation at) {
  Call c(at);
  const int rank = static_cast<int>(self.dim());
  const int64_t a = c.b.wrap_dim(dim0, rank, "diagonal_scatter");
  const int64_t b = c.b.wrap_dim(dim1, rank, "diagonal_scatter");
  return c.out(c.b.emit(Op::diagonal_scatter,
                        {c.in(self), c.b.convert(c.in(src, "src"), self.dtype())}, {offset, a, b}));
}
Tensor as_strided_scatter(const Tensor& self, const Tensor& src, const Shape& sizes,
                          const Strides& strides, Dim storage_offset, SourceLocation at) {
  Call c(at);
  return c.out(c.b.emit(Op::as_strided_scatter,
                        {c.in(self), c.b.convert(c.in(src, "src"), self.dtype())},
                        {sizes, strides, storage_offset}));
}

// --- as methods

Tensor Tensor::view(const Shape& sizes, SourceLocation at) const {
  return tandem::view(*this, sizes, at);
}
Tensor Tensor::reshape(const Shape& sizes, SourceLocation at) const {
  return tandem::reshape(*this, sizes, at);
}
Tensor Tensor::permute(const DimList& dims, SourceLocation at) const {
  return tandem::permute(*this, dims, at);
}
Tensor Tensor::transpose(int64_t dim0, int64_t dim1, SourceLocation at) const {
  return tandem::transpose(*this, dim0, dim1, at);
}
Tensor Tensor::t(SourceLocation at) const { return tandem::t(*this, at); }
Tensor Tensor::expand(const Shape& sizes, SourceLocation at) const {
  return tandem::expand(*this, sizes, at);
}
Tensor Tensor::slice(int64_t dim, std::optional<Dim> start, std::optional<Dim> end, Dim step,
                     SourceLocation at) const {
  return tandem::slice(*this, dim, start, end, step, at);
}
Tensor Tensor::narrow(int64_t dim, Dim start, Dim length, SourceLocation at) const {
  return tandem::narrow(*this, dim, start, length, at);
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
Tensor Tensor::as_strided(const Shape& sizes, const Strides& strides,
                          std::optional<Dim> storage_offset, SourceLocation at) const {
  return tandem::as_strided(*this, sizes, strides, storage_offset, at);
}
Tensor Tensor::view(DType dtype, SourceLocation at) const { return tandem::view(*this, dtype, at); }
Tensor Tensor::view_as(const Tensor& other, SourceLocation at) const {
  return tandem::view_as(*this, other, at);
}
Tensor Tensor::expand_as(const Tensor& other, SourceLocation at) const {
  return tandem::expand_as(*this, other, at);
}
Tensor Tensor::broadcast_to(const Shape& sizes, SourceLocation at) const {
  return tandem::broadcast_to(*this, sizes, at);
}
Tensor Tensor::movedim(const DimList& source, const DimList& destination, SourceLocation at) const {
  return tandem::movedim(*this, source, destination, at);
}
Tensor Tensor::swapaxes(int64_t dim0, int64_t dim1, SourceLocation at) const {
  return tandem::swapaxes(*this, dim0, dim1, at);
}
Tensor Tensor::mT(SourceLocation at) const { return tandem::matrix_transpose(*this, at); }
Tensor Tensor::mH(SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return tandem::matrix_transpose(*this, at);
}
Tensor Tensor::H(SourceLocation at) const {
  const ir::ErrorScope errors(at);
  if (dim() != 0 && dim() != 2)
    ir::fail(Errc::Shape, fmt::format("H: expected a matrix, got {}", ir::to_string(sizes())));
  return tandem::matrix_transpose(*this, at);
}
// All dimensions in reverse order.
Tensor Tensor::T(SourceLocation at) const {
  const ir::ErrorScope errors(at);
  ir::Axes order;
  for (ir::Axis d = dim(); d-- > 0;) order.push_back(d);
  return tandem::permute(*this, order, at);
}
Tensor Tensor::unflatten(int64_t dim, const Shape& sizes, SourceLocation at) const {
  return tandem::unflatten(*this, dim, sizes, at);
}
Tensor Tensor::ravel(SourceLocation at) const { return tandem::ravel(*this, at); }
Tensor Tensor::unfold(int64_t dim, Dim length, Dim step, SourceLocation at) const {
  return tandem::unfold(*this, dim, length, step, at);
}
Tensor Tensor::alias(SourceLocation at) const {
  return make_view(*this, at, [](Call&, V v) { return v; });
}
Tensor Tensor::detach(SourceLocation at) const {
  return make_view(*this, at, [](Call& c, V v) { return c.b.emit(Op::detach, {v}); });
}
Tensor Tensor::flip(const DimList& dims, SourceLocation at) const {
  return tandem::flip(*this, dims, at);
}

}  // namespace tandem
