// Ranges of values, from the definitions of the ops alone. 1 and -1 are exact in every floating
// dtype, so rounding never leaves [-1, 1].
#include "codegen/jit/emit/ranges.h"

#include <algorithm>
#include <cmath>

#include "codegen/loops/scalar_ops.h"

namespace tandem::jit {
namespace {

using codegen::Instr;
using codegen::Kernel;
using ir::Op;
using Range = codegen::ScalarOp::Range;

bool computes_unit(const Kernel& kernel, const Instr& i, const std::vector<bool>& unit) {
  const auto from = kernel.code[i.args[0].index].dtype;
  if (i.op == Op::convert && from == ir::DType::Bool) return true;
  const Range range = codegen::scalar_op(i.op).range;
  if (range == Range::IntoUnit) return true;
  const size_t first = i.op == Op::where ? 1 : 0;
  return range == Range::KeepsUnit &&
         std::all_of(i.args.begin() + static_cast<std::ptrdiff_t>(first), i.args.end(),
                     [&](codegen::InstrId a) { return unit[a.index]; });
}

}  // namespace

std::vector<bool> within_unit(const Kernel& kernel) {
  std::vector<bool> unit(kernel.code.size(), false);
  for (size_t at = 0; at < kernel.code.size(); ++at) {
    const Instr& i = kernel.code[at];
    if (!ir::is_floating(i.dtype)) continue;
    if (i.kind == Instr::Kind::Constant) unit[at] = std::abs(i.number.to_double()) <= 1;
    if (i.kind == Instr::Kind::Compute) unit[at] = computes_unit(kernel, i, unit);
  }
  return unit;
}

}  // namespace tandem::jit
