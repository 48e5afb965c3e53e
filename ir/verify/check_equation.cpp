#include "ir/verify/check_equation.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/interfaces/custom_operator.h"
#include "ir/shape/shape_rules.h"

namespace tandem::ir {
namespace {

void check_arity(Op op, size_t count) {
  const OpInfo& row = info(op);
  const size_t least = static_cast<size_t>(row.min_operands), most = row.operands.size();
  if (count >= least && (row.variadic || count <= most)) return;
  const std::string expected = row.variadic    ? fmt::format("at least {}", least)
                               : least == most ? fmt::format("{}", least)
                                               : fmt::format("{} to {}", least, most);
  fail(Errc::Graph,
       fmt::format("{}: wrong number of operands; expected {}, got {}", row.name, expected, count));
}

/// AttrValue's alternatives stand in AttrType's order.
void check_attrs(Op op, std::span<const AttrValue> attrs) {
  const OpInfo& row = info(op);
  if (attrs.size() != row.attrs.size())
    fail(Errc::Graph, fmt::format("{}: wrong number of attributes; expected {}, got {}", row.name,
                                  row.attrs.size(), attrs.size()));
  for (size_t i = 0; i < attrs.size(); ++i)
    if (attrs[i].index() != static_cast<size_t>(type_of(row.attrs[i])))
      fail(Errc::Graph,
           fmt::format("{}: attribute {} has the wrong type", row.name, name(row.attrs[i])));
}

/// A summation order is unset, or [lanes, block].
void check_order(Op op, std::span<const AttrValue> attrs) {
  if (!has_attr(op, Attr::order)) return;
  const auto& order = std::get<Dims>(attrs[attr_index(op, Attr::order)]);
  const bool set = order.size() == 2 && order[0] > 0 && order[1] > 0;
  if (!order.empty() && !set)
    fail(Errc::Graph,
         fmt::format("{}: malformed order; expected [] or positive [lanes, block]", name(op)));
}

void check_result(Op op, const Type& got, const Type& expected, const char* what) {
  if (got == expected) return;
  fail(Errc::Graph, fmt::format("{}: wrong type of {}; expected {}, got {}", name(op), what,
                                to_string(expected), to_string(got)));
}

/// `who`: the op, or the custom operator.
void check_results(Op op, std::string_view who, std::span<const Type> got,
                   std::span<const Type> expected) {
  if (got.size() != expected.size())
    fail(Errc::Graph, fmt::format("{}: wrong number of results; expected {}, got {}", who,
                                  expected.size(), got.size()));
  const char* what = expected.size() == 1 ? "the result" : "a result";
  for (size_t i = 0; i < expected.size(); ++i) check_result(op, got[i], expected[i], what);
}

void check_in_place(Op op, size_t results) {
  if (!info(op).in_place) fail(Errc::Graph, fmt::format("{}: has no in-place form", name(op)));
  if (results > 0)
    fail(Errc::Graph, fmt::format("{}_: an in-place equation has no results", name(op)));
}

/// call and custom_function take their types from subgraphs.
void check_control(Op op, std::span<const Type> operands, std::span<const AttrValue> attrs,
                   std::span<const Type> results) {
  if (info(op).open_results) return;
  check_results(op, name(op), results, infer_types(op, operands, attrs));
}

void check_tensors(Op op, std::span<const Type> operands) {
  if (std::ranges::any_of(operands, &Type::is_token))
    fail(Errc::Graph, fmt::format("{}: takes no token", name(op)));
}

/// The tensors among the operands or results of an external equation: all but an ordered one's
/// first.
std::span<const Type> tensors_of(Op op, std::span<const Type> types, const char* what) {
  if (info(op).effect != Effect::Ordered) return types;
  if (types.empty() || !types[0].is_token)
    fail(Errc::Graph, fmt::format("{}: its first {} is no token", name(op), what));
  return types.subspan(1);
}

/// What the user registered says which types it gives, and whether it is ordered.
void check_external(Op op, std::span<const Type> operands, std::span<const AttrValue> attrs,
                    std::span<const Type> results) {
  const auto& name = std::get<std::string>(attrs[attr_index(op, Attr::operator_name)]);
  const auto& arguments = std::get<std::string>(attrs[attr_index(op, Attr::arguments)]);
  const auto custom = find_custom_operator(name);
  const Op expected = custom->is_ordered() ? Op::ordered_operator : Op::custom_operator;
  if (op != expected)
    fail(Errc::Graph, fmt::format("{}: {} is called by {}; expected {}", ir::name(op), name,
                                  ir::name(op), ir::name(expected)));
  const auto tensors = tensors_of(op, operands, "operand");
  check_tensors(op, tensors);
  check_results(op, name, tensors_of(op, results, "result"),
                custom->result_types(tensors, arguments));
}

}  // namespace

void check_type(const Type& type) {
  for (Dim size : type.sizes)
    if (size < 0) fail(Errc::Graph, fmt::format("negative size in {}", to_string(type)));
  size_in_bytes(type);
  contiguous_strides(type.sizes);
}

namespace {

/// From the first byte of a tensor to the last one of any other: half of what 64 bits count.
constexpr int64_t kMostBytes = int64_t{1} << 62;

Dim within_bounds(Dim bytes) {
  if (bytes > kMostBytes)
    fail(Errc::Argument, fmt::format("strides: memory of {} bytes; expected at most {}",
                                     int64_t{bytes}, kMostBytes));
  return bytes;
}

/// The bytes from the first element to the end of the last. (Dimensions of one element count as if
/// they had two: views compute with their strides too. Of a tensor without elements only sums of
/// strides are.)
Dim checked_reach(const Type& type, const Strides& strides) {
  const bool is_empty = numel(type.sizes) == 0;
  Dim reach = 1;
  for (int d = 0; d < strides.rank(); ++d) {
    const int64_t steps = is_empty ? 1 : std::max<int64_t>(type.sizes[d] - 1, 1);
    reach = checked_add(reach, checked_mul(steps, strides[d], "strides"), "strides");
  }
  if (is_empty) return 0;
  return within_bounds(
      checked_mul(reach, static_cast<int64_t>(size_of(type.dtype)), "strides in bytes"));
}

}  // namespace

void check_layout(const Type& type, const Strides& strides) {
  if (strides.rank() != type.rank())
    fail(Errc::Graph, fmt::format("{} strides for {} dimensions", strides.rank(), type.rank()));
  if (std::ranges::any_of(strides, [](Dim d) { return d < 0; }))
    fail(Errc::Graph, fmt::format("negative stride in {}", to_string(strides)));
  checked_reach(type, strides);
}

void check_alias_offset(Dim offset, const Type& type, const Strides& strides) {
  const Dim begin = offset < 0 ? checked_mul(offset, -1, "offset") : offset;
  within_bounds(checked_add(begin, checked_reach(type, strides), "offset"));
}

void check_equation(Op op, bool in_place, std::span<const Type> operands,
                    std::span<const AttrValue> attrs, std::span<const Type> results) {
  check_arity(op, operands.size());
  check_attrs(op, attrs);
  check_order(op, attrs);
  std::ranges::for_each(results, check_type);
  if (in_place) check_in_place(op, results.size());
  if (info(op).cls == OpClass::Control) return check_control(op, operands, attrs, results);
  if (info(op).cls == OpClass::External) return check_external(op, operands, attrs, results);
  check_tensors(op, operands);
  const Types inferred = infer_types(op, operands, attrs);
  if (in_place) return check_result(op, operands[0], inferred[0], "the written operand");
  check_results(op, name(op), results, inferred);
}

Type check_view_step(Op op, const Type& operand, std::span<const AttrValue> attrs) {
  if (!is_view(op))
    fail(Errc::Graph, fmt::format("{}: not a view; a chain is made of views", name(op)));
  check_attrs(op, attrs);
  return infer_type(op, {&operand, 1}, attrs);
}

}  // namespace tandem::ir
