#include "codegen/loops/combine.h"

#include <limits>

#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using ir::Number;
using ir::Op;

Number extreme(DType dtype, bool low) {
  if (ir::is_floating(dtype)) {
    const double inf = std::numeric_limits<double>::infinity();
    return low ? -inf : inf;
  }
  if (dtype == DType::Bool) return !low;
  if (dtype == DType::U8) return low ? 0 : 255;
  const auto bits = static_cast<int>(ir::size_of(dtype)) * 8;
  const auto min = static_cast<int64_t>(~uint64_t{0} << (bits - 1));
  return low ? min : ~min;
}

Number no(DType) { return false; }
Number yes(DType) { return true; }
Number zero(DType dtype) { return ir::is_held_as_double(dtype) ? Number(0.0) : Number(0); }
Number one(DType dtype) { return ir::is_held_as_double(dtype) ? Number(1.0) : Number(1); }
Number lowest(DType dtype) { return extreme(dtype, true); }
Number highest(DType dtype) { return extreme(dtype, false); }

/// In the order of Combine. (No reduction of ops.def is a dot.)
struct Row {
  Combine combine;
  Op reduction, pair;
  Number (*identity)(DType dtype);
};
constexpr Row kRows[] = {
    {Combine::Sum, Op::sum, Op::add, zero},         {Combine::Prod, Op::prod, Op::mul, one},
    {Combine::Max, Op::amax, Op::maximum, lowest},  {Combine::Min, Op::amin, Op::minimum, highest},
    {Combine::Any, Op::any, Op::logical_or, no},    {Combine::All, Op::all, Op::logical_and, yes},
    {Combine::ArgMax, Op::argmax, Op::clone, zero}, {Combine::ArgMin, Op::argmin, Op::clone, zero},
    {Combine::Dot, Op::clone, Op::add, zero},
};

constexpr bool are_in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].combine != static_cast<Combine>(i)) return false;
  return true;
}
static_assert(are_in_order());

}  // namespace

Combine combine_of(Op op) {
  for (const Row& row : kRows)
    if (row.reduction == op) return row.combine;
  TANDEM_CHECK(false, "not a reduction");
  return Combine::Sum;
}

Op combining_op(Combine combine) { return kRows[static_cast<size_t>(combine)].pair; }

Number identity_of(Combine combine, DType dtype) {
  return kRows[static_cast<size_t>(combine)].identity(dtype);
}

}  // namespace tandem::codegen
