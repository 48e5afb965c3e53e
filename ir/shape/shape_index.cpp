// Shape rules of factories, index ops, random ops and ops with subgraphs.
#include <fmt/format.h>

#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir::shape_rule {
namespace {

Type typed_sizes(const ShapeContext& c) {
  const Shape sizes(c.attr<Dims>(Attr::sizes));
  for (Dim d : sizes)
    if (d < 0) reject(c, Errc::Shape, "negative size", "sizes >= 0", to_string(sizes));
  const Type type{c.attr<DType>(Attr::dtype), sizes};
  size_in_bytes(type);  // refuses what overflows
  return type;
}

void require_index(const ShapeContext& c, int operand) {
  const DType dtype = c.operands[operand].dtype;
  if (dtype != DType::I64 && dtype != DType::I32)
    reject(c, Errc::DType, "index is not an integer", "i64 or i32", name(dtype));
}

/// The dimension, with an index of one dimension as operand 1.
int require_index_list(const ShapeContext& c) {
  const int64_t dim = c.attr<int64_t>(Attr::dim);
  require_dim(c, dim, c.operands[0].rank());
  require_index(c, 1);
  if (c.operands[1].rank() != 1)
    reject(c, Errc::Shape, "index is not a vector", "index [k]", to_string(c.operands[1].sizes));
  return static_cast<int>(dim);
}

/// The dimension, with an index of self's rank as operand 1.
int require_index_tensor(const ShapeContext& c, std::string_view expected) {
  const int64_t dim = c.attr<int64_t>(Attr::dim);
  const int rank = c.operands[0].rank();
  require_dim(c, dim, rank);
  require_index(c, 1);
  const Shape &self = c.operands[0].sizes, &index = c.operands[1].sizes;
  bool fits = index.rank() == rank;
  for (int d = 0; fits && d < rank; ++d) fits = d == dim || index[d] <= self[d];
  if (!fits) reject(c, Errc::Shape, "index does not fit", expected, all_sizes(c));
  return static_cast<int>(dim);
}

void require_src_dtype(const ShapeContext& c) {
  if (c.operands[2].dtype != c.operands[0].dtype)
    reject(c, Errc::DType, "src's dtype differs from self's", name(c.operands[0].dtype),
           name(c.operands[2].dtype));
}

void require_rng(const ShapeContext& c, int operand) {
  const Type expected{DType::I64, {2}};
  if (c.operands[operand] != expected)
    reject(c, Errc::Argument, "rng has the wrong type", to_string(expected),
           to_string(c.operands[operand]));
  if (c.attr<Dim>(Attr::offset) < 0)
    reject(c, Errc::Argument, "negative offset", "offset >= 0",
           std::to_string(c.attr<Dim>(Attr::offset)));
}

}  // namespace

Type full(const ShapeContext& c) { return typed_sizes(c); }

Type iota(const ShapeContext& c) {
  const Type type = typed_sizes(c);
  if (type.rank() != 1)
    reject(c, Errc::Shape, "wrong number of dimensions", "one dimension", to_string(type.sizes));
  if (type.dtype == DType::Bool)
    reject(c, Errc::DType, "not defined for bool", "an integer or floating dtype", "bool");
  return type;
}

Type index_select(const ShapeContext& c) {
  Type type = c.operands[0];
  const int dim = require_index_list(c);
  type.sizes[dim] = c.operands[1].sizes[0];
  return type;
}

Type gather(const ShapeContext& c) {
  require_index_tensor(c, "index of self's rank, at most self's sizes but in dim");
  return {c.operands[0].dtype, c.operands[1].sizes};
}

Type index_add(const ShapeContext& c) {
  const int dim = require_index_list(c);
  require_src_dtype(c);
  Shape part = c.operands[0].sizes;
  part[dim] = c.operands[1].sizes[0];
  if (c.operands[2].sizes != part)
    reject(c, Errc::Shape, "src does not fit", "src " + to_string(part),
           to_string(c.operands[2].sizes));
  return c.operands[0];
}

Type scatter_add(const ShapeContext& c) {
  static constexpr std::string_view kExpected =
      "index of self's rank, at most src's sizes, and at most self's but in dim";
  require_index_tensor(c, kExpected);
  require_src_dtype(c);
  const Shape &index = c.operands[1].sizes, &src = c.operands[2].sizes;
  bool fits = index.rank() == src.rank();
  for (int d = 0; fits && d < index.rank(); ++d) fits = index[d] <= src[d];
  if (!fits) reject(c, Errc::Shape, "src does not fit", kExpected, all_sizes(c));
  return c.operands[0];
}

Type embedding(const ShapeContext& c) {
  require_index(c, 1);
  const Shape& weight = c.operands[0].sizes;
  if (weight.rank() != 2)
    reject(c, Errc::Shape, "weight is not a matrix", "weight [v, d]", to_string(weight));
  Shape sizes = c.operands[1].sizes;
  sizes.push_back(weight[1]);
  return {c.operands[0].dtype, sizes};
}

Type random_bits(const ShapeContext& c) {
  require_rng(c, 0);
  const Type type = typed_sizes(c);
  if (type.dtype != DType::I32 && type.dtype != DType::I64)
    reject(c, Errc::DType, "wrong dtype", "i32 or i64", name(type.dtype));
  return type;
}

Type random_float(const ShapeContext& c) {
  require_rng(c, 0);
  const Type type = typed_sizes(c);
  if (!is_floating(type.dtype))
    reject(c, Errc::DType, "wrong dtype", "f64, f32, bf16 or f16", name(type.dtype));
  return type;
}

Type dropout(const ShapeContext& c) {
  require_floating(c);
  require_rng(c, 1);
  const double p = c.attr<double>(Attr::p);
  if (!(p >= 0 && p <= 1))
    reject(c, Errc::Argument, "p out of range", "0 to 1", fmt::format("{}", p));
  return c.operands[0];
}

Type first_token(const ShapeContext& /*c*/) { return Type::token(); }

Type subgraph(const ShapeContext& c) {
  TANDEM_CHECK(false, std::string(name(c.op)) + ": its results' types come from its subgraph");
  return {};
}

}  // namespace tandem::ir::shape_rule
