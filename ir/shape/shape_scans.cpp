// Shape rules of scans, sorts and searches.
#include <fmt/format.h>

#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir::shape_rule {
namespace {

int scanned_dim(const ShapeContext& c) {
  const int64_t dim = c.attr<int64_t>(Attr::dim);
  require_dim(c, dim, c.operands[0].rank());
  return static_cast<int>(dim);
}

/// Positions, `size` of them along the dimension.
Type positions(const ShapeContext& c, Dim size) {
  Shape sizes = c.operands[0].sizes;
  sizes[scanned_dim(c)] = size;
  return {DType::I64, sizes};
}

void require_within(const ShapeContext& c, std::string_view name, Dim value, Dim most) {
  if (value < 0 || value > most)
    reject(c, Errc::Argument, fmt::format("{} out of range", name), fmt::format("0 to {}", most),
           fmt::format("{}", value));
}

}  // namespace

Type scan(const ShapeContext& c) {
  scanned_dim(c);
  require_same_type(c);
  if (c.operands[0].dtype == DType::Bool)
    reject(c, Errc::DType, "not defined for bool", "numbers", "bool");
  return c.operands[0];
}

Type scan_float(const ShapeContext& c) {
  require_floating(c);
  return scan(c);
}

Type each_float(const ShapeContext& c) {
  require_floating(c);
  require_same_type(c);
  return c.operands[0];
}

Type scan_index(const ShapeContext& c) {
  const int dim = scanned_dim(c);
  return positions(c, c.operands[0].sizes[dim]);
}

Type scan_part(const ShapeContext& c) {
  const int dim = scanned_dim(c);
  const Dim length = c.attr<Dim>(Attr::length);
  require_within(c, "length", length, c.operands[0].sizes[dim]);
  return positions(c, length);
}

Type scan_one(const ShapeContext& c) {
  const int dim = scanned_dim(c);
  const Dim size = c.operands[0].sizes[dim];
  if (size == 0)
    reject(c, Errc::Shape, fmt::format("dimension {} is empty", dim), "at least one element",
           to_string(c.operands[0].sizes));
  if (has_attr(c.op, Attr::index)) require_within(c, "index", c.attr<Dim>(Attr::index), size - 1);
  return positions(c, 1);
}

Type search(const ShapeContext& c) {
  require_same_dtype(c);
  const Shape &sorted = c.operands[0].sizes, &values = c.operands[1].sizes;
  bool fits = values.rank() >= 1 && (sorted.rank() == 1 || sorted.rank() == values.rank());
  for (int d = 0; fits && sorted.rank() > 1 && d + 1 < sorted.rank(); ++d)
    fits = sorted[d] == values[d];
  if (!fits)
    reject(c, Errc::Shape, "sizes do not fit", "sorted [n] or [..., n] and values [..., m]",
           all_sizes(c));
  return {DType::I64, values};
}

}  // namespace tandem::ir::shape_rule
