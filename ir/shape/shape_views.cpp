// Shape rules of views, their inverses, and ops that rearrange or join.
#include <fmt/format.h>

#include <algorithm>

#include "ir/shape/shape_rule_functions.h"
#include "ir/strides.h"

namespace tandem::ir::shape_rule {
namespace {

const Dims& dims_of(const ShapeContext& c, Attr name) { return c.attr<Dims>(name); }
const Axes& axes_of(const ShapeContext& c) { return c.attr<Axes>(Attr::dims); }

Shape checked_sizes(const ShapeContext& c) {
  const Shape sizes(dims_of(c, Attr::sizes));
  for (Dim d : sizes)
    if (d < 0) reject(c, Errc::Shape, "negative size", "sizes >= 0", to_string(sizes));
  return sizes;
}

int checked_dim(const ShapeContext& c, Attr name, int rank) {
  const int64_t dim = c.attr<int64_t>(name);
  require_dim(c, dim, rank);
  return static_cast<int>(dim);
}

/// Types of the view inverses: `src` has the type of the viewed part.
Type scatter(const ShapeContext& c, const Type& part) {
  if (c.operands[1] != part)
    reject(c, c.operands[1].dtype != part.dtype ? Errc::DType : Errc::Shape,
           "src does not fit the viewed part", to_string(part), to_string(c.operands[1]));
  return c.operands[0];
}

}  // namespace

Type view(const ShapeContext& c) {
  const Shape sizes = checked_sizes(c);
  const Shape& from = c.operands[0].sizes;
  if (numel(sizes) != numel(from))
    reject(c, Errc::Shape, "number of elements differs",
           fmt::format("sizes with {} elements", int64_t{numel(from)}),
           fmt::format("{} for a tensor of {}", to_string(sizes), to_string(from)));
  return {c.operands[0].dtype, sizes};
}

Type permute(const ShapeContext& c) {
  const Shape& from = c.operands[0].sizes;
  const auto& order = axes_of(c);
  uint32_t seen = 0;  // by dimension
  for (Axis d : order)
    if (d >= 0 && d < from.rank()) seen |= 1u << d;
  if (order.size() != from.size() || seen + 1 != 1u << from.rank())
    reject(c, Errc::Argument, "dims are not a permutation",
           fmt::format("each of {} dimensions once", from.rank()), to_string(order));
  Shape sizes;
  for (Axis d : order) sizes.push_back(from[static_cast<int>(d)]);
  return {c.operands[0].dtype, sizes};
}

Type expand(const ShapeContext& c) {
  const Shape sizes = checked_sizes(c);
  const Shape& from = c.operands[0].sizes;
  const int added = sizes.rank() - from.rank();
  bool fits = added >= 0;
  for (int d = 0; fits && d < from.rank(); ++d) fits = from[d] == sizes[d + added] || from[d] == 1;
  if (!fits)
    reject(c, Errc::Shape, "sizes do not broadcast",
           fmt::format("sizes that {} broadcasts to", to_string(from)), to_string(sizes));
  return {c.operands[0].dtype, sizes};
}

Type slice(const ShapeContext& c) {
  Type type = c.operands[0];
  const int dim = checked_dim(c, Attr::dim, type.rank());
  const Dim start = c.attr<Dim>(Attr::start), end = c.attr<Dim>(Attr::end);
  const Dim step = c.attr<Dim>(Attr::step), size = type.sizes[dim];
  if (start < 0 || end < start || size < end)
    reject(c, Errc::Index, "range out of bounds",
           fmt::format("0 <= start <= end <= {}", int64_t{size}),
           fmt::format("start {} and end {}", int64_t{start}, int64_t{end}));
  if (step < 1)
    reject(c, Errc::Argument, "step is not positive", "step >= 1", std::to_string(step));
  // Written so that a huge step does not overflow.
  type.sizes[dim] = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  return type;
}

Type diagonal(const ShapeContext& c) {
  Type type = c.operands[0];
  const int dim0 = checked_dim(c, Attr::dim0, type.rank());
  const int dim1 = checked_dim(c, Attr::dim1, type.rank());
  if (dim0 == dim1)
    reject(c, Errc::Argument, "dim0 equals dim1", "two different dimensions", std::to_string(dim0));
  const int64_t offset = c.attr<Dim>(Attr::offset);
  const int64_t rows = type.sizes[dim0], columns = type.sizes[dim1];
  int64_t length = 0;
  if (offset >= 0 && offset < columns) length = std::min(rows, columns - offset);
  if (offset < 0 && offset > -rows) length = std::min(rows + offset, columns);
  type.sizes.erase(std::max(dim0, dim1));
  type.sizes.erase(std::min(dim0, dim1));
  type.sizes.push_back(length);
  return type;
}

Type as_strided(const ShapeContext& c) {
  const Shape sizes = checked_sizes(c);
  const Strides strides(dims_of(c, Attr::strides));
  const Dim offset = c.attr<Dim>(Attr::offset);
  if (strides.rank() != sizes.rank())
    reject(c, Errc::Argument, "sizes and strides differ in length", "one stride per size",
           to_string(sizes) + " and " + to_string(strides));
  const bool negative = std::ranges::any_of(strides, [](Dim d) { return d < 0; });
  if (offset < 0 || negative)
    reject(c, Errc::Argument, "negative offset or stride", "offset >= 0 and strides >= 0",
           fmt::format("offset {} and strides {}", int64_t{offset}, to_string(strides)));
  const Dim end = end_of({sizes, strides, offset}, "as_strided");
  const Dim available = numel(c.operands[0].sizes);
  if (numel(sizes) > 0 && end > available)
    reject(c, Errc::Index, "view reaches past its storage",
           fmt::format("at most {} elements", int64_t{available}), std::to_string(end));
  return {c.operands[0].dtype, sizes};
}

Type select(const ShapeContext& c) {
  Type type = c.operands[0];
  const int dim = checked_dim(c, Attr::dim, type.rank());
  const Dim index = c.attr<Dim>(Attr::index);
  if (index < 0 || index >= type.sizes[dim])
    reject(c, Errc::Index, "index out of range",
           fmt::format("0 <= index < {}", int64_t{type.sizes[dim]}), std::to_string(index));
  type.sizes.erase(dim);
  return type;
}

Type squeeze(const ShapeContext& c) {
  const auto& dims = axes_of(c);
  require_dims(c, dims, c.operands[0].rank());
  Type type = c.operands[0];
  for (size_t i = dims.size(); i-- > 0;)
    if (type.sizes[static_cast<int>(dims[i])] == 1) type.sizes.erase(static_cast<int>(dims[i]));
  return type;
}

Type unsqueeze(const ShapeContext& c) {
  Type type = c.operands[0];
  type.sizes.insert(checked_dim(c, Attr::dim, type.rank() + 1), 1);
  return type;
}

Type transpose(const ShapeContext& c) {
  Type type = c.operands[0];
  const int dim0 = checked_dim(c, Attr::dim0, type.rank());
  const int dim1 = checked_dim(c, Attr::dim1, type.rank());
  std::swap(type.sizes[dim0], type.sizes[dim1]);
  return type;
}

Type unfold(const ShapeContext& c) {
  Type type = c.operands[0];
  const Dim length = c.attr<Dim>(Attr::length), step = c.attr<Dim>(Attr::step);
  if (length < 0 || step < 1)
    reject(c, Errc::Argument, "bad window", "length >= 0 and step >= 1",
           fmt::format("length {} and step {}", int64_t{length}, int64_t{step}));
  const int dim = checked_dim(c, Attr::dim, type.rank());
  if (length > type.sizes[dim])
    reject(c, Errc::Shape, "window is longer than the dimension",
           fmt::format("length <= {}", int64_t{type.sizes[dim]}), std::to_string(length));
  type.sizes[dim] = (type.sizes[dim] - length) / step + 1;
  type.sizes.push_back(length);
  return type;
}

Type view_dtype(const ShapeContext& c) {
  Type type{c.attr<DType>(Attr::dtype), c.operands[0].sizes};
  const int64_t from = size_of(c.operands[0].dtype), to = size_of(type.dtype);
  if (from == to) return type;
  if (type.rank() == 0)
    reject(c, Errc::Shape, "no last dimension to hold elements of another size",
           fmt::format("a dtype of {} bytes", from), std::string(name(type.dtype)));
  const Dim bytes = checked_mul(type.sizes.back(), from, "view_dtype");
  if (bytes % to != 0)
    reject(c, Errc::Shape, "the last dimension is no whole number of elements",
           fmt::format("a multiple of {} bytes", to), fmt::format("{} bytes", int64_t{bytes}));
  type.sizes[type.rank() - 1] = bytes / to;
  return type;
}

Type scatter_slice(const ShapeContext& c) { return scatter(c, slice(c)); }
Type scatter_diagonal(const ShapeContext& c) { return scatter(c, diagonal(c)); }
Type scatter_strided(const ShapeContext& c) { return scatter(c, as_strided(c)); }
Type scatter_select(const ShapeContext& c) { return scatter(c, select(c)); }

Type cat(const ShapeContext& c) {
  require_same_dtype(c);
  Type type = c.operands[0];
  const int dim = checked_dim(c, Attr::dim, type.rank());
  for (const Type& next : c.operands.subspan(1)) {
    Shape others = next.sizes;
    if (others.rank() == type.rank()) others[dim] = type.sizes[dim];
    if (others != type.sizes)
      reject(c, Errc::Shape, "sizes do not fit",
             fmt::format("equal sizes except in dimension {}", dim), all_sizes(c));
    type.sizes[dim] = checked_add(type.sizes[dim], next.sizes[dim], "cat");
  }
  return type;
}

Type pad(const ShapeContext& c) {
  Type type = c.operands[0];
  const auto& padding = dims_of(c, Attr::padding);
  if (static_cast<int>(padding.size()) != 2 * type.rank())
    reject(c, Errc::Argument, "wrong number of paddings",
           fmt::format("{} (before and after each dimension)", 2 * type.rank()),
           std::to_string(padding.size()));
  for (size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] < 0)
      reject(c, Errc::Argument, "negative padding", "padding >= 0", std::to_string(padding[i]));
    Dim& size = type.sizes[static_cast<int>(i / 2)];
    size = checked_add(size, padding[i], "pad");
  }
  return type;
}

Type flip(const ShapeContext& c) {
  require_dims(c, axes_of(c), c.operands[0].rank());
  return c.operands[0];
}

}  // namespace tandem::ir::shape_rule
