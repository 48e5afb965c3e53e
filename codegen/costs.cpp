#include "codegen/costs.h"

#include <array>

namespace tandem::codegen {
namespace {

using ir::Op;

struct Row {
  Op op;
  double cost;
};

constexpr double kCheap = 0.03;
constexpr Row kCosts[] = {
    {Op::div, 0.16},  {Op::reciprocal, 0.16}, {Op::sqrt, 0.2},         {Op::rsqrt, 0.35},
    {Op::exp, 0.2},   {Op::exp2, 0.2},        {Op::expm1, 0.3},        {Op::log, 0.22},
    {Op::log2, 0.22}, {Op::log10, 0.25},      {Op::log1p, 0.3},        {Op::sin, 0.3},
    {Op::cos, 0.3},   {Op::tan, 0.45},        {Op::asin, 0.4},         {Op::acos, 0.4},
    {Op::atan, 0.4},  {Op::atan2, 0.5},       {Op::sinh, 0.4},         {Op::cosh, 0.4},
    {Op::tanh, 0.25}, {Op::asinh, 0.5},       {Op::acosh, 0.5},        {Op::atanh, 0.5},
    {Op::erf, 0.25},  {Op::erfc, 0.4},        {Op::pow, 0.6},          {Op::sigmoid, 0.3},
    {Op::fmod, 0.5},  {Op::remainder, 0.5},   {Op::floor_divide, 0.5}, {Op::random_bits, 0.3},
};

std::array<double, ir::kOpCount> make_table() {
  std::array<double, ir::kOpCount> table;
  table.fill(kCheap);
  for (const Row& r : kCosts) table[static_cast<size_t>(r.op)] = r.cost;
  table[static_cast<size_t>(Op::clone)] = 0;
  return table;
}

}  // namespace

double op_cost(Op op) {
  static const std::array<double, ir::kOpCount> table = make_table();
  return table[static_cast<size_t>(op)];
}

double node_cost(const Node& node) {
  return op_cost(node.op) + (node.kind == Node::Kind::Gather ? kIndirectCost : 0);
}

}  // namespace tandem::codegen
