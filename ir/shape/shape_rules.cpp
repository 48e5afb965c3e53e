// The table of shape rules by op, and what all rules share.
#include "ir/shape/shape_rules.h"

#include <fmt/format.h>

#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir {
namespace {

using Rule = Types (*)(const ShapeContext&);
constexpr Rule kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  [](const ShapeContext& c) { return listed<Types>(shape_rule::shape(c)); },
#include "ir/ops.def"
};

void check_operand_count(const ShapeContext& c) {
  const OpInfo& op = info(c.op);
  const size_t count = c.operands.size();
  const size_t most = op.operands.size(), least = static_cast<size_t>(op.min_operands);
  if (count >= least && (op.variadic || count <= most)) return;
  const std::string expected =
      least == most && !op.variadic
          ? fmt::format("{}", most)
          : (op.variadic ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most));
  shape_rule::reject(c, Errc::Argument, "wrong number of operands",
                     fmt::format("{} ({})", expected, fmt::join(op.operands, ", ")),
                     std::to_string(count));
}

void check_tensors(const ShapeContext& c) {
  for (const Type& type : c.operands)
    if (type.is_token)
      shape_rule::reject(c, Errc::Argument, "operand is not a tensor", "tensors", "a token");
}

}  // namespace

Types infer_types(Op op, std::span<const Type> operands, std::span<const AttrValue> attrs) {
  const ShapeContext context{op, operands, attrs};
  TANDEM_CHECK(attrs.size() == info(op).attrs.size(),
               std::string(name(op)) + ": wrong number of attributes");
  check_operand_count(context);
  check_tensors(context);
  return kRules[static_cast<size_t>(op)](context);
}

Type infer_type(Op op, std::span<const Type> operands, std::span<const AttrValue> attrs) {
  Types types = infer_types(op, operands, attrs);
  TANDEM_CHECK(types.size() == 1, std::string(name(op)) + " has several results");
  return types[0];
}

namespace shape_rule {

void reject(const ShapeContext& c, Errc code, std::string_view problem, std::string_view expected,
            std::string_view got) {
  fail(code, fmt::format("{}: {}; expected {}, got {}", name(c.op), problem, expected, got));
}

std::string all_sizes(const ShapeContext& c) {
  std::string text;
  for (const Type& type : c.operands) text += (text.empty() ? "" : " and ") + to_string(type.sizes);
  return text;
}

std::string all_types(const ShapeContext& c) {
  std::string text;
  for (const Type& type : c.operands) text += (text.empty() ? "" : " and ") + to_string(type);
  return text;
}

void require_floating(const ShapeContext& c) {
  const DType dtype = c.operands[0].dtype;
  if (!is_floating(dtype))
    reject(c, Errc::DType, "operand is not floating", "f64, f32, bf16 or f16", name(dtype));
}

void require_same_dtype(const ShapeContext& c) {
  for (const Type& type : c.operands)
    if (type.dtype != c.operands[0].dtype)
      reject(c, Errc::DType, "operands have different dtypes", "equal dtypes", all_types(c));
}

void require_same_type(const ShapeContext& c) {
  require_same_dtype(c);
  for (const Type& type : c.operands)
    if (type.sizes != c.operands[0].sizes)
      reject(c, Errc::Shape, "operands have different sizes", "equal sizes", all_sizes(c));
}

void require_dim(const ShapeContext& c, int64_t dim, int rank) {
  if (dim < 0 || dim >= rank)
    reject(c, Errc::Index, "dimension out of range", fmt::format("0 <= dim < {}", rank),
           std::to_string(dim));
}

void require_dims(const ShapeContext& c, const Axes& dims, int rank) {
  for (size_t i = 0; i < dims.size(); ++i) {
    require_dim(c, dims[i], rank);
    if (i > 0 && dims[i] <= dims[i - 1])
      reject(c, Errc::Argument, "dims are not ascending", "ascending dims", to_string(dims));
  }
}

}  // namespace shape_rule
}  // namespace tandem::ir
