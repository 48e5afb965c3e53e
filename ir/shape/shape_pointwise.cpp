// Shape rules of pointwise ops: equal sizes, and dtypes as ops.def says.
#include <fmt/format.h>

#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir::shape_rule {
namespace {

void require_bool(const ShapeContext& c, int operand) {
  const DType dtype = c.operands[operand].dtype;
  if (dtype != DType::Bool)
    reject(c, Errc::DType, fmt::format("{} is not bool", info(c.op).operands[operand]), "bool",
           name(dtype));
}

void require_sizes(const ShapeContext& c) {
  for (const Type& type : c.operands)
    if (type.sizes != c.operands[0].sizes)
      reject(c, Errc::Shape, "operands have different sizes", "equal sizes", all_sizes(c));
}

}  // namespace

Type same(const ShapeContext& c) {
  require_same_type(c);
  return c.operands[0];
}

Type same_number(const ShapeContext& c) {
  if (c.operands[0].dtype == DType::Bool)
    reject(c, Errc::DType, "not defined for bool", "integers or floating operands", "bool");
  return same(c);
}

Type with_integer(const ShapeContext& c) { return same_number(c); }

Type same_float(const ShapeContext& c) {
  require_floating(c);
  return same(c);
}

Type whole(const ShapeContext& c) { return same_float(c); }

Type same_bool(const ShapeContext& c) {
  require_bool(c, 0);
  return same(c);
}

Type same_integral(const ShapeContext& c) {
  const DType dtype = c.operands[0].dtype;
  if (is_floating(dtype))
    reject(c, Errc::DType, "operand is floating", "integers or bool", name(dtype));
  return same(c);
}

Type same_integer(const ShapeContext& c) {
  const DType dtype = c.operands[0].dtype;
  if (is_floating(dtype) || dtype == DType::Bool)
    reject(c, Errc::DType, "operand is not an integer", "integers", name(dtype));
  return same(c);
}

Type addcmul(const ShapeContext& c) {
  const Type type = same_number(c);
  const Number& value = c.attr<Number>(Attr::value);
  if (is_integral(type.dtype) && value.is_float())
    reject(c, Errc::DType, "value is floating",
           fmt::format("an integer value for {}", name(type.dtype)),
           fmt::format("{}", value.to_double()));
  return type;
}

Type compare(const ShapeContext& c) { return {DType::Bool, same(c).sizes}; }

Type test(const ShapeContext& c) { return {DType::Bool, c.operands[0].sizes}; }

Type where(const ShapeContext& c) {
  require_bool(c, 0);
  require_same_dtype({c.op, c.operands.subspan(1), c.attrs});
  require_sizes(c);
  return c.operands[1];
}

Type bitcast(const ShapeContext& c) {
  const DType dtype = c.attr<DType>(Attr::dtype);
  if (size_of(dtype) != size_of(c.operands[0].dtype))
    reject(c, Errc::DType, "element sizes differ",
           "a dtype of the size of " + std::string(name(c.operands[0].dtype)),
           std::string(name(dtype)));
  return {dtype, c.operands[0].sizes};
}
Type convert(const ShapeContext& c) { return {c.attr<DType>(Attr::dtype), c.operands[0].sizes}; }

Type masked_fill(const ShapeContext& c) {
  require_bool(c, 1);
  if (c.operands[2].dtype != c.operands[0].dtype)
    reject(c, Errc::DType, "value's dtype differs from self's", name(c.operands[0].dtype),
           name(c.operands[2].dtype));
  require_sizes(c);
  return c.operands[0];
}

Type matrix(const ShapeContext& c) {
  if (c.operands[0].rank() < 2)
    reject(c, Errc::Shape, "self is not a matrix", "at least 2 dimensions", all_sizes(c));
  return c.operands[0];
}

Type copy(const ShapeContext& c) { return same(c); }

}  // namespace tandem::ir::shape_rule
