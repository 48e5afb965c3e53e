// Builder: promotion, broadcasting and pointwise ops.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/base/error.h"
#include "ir/build/builder.h"

namespace tandem::ir {
namespace {

using V = ValueId;

/// What happens to the operands' dtypes before a pointwise op.
enum class Promotion : uint8_t {
  None,     // nothing
  Common,   // all to their result type
  Float,    // the same, at least f32
  Whole,    // Float, but integers are already what the op would make of them
  Integer,  // the same as beside a number of i64
  Bool,     // all to bool
  First,    // all to operand 0's dtype
  Masked,   // operand 1 is a mask, the rest to operand 0's dtype
  Chosen,   // operand 0 is a condition, the rest to their result type
};

constexpr std::pair<std::string_view, Promotion> kPromotionByRule[] = {
    {"same", Promotion::Common},          {"same_number", Promotion::Common},
    {"same_integral", Promotion::Common}, {"same_integer", Promotion::Common},
    {"addcmul", Promotion::Common},       {"compare", Promotion::Common},
    {"same_float", Promotion::Float},     {"whole", Promotion::Whole},
    {"with_integer", Promotion::Integer}, {"same_bool", Promotion::Bool},
    {"copy", Promotion::First},           {"masked_fill", Promotion::Masked},
    {"where", Promotion::Chosen}};

constexpr Promotion promotion_of(std::string_view shape_rule) {
  for (const auto& [rule, promotion] : kPromotionByRule)
    if (rule == shape_rule) return promotion;
  return Promotion::None;
}

constexpr Promotion kPromotions[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) promotion_of(#shape),
#include "ir/ops.def"
};

Promotion promotion(Op op) { return kPromotions[static_cast<size_t>(op)]; }

/// torch.can_cast: towards bool, integers, floats only.
bool can_cast(DType from, DType to) {
  if (is_floating(from)) return is_floating(to);
  return from == DType::Bool || to != DType::Bool;
}

/// Dtypes of one priority class joined, if there are any.
using MaybeType = std::optional<DType>;
MaybeType join(MaybeType a, DType b) { return a ? promote(*a, b) : b; }

/// ATen's combine_categories: a lower class counts only if it is of a higher category.
MaybeType combine(MaybeType higher, MaybeType lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_floating(*higher)) return higher;
  return *higher == DType::Bool || is_floating(*lower) ? promote(*higher, *lower) : higher;
}

/// Joins dtypes by class: tensors with dimensions, then 0-d tensors, then numbers.
struct ResultType {
  MaybeType tensors, scalars, numbers;
  void add(DType dtype, int rank, bool weak) {
    MaybeType& kind = weak ? numbers : rank > 0 ? tensors : scalars;
    kind = join(kind, weak && is_floating(dtype) ? DType::F32 : dtype);
  }
  DType get() const { return *combine(tensors, combine(scalars, numbers)); }
};

}  // namespace

DType Builder::result_type(std::span<const V> operands) const {
  TANDEM_CHECK(!operands.empty(), "a result type needs operands");
  ResultType result;
  for (V v : operands) result.add(dtype(v), rank(v), sink_.is_weak(v));
  return result.get();
}

V Builder::number(const Number& value, V like) {
  ResultType result;
  result.add(dtype(like), rank(like), sink_.is_weak(like));
  result.add(value.default_dtype(), 0, true);
  return full({}, result.get(), value);
}

Shape Builder::broadcast(const Shape& a, const Shape& b, std::string_view op) const {
  Shape sizes = a.rank() >= b.rank() ? a : b;
  const Shape& other = a.rank() >= b.rank() ? b : a;
  const int added = sizes.rank() - other.rank();
  for (int d = 0; d < other.rank(); ++d) {
    Dim& size = sizes[d + added];
    if (size != other[d] && size != 1 && other[d] != 1)
      fail(Errc::Shape, fmt::format("{}: sizes do not broadcast; expected equal sizes or 1 in each "
                                    "dimension from the last, got {} and {}",
                                    op, to_string(a), to_string(b)));
    if (size == 1) size = other[d];
  }
  return sizes;
}

