// Chooses the summation order of every reduction from its operand's type and dims alone.
#include <algorithm>
#include <bit>

#include "decomps/decompose.h"
#include "ir/reduction_order.h"

namespace tandem::decomps {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::ReductionOrder;
using ir::ReductionRun;

/// Enough accumulators to hide the latency of four vectors' adds at the widest vector; a short run
/// has no more lanes than elements.
int64_t row_lanes(int64_t n, size_t element_size) {
  constexpr size_t kLaneBytes = 256;
  const auto lanes = static_cast<int64_t>(kLaneBytes / std::max<size_t>(element_size, 4));
  return n < lanes
             ? static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))))
             : lanes;
}

/// Rows: few long runs are cut so that threads can share one; with many runs each stays whole, as
/// long as the rounding error of a lane's chain stays small.
int64_t row_block(const ReductionRun& run) {
  constexpr int64_t kManyRuns = 16;
  return run.outer >= kManyRuns ? int64_t{1} << 18 : int64_t{1} << 14;
}

/// Columns: about 64 blocks of rows for threads to share, none so long that its chain of adds loses
/// accuracy. Where few vectors hold a row, its sums are few chains, which take the latency of an
/// add each row: blocks are then so short that a processor works on the next ones meanwhile.
int64_t column_block(const ReductionRun& run, size_t element_size) {
  constexpr int64_t kShortBlock = 64, kLongBlock = 512, kFewBytes = 64;
  const bool is_narrow =
      run.inner <= kFewBytes / static_cast<int64_t>(std::max<size_t>(element_size, 4));
  const auto wanted = static_cast<uint64_t>(
      std::clamp(run.n / 64, kShortBlock, is_narrow ? kShortBlock : kLongBlock));
  return static_cast<int64_t>(std::bit_ceil(wanted));
}

ReductionOrder choose_order(const ir::Type& operand, std::span<const ir::Axis> dims) {
  const ReductionRun run = ir::reduction_run(operand.sizes, dims);
  const size_t element_size = ir::size_of(operand.dtype);
  if (run.inner != 1) return {1, column_block(run, element_size)};
  return {row_lanes(run.n, element_size), row_block(run)};
}

}  // namespace

Graph set_reduction_orders(Graph core) {
  for (uint32_t i = 0; i < core.subgraphs().size(); ++i)
    core.subgraph({i}) = set_reduction_orders(std::move(core.subgraph({i})));
  for (size_t i = 0; i < core.num_equations(); ++i) {
    const EquationId e = core.equation_id(i);
    if (!ir::has_attr(core.op(e), ir::Attr::order)) continue;
    const auto& dims = core.attr<ir::Axes>(e, ir::Attr::dims);
    const ReductionOrder order = choose_order(core.type(core.operand(e, 0)), dims);
    core.set_attr(e, ir::Attr::order, ir::Dims{order.lanes, order.block});
  }
  return core;
}

}  // namespace tandem::decomps
