#include "codegen/loops/scalar_ops.h"

#include <array>

namespace tandem::codegen {
namespace {

using ir::Op;
using enum ScalarOp::Code;
using enum ScalarOp::Range;
using enum ScalarOp::Constants;

struct Row {
  Op op;
  ScalarOp is;
};

// clang-format off
constexpr Row kRows[] = {
    {Op::add, {0.03, Short, Any, Open}},
    {Op::sub, {0.03, Short, Any, Open}},
    {Op::mul, {0.03, Short, KeepsUnit, Factor}},
    {Op::div, {0.16, Short, Any, Divisor}},
    {Op::fma, {0.03, Short, Any, Open}},
    {Op::floor_divide, {0.5, Long, Any, Known}},
    {Op::remainder, {0.5, Long, Any, Known}},
    {Op::fmod, {0.5, Long, Any, Known}},
    {Op::gcd, {8, Long, Any, Known}},
    {Op::pow, {0.6, Longest, Any, Known}},
    {Op::atan2, {0.5, Long, Any, Known}},
    {Op::maximum, {0.03, Short, KeepsUnit, Known}},
    {Op::minimum, {0.03, Short, KeepsUnit, Known}},
    {Op::neg, {0.03, Short, KeepsUnit, Known}},
    {Op::abs, {0.03, Short, KeepsUnit, Known}},
    {Op::sign, {0.03, Long, IntoUnit, Known}},
    {Op::floor, {0.03, Long, Any, Known}},
    {Op::ceil, {0.03, Long, Any, Known}},
    {Op::round, {0.03, Long, Any, Known}},
    {Op::trunc, {0.03, Long, Any, Known}},
    {Op::exp, {0.2, Long, Any, Known}},
    {Op::exp2, {0.2, Long, Any, Known}},
    {Op::expm1, {0.3, Long, Any, Known}},
    {Op::log, {0.22, Long, Any, Known}},
    {Op::log2, {0.22, Long, Any, Known}},
    {Op::log10, {0.25, Long, Any, Known}},
    {Op::log1p, {0.3, Long, Any, Known}},
    {Op::sqrt, {0.2, Short, KeepsUnit, Known}},
    {Op::rsqrt, {0.35, Short, Any, Known}},
    {Op::reciprocal, {0.16, Short, Any, Known}},
    {Op::sin, {0.3, Branches, IntoUnit, Known}},
    {Op::cos, {0.3, Branches, IntoUnit, Known}},
    {Op::tan, {0.45, Branches, Any, Known}},
    {Op::asin, {0.4, Long, Any, Known}},
    {Op::acos, {0.4, Long, Any, Known}},
    {Op::atan, {0.4, Long, Any, Known}},
    {Op::sinh, {0.4, Long, Any, Known}},
    {Op::cosh, {0.4, Long, Any, Known}},
    {Op::tanh, {0.25, Long, IntoUnit, Known}},
    {Op::asinh, {0.5, Long, Any, Known}},
    {Op::acosh, {0.5, Long, Any, Known}},
    {Op::atanh, {0.5, Long, Any, Known}},
    {Op::erf, {0.25, Long, IntoUnit, Known}},
    {Op::erfc, {0.4, Long, Any, Known}},
    {Op::sigmoid, {0.3, Long, IntoUnit, Known}},
    {Op::eq, {0.03, Short, Any, Open}},
    {Op::ne, {0.03, Short, Any, Open}},
    {Op::lt, {0.03, Short, Any, Open}},
    {Op::le, {0.03, Short, Any, Open}},
    {Op::gt, {0.03, Short, Any, Open}},
    {Op::ge, {0.03, Short, Any, Open}},
    {Op::logical_and, {0.03, Short, Any, Known}},
    {Op::logical_or, {0.03, Long, Any, Known}},
    {Op::logical_xor, {0.03, Long, Any, Known}},
    {Op::logical_not, {0.03, Long, Any, Known}},
    {Op::bitwise_and, {0.03, Long, Any, Known}},
    {Op::bitwise_or, {0.03, Long, Any, Known}},
    {Op::bitwise_xor, {0.03, Long, Any, Known}},
    {Op::bitwise_not, {0.03, Long, Any, Known}},
    {Op::shift_left, {0.03, Long, Any, Known}},
    {Op::shift_right, {0.03, Long, Any, Known}},
    {Op::where, {0.03, Short, KeepsUnit, Choice}},
    {Op::convert, {0.03, Short, KeepsUnit, Known}},
    {Op::bitcast, {0.03, Short, Any, Known}},
    {Op::clone, {0, Nothing, KeepsUnit, Known}},
    {Op::stop_gradient, {0.03, Nothing, KeepsUnit, Known}},
};
// clang-format on

constexpr bool kIsScalar[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  ir::OpClass::class_ == ir::OpClass::Pointwise &&ir::OpLevel::level == ir::OpLevel::Primitive,
#include "ir/ops.def"
};

constexpr bool has_one_row_for_each() {
  std::array<int, ir::kOpCount> rows{};
  for (const Row& row : kRows) ++rows[static_cast<size_t>(row.op)];
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != kIsScalar[i]) return false;
  return true;
}
static_assert(has_one_row_for_each(), "every pointwise primitive has one row, and nothing else");

constexpr auto kTable = [] {
  std::array<ScalarOp, ir::kOpCount> table{};
  for (const Row& row : kRows) table[static_cast<size_t>(row.op)] = row.is;
  return table;
}();

}  // namespace

const ScalarOp& scalar_op(Op op) { return kTable[static_cast<size_t>(op)]; }

}  // namespace tandem::codegen
