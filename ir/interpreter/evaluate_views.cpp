// Evaluation rules of views, their inverses, ops that rearrange or join, and factories. A view is
// described by strides over operand 0's elements in row-major order; its inverse writes there.
#include <algorithm>

#include "ir/base/error.h"
#include "ir/interpreter/evaluate_elements.h"

namespace tandem::ir::evaluate {
namespace {

/// Element at index is element offset + sum of index * stride of the operand.
struct Geometry {
  Shape sizes;
  Strides strides;
  int64_t offset = 0;
};

Geometry whole_of(const Shape& sizes) { return {sizes, contiguous_strides(sizes)}; }

Geometry sliced(Geometry g, int dim, Dim start, Dim end, Dim step) {
  g.offset += start * g.strides[dim];
  g.sizes[dim] = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  g.strides[dim] *= step;
  return g;
}

Geometry slice_geometry(const Context& c) {
  return sliced(whole_of(c.operand(0).sizes()), static_cast<int>(c.attr<int64_t>(Attr::dim)),
                c.attr<Dim>(Attr::start), c.attr<Dim>(Attr::end), c.attr<Dim>(Attr::step));
}

Geometry select_geometry(const Context& c) {
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  Geometry g = whole_of(c.operand(0).sizes());
  g.offset = c.attr<Dim>(Attr::index) * g.strides[dim];
  g.sizes.erase(dim);
  g.strides.erase(dim);
  return g;
}

Geometry diagonal_geometry(const Context& c, const Shape& sizes) {
  const int dim0 = static_cast<int>(c.attr<int64_t>(Attr::dim0));
  const int dim1 = static_cast<int>(c.attr<int64_t>(Attr::dim1));
  const int64_t offset = c.attr<Dim>(Attr::offset);
  Geometry g = whole_of(c.operand(0).sizes());
  g.offset = offset >= 0 ? offset * g.strides[dim1] : -offset * g.strides[dim0];
  const Dim step = g.strides[dim0] + g.strides[dim1];
  g.strides.erase(std::max(dim0, dim1));
  g.strides.erase(std::min(dim0, dim1));
  g.strides.push_back(step);
  g.sizes = sizes;
  return g;
}

Geometry strided_geometry(const Context& c) {
  return {Shape(c.attr<Dims>(Attr::sizes)), Strides(c.attr<Dims>(Attr::strides)),
          c.attr<Dim>(Attr::offset)};
}

Positions positions_of(const Geometry& g) {
  return strided_positions(g.sizes, g.strides, g.offset);
}

/// The elements of operand 0 at `g`, in operand 0's storage.
Tensor aliased(const Context& c, const Geometry& g) {
  const Tensor& base = c.operand(0);
  Positions positions = positions_of(g);
  if (base.positions)
    for (int64_t& p : positions) p = (*base.positions)[p];
  return {c.result(), base.storage, std::make_shared<const Positions>(std::move(positions)),
          base.stored};
}

/// All elements of operand 0 in order, in other sizes.
Tensor same_elements(const Context& c) {
  return {c.result(), c.operand(0).storage, c.operand(0).positions, c.operand(0).stored};
}

/// Writes src's elements at `g` of `target`, which is not a view.
void scatter(const Tensor& target, const Geometry& g, const Tensor& src) {
  write({src.type, target.storage, std::make_shared<const Positions>(positions_of(g))}, src);
}

Tensor scattered(const Context& c, const Geometry& g) {
  Tensor result = copied(c.operand(0));
  scatter(result, g, c.operand(1));
  return result;
}

}  // namespace

// --- views
Tensor view(const Context& c) { return same_elements(c); }
Tensor squeeze(const Context& c) { return same_elements(c); }
Tensor unsqueeze(const Context& c) { return same_elements(c); }
Tensor alias(const Context& c) { return same_elements(c); }
Tensor detach(const Context& c) { return same_elements(c); }

Tensor permute(const Context& c) {
  const Strides from = contiguous_strides(c.operand(0).sizes());
  Strides strides;
  for (Axis d : c.attr<Axes>(Attr::dims)) strides.push_back(from[static_cast<int>(d)]);
  return aliased(c, {c.result().sizes, strides});
}

Tensor transpose(const Context& c) {
  Strides strides = contiguous_strides(c.operand(0).sizes());
  std::swap(strides[static_cast<int>(c.attr<int64_t>(Attr::dim0))],
            strides[static_cast<int>(c.attr<int64_t>(Attr::dim1))]);
  return aliased(c, {c.result().sizes, strides});
}

Tensor expand(const Context& c) {
  const Shape& from = c.operand(0).sizes();
  const Strides from_strides = contiguous_strides(from);
  const int added = c.result().rank() - from.rank();
  Strides strides = Strides::filled(c.result().rank(), 0);
  for (int d = 0; d < from.rank(); ++d)
    if (from[d] != 1) strides[d + added] = from_strides[d];
  return aliased(c, {c.result().sizes, strides});
}

Tensor slice(const Context& c) { return aliased(c, slice_geometry(c)); }
Tensor select(const Context& c) { return aliased(c, select_geometry(c)); }
Tensor as_strided(const Context& c) { return aliased(c, strided_geometry(c)); }
Tensor diagonal(const Context& c) { return aliased(c, diagonal_geometry(c, c.result().sizes)); }

Tensor unfold(const Context& c) {
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  Strides strides = contiguous_strides(c.operand(0).sizes());
  const Dim inside = strides[dim];
  strides[dim] *= c.attr<Dim>(Attr::step);
  strides.push_back(inside);
  return aliased(c, {c.result().sizes, strides});
}

// The first byte of each element: of every stored element its first, then one for each part; or
// the first of every few.
Tensor view_dtype(const Context& c) {
  const Tensor& base = c.operand(0);
  const int64_t from = size_of(base.dtype()), to = size_of(c.result().dtype);
  Positions bytes;
  for (int64_t i = 0, n = base.numel(); i < n; ++i) {
    const int64_t first = base.position(i) * (base.stored ? 1 : from);
    if (from < to && i * from % to != 0) {
      TANDEM_CHECK(first == bytes.back() + i * from % to, "the bytes of an element lie apart");
      continue;
    }
    for (int64_t k = 0; k < from; k += std::min(from, to)) bytes.push_back(first + k);
  }
  return {c.result(), base.storage, std::make_shared<const Positions>(std::move(bytes)),
          base.stored ? base.stored : base.dtype()};
}

// --- view inverses
Tensor slice_scatter(const Context& c) { return scattered(c, slice_geometry(c)); }
Tensor select_scatter(const Context& c) { return scattered(c, select_geometry(c)); }
Tensor as_strided_scatter(const Context& c) { return scattered(c, strided_geometry(c)); }
Tensor diagonal_scatter(const Context& c) {
  return scattered(c, diagonal_geometry(c, c.operand(1).sizes()));
}

// --- views as values
#define VIEW(op) \
  Tensor op##_copy(const Context& c) { return copied(op(c)); }
#include "ir/view_ops.def"

// --- shape
Tensor cat(const Context& c) {
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  Tensor result = zeros(c.result());
  Dim start = 0;
  for (const Tensor& part : c.operands) {
    const Dim end = start + part.sizes()[dim];
    scatter(result, sliced(whole_of(c.result().sizes), dim, start, end, 1), part);
    start = end;
  }
  return result;
}

Tensor pad(const Context& c) {
  const auto& padding = c.attr<Dims>(Attr::padding);
  Tensor result = fill(c);
  Geometry inside = whole_of(c.result().sizes);
  for (int d = 0; d < c.result().rank(); ++d)
    inside = sliced(inside, d, padding[2 * d], padding[2 * d] + c.operand(0).sizes()[d], 1);
  scatter(result, inside, c.operand(0));
  return result;
}

Tensor flip(const Context& c) {
  Geometry g = whole_of(c.result().sizes);
  for (Axis dim : c.attr<Axes>(Attr::dims)) {
    const int d = static_cast<int>(dim);
    g.offset += (g.sizes[d] - 1) * g.strides[d];
    g.strides[d] *= -1;
  }
  return copied(aliased(c, g));
}

// --- factories
Tensor full(const Context& c) { return fill(c); }

Tensor iota(const Context& c) {
  Tensor result = zeros(c.result());
  by_category(c.result().dtype, [&]<class T>(T) {
    const T first = number_as<T>(c.attr<Number>(Attr::first));
    const T increment = number_as<T>(c.attr<Number>(Attr::increment));
    T* out = elements<T>(result);
    for (int64_t i = 0, n = result.numel(); i < n; ++i)
      out[i] = add_of(first, mul_of(static_cast<T>(i), increment));
  });
  return result;
}

}  // namespace tandem::ir::evaluate
