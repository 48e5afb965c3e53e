// How values combine in a reduction.
#include "codegen/nodes/program.h"

#include <array>
#include <limits>

#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using ir::Number;
using ir::Op;

struct CombineRow {
  Op reduction, pair;
};
constexpr std::array<CombineRow, 8> kCombines = {{{Op::sum, Op::add},
                                                  {Op::prod, Op::mul},
                                                  {Op::amax, Op::maximum},
                                                  {Op::amin, Op::minimum},
                                                  {Op::any, Op::logical_or},
                                                  {Op::all, Op::logical_and},
                                                  {Op::argmax, Op::clone},
                                                  {Op::argmin, Op::clone}}};

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

}  // namespace

Combine combine_of(Op op) {
  for (size_t i = 0; i < kCombines.size(); ++i)
    if (kCombines[i].reduction == op) return static_cast<Combine>(i);
  TANDEM_CHECK(false, "not a reduction");
  return Combine::Sum;
}

Op combining_op(Combine combine) { return kCombines[static_cast<size_t>(combine)].pair; }

Number identity_of(Combine combine, DType dtype) {
  switch (combine) {
    case Combine::Prod:
      return ir::is_floating(dtype) ? Number(1.0) : Number(1);
    case Combine::Max:
      return extreme(dtype, true);
    case Combine::Min:
      return extreme(dtype, false);
    case Combine::All:
      return true;
    case Combine::Any:
      return false;
    default:
      return ir::is_floating(dtype) ? Number(0.0) : Number(0);
  }
}

}  // namespace tandem::codegen