void Builder::expand_all(std::span<V> operands, std::string_view op) {
  const auto like_first = [&](V v) { return sizes(v) == sizes(operands[0]); };
  if (std::ranges::all_of(operands.subspan(1), like_first)) return;
  Shape common = sizes(operands[0]);
  for (V v : operands.subspan(1)) common = broadcast(common, sizes(v), op);
  for (V& v : operands) v = expand(v, common);
}

ValueList Builder::promote(std::span<const V> operands, bool min_float) {
  ValueList out(operands);
  const DType common = result_type(operands);
  for (V& v : out) v = convert(v, min_float ? at_least_float(common) : common);
  expand_all(out, "promote");
  return out;
}

DType Builder::operand_dtype(Op op, std::span<const V> operands) const {
  switch (promotion(op)) {
    case Promotion::Bool:
      return DType::Bool;
    case Promotion::Float:
    case Promotion::Whole:
      return at_least_float(result_type(operands));
    case Promotion::Chosen:
      return result_type(operands.subspan(1));
    case Promotion::Integer: {
      const DType common = result_type(operands);
      return common == DType::Bool ? DType::I64 : common;
    }
    case Promotion::Common:
      return result_type(operands);
    case Promotion::None:
    case Promotion::First:
    case Promotion::Masked:
      break;
  }
  return dtype(operands[0]);
}

ValueList Builder::converted(Op op, std::span<const V> operands, DType dtype) {
  ValueList out(operands);
  const Promotion rule = promotion(op);
  const size_t mask = rule == Promotion::Chosen   ? 0
                      : rule == Promotion::Masked ? 1
                                                  : operands.size();  // none
  if (rule == Promotion::None) return out;
  for (size_t i = 0; i < out.size(); ++i)
    if (i != mask) out[i] = convert(out[i], dtype);
  return out;
}

V Builder::pointwise(Op op, std::initializer_list<V> operand_list, AttrsRef attrs) {
  const std::span<const V> operands(operand_list.begin(), operand_list.size());
  if (promotion(op) == Promotion::Whole && is_integer(dtype(operands[0]))) return operands[0];
  ValueList ready = converted(op, operands, operand_dtype(op, operands));
  expand_all(ready, name(op));
  return emit(op, ready, attrs);
}

void Builder::pointwise_in_place(Op op, std::initializer_list<V> operand_list, AttrsRef attrs) {
  const std::span<const V> operands(operand_list.begin(), operand_list.size());
  const V self = operands[0];
  if (promotion(op) == Promotion::Whole && is_integer(dtype(self))) return;
  const DType computed = operand_dtype(op, operands), stored = dtype(self);
  if (!can_cast(computed, stored))
    fail(Errc::DType, fmt::format("{}_: result type {} can't be cast to {}; expected a dtype of "
                                  "self's category or a lower one",
                                  name(op), ir::name(computed), ir::name(stored)));
  ValueList ready = converted(op, operands, computed);
  for (size_t i = 1; i < ready.size(); ++i) ready[i] = expand(ready[i], sizes(self));
  if (computed == stored) return emit_in_place(op, ready, attrs);
  const V written[] = {self, convert(emit(op, ready, attrs), stored)};
  emit_in_place(Op::copy, written);
}

V Builder::full(const Shape& sizes, DType dtype, const Number& value) {
  return emit(Op::full, std::span<const V>(), {sizes, dtype, constant_of(dtype, value)});
}

V Builder::iota(Dim length, DType dtype, const Number& first, const Number& increment) {
  return emit(Op::iota, std::span<const V>(),
              {Dims{length}, dtype, constant_of(dtype, first), constant_of(dtype, increment)});
}

V Builder::where(V condition, V self, V other) {
  return pointwise(Op::where, {condition, self, other});
}

V Builder::clamp(V self, std::optional<Number> min, std::optional<Number> max) {
  if (!min && !max) fail(Errc::Argument, "clamp: no bound; expected min, max or both, got neither");
  if (min) self = pointwise(Op::clamp_min, {self, number(*min, self)});
  if (max) self = pointwise(Op::clamp_max, {self, number(*max, self)});
  return self;
}

V Builder::convert(V v, DType dtype) {
  return this->dtype(v) == dtype ? v : emit(Op::convert, {v}, {dtype});
}

V Builder::masked_fill(V self, V mask, const Number& value) {
  return pointwise(Op::masked_fill, {self, mask, full({}, dtype(self), value)});
}

}  // namespace tandem::ir
