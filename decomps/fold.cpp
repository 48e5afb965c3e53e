// Floating constants are computed in f64 and rounded once more: for +, -, *, / and sqrt of f32 that
// gives the same as f32 arithmetic, since f64 has more than twice its digits.
#include "decomps/fold.h"

#include <cmath>
#include <compare>

namespace tandem::decomps {

using ir::DType;
using ir::Number;
using ir::Op;

namespace {

struct FloatRow {
  Op op;
  double (*apply)(double a, double b);  // b is unused by unary ops
};

struct IntRow {
  Op op;
  uint64_t (*apply)(uint64_t a, uint64_t b);  // wraps
};

struct CompareRow {
  Op op;
  bool (*apply)(std::partial_ordering order);
};

struct LogicRow {
  Op op;
  bool (*apply)(bool a, bool b);
};

constexpr FloatRow kFloat[] = {
    {Op::add, [](double a, double b) { return a + b; }},
    {Op::sub, [](double a, double b) { return a - b; }},
    {Op::mul, [](double a, double b) { return a * b; }},
    {Op::div, [](double a, double b) { return a / b; }},
    {Op::neg, [](double a, double) { return -a; }},
    {Op::abs, [](double a, double) { return std::abs(a); }},
    {Op::sqrt, [](double a, double) { return std::sqrt(a); }},
};

constexpr IntRow kInt[] = {
    {Op::add, [](uint64_t a, uint64_t b) { return a + b; }},
    {Op::sub, [](uint64_t a, uint64_t b) { return a - b; }},
    {Op::mul, [](uint64_t a, uint64_t b) { return a * b; }},
    {Op::neg, [](uint64_t a, uint64_t) { return -a; }},
};

constexpr CompareRow kCompare[] = {
    {Op::eq, [](std::partial_ordering o) { return o == 0; }},
    {Op::ne, [](std::partial_ordering o) { return o != 0; }},
    {Op::lt, [](std::partial_ordering o) { return o < 0; }},
    {Op::le, [](std::partial_ordering o) { return o <= 0; }},
    {Op::gt, [](std::partial_ordering o) { return o > 0; }},
    {Op::ge, [](std::partial_ordering o) { return o >= 0; }},
};

constexpr LogicRow kLogic[] = {
    {Op::logical_and, [](bool a, bool b) { return a && b; }},
    {Op::logical_or, [](bool a, bool b) { return a || b; }},
    {Op::logical_xor, [](bool a, bool b) { return a != b; }},
    {Op::logical_not, [](bool a, bool) { return !a; }},
};

template <class Row, size_t N>
const Row* find(const Row (&rows)[N], Op op) {
  for (const Row& row : rows)
    if (row.op == op) return &row;
  return nullptr;
}

std::partial_ordering compare(const Number& a, const Number& b, DType dtype) {
  if (ir::is_floating(dtype)) return a.to_double() <=> b.to_double();
  return a.to_int() <=> b.to_int();
}

}  // namespace

std::optional<Number> constant(const ir::Graph& graph, ir::ValueId v) {
  const ir::EquationId e = graph.producer(v);
  if (!e.valid() || graph.op(e) != Op::full) return std::nullopt;
  return rounded_to(graph.type(v).dtype, graph.attr<Number>(e, ir::Attr::value));
}

bool is_constant(const ir::Graph& graph, ir::ValueId v, const Number& number) {
  const auto value = constant(graph, v);
  return value && *value == rounded_to(graph.type(v).dtype, number);
}

bool can_fold(Op op) {
  return op == Op::convert || find(kFloat, op) || find(kInt, op) || find(kCompare, op) ||
         find(kLogic, op);
}

std::optional<Number> fold(Op op, std::span<const Number> values, DType operand, DType result) {
  const Number &a = values.front(), &b = values.back();
  if (op == Op::convert) return rounded_to(result, a);
  if (const auto* row = find(kCompare, op)) return Number(row->apply(compare(a, b, operand)));
  if (const auto* row = find(kLogic, op)) return Number(row->apply(a.to_bool(), b.to_bool()));
  if (operand == DType::Bool) return std::nullopt;
  if (ir::is_integral(operand)) {
    const auto* row = find(kInt, op);
    if (!row) return std::nullopt;
    const uint64_t bits =
        row->apply(static_cast<uint64_t>(a.to_int()), static_cast<uint64_t>(b.to_int()));
    return rounded_to(result, static_cast<int64_t>(bits));
  }
  const auto* row = find(kFloat, op);
  if (!row || ir::size_of(operand) < 4) return std::nullopt;
  return rounded_to(result, row->apply(a.to_double(), b.to_double()));
}

namespace {

/// What a dtype holds: integers of so many binary digits (floating: of its significand), negative
/// ones too, fractions, exponents of so many bits.
struct Range {
  int digits;
  bool negative, fractions;
  int exponent_bits;
};

constexpr Range kRanges[ir::kDTypeCount] = {
    /* F64 */ {53, true, true, 11},  /* F32 */ {24, true, true, 8},
    /* BF16 */ {8, true, true, 8},
    /* F16 */ {11, true, true, 5},   /* I64 */ {63, true, false, 0},
    /* I32 */ {31, true, false, 0},
    /* I16 */ {15, true, false, 0},  /* I8 */ {7, true, false, 0},
    /* U8 */ {8, false, false, 0},
    /* Bool */ {1, false, false, 0},
};

}  // namespace

bool holds_exactly(DType to, DType from) {
  if (to == from) return true;
  const Range &a = kRanges[static_cast<size_t>(from)], &b = kRanges[static_cast<size_t>(to)];
  if (to == DType::Bool || (a.fractions && !b.fractions) || (a.negative && !b.negative))
    return false;
  return a.digits <= b.digits && a.exponent_bits <= b.exponent_bits;
}

}  // namespace tandem::decomps
