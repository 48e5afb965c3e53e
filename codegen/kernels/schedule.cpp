#include "codegen/kernels/schedule.h"

#include <algorithm>
#include <ranges>

#include "codegen/cost/costs.h"
#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

constexpr int64_t kMinChunk = 64;         // columns: a few vectors
constexpr int64_t kMaxLocalChunk = 4096;  // columns that a unit accumulates at once
constexpr int64_t kWantedUnits = 16;
constexpr int64_t kTileMultiple = 16;
constexpr int64_t kMinElements = 512, kMaxElements = 65536;  // of a unit

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A part of `size` so that about `wanted` fit, all nearly equal.
int64_t even_chunk(int64_t size, int64_t wanted, int64_t multiple) {
  const int64_t parts = std::max<int64_t>(ceil_div(size, std::max<int64_t>(wanted, 1)), 1);
  return std::min(size, ceil_div(ceil_div(size, parts), multiple) * multiple);
}

/// A loop over all of dim d, inside those that are there.
void serial_dim(Schedule& s, size_t d, KernelWriter& writer) {
  if (s.dims.sizes[d] <= 1) return;
  s.rows.push_back(writer.loop(Loop::Kind::Serial, s.dims.sizes[d]));
  s.loops[d] = {{s.rows.back(), 1}};
}

class Scheduler {
 public:
  Scheduler(const Domain& d, double cost, const Tile& tile, KernelWriter& w)
      : d_(d), w_(w), tile_(tile) {
    s_.dims = dims_of(d);
    s_.tile_dim = tile.dim;
    s_.loops.resize(s_.dims.count());
    s_.col_chunk = s_.dims.cols;
    budget_ = std::clamp(static_cast<int64_t>(kUnitCost / std::max(cost, 1e-3)), kMinElements,
                         kMaxElements);
  }

  Schedule run() {
    if (d_.partial.n > 0 && !d_.col_partial)
      row_blocks();
    else if (d_.col_partial)
      column_blocks();
    else if (s_.tile_dim >= 0)
      tiles();
    else
      plain();
    return std::move(s_);
  }

 private:
  bool one_col_dim() const { return s_.dims.count() == s_.dims.row_dims + 1; }

  LoopId unit(int64_t extent) {
    s_.units *= extent;
    return w_.loop(Loop::Kind::Unit, extent);
  }

  void unit_dim(size_t d) {
    if (s_.dims.sizes[d] > 1) s_.loops[d] = {{unit(s_.dims.sizes[d]), 1}};
  }

  /// [outer, n]: units are blocks of n.
  void row_blocks() {
    for (size_t d = 0; d < s_.dims.row_dims; ++d) unit_dim(d);
    s_.col_chunk = d_.partial.block;
    s_.chunk_loop = s_.block_loop = unit(d_.partial.blocks());
    s_.loops.back() = {{s_.chunk_loop, s_.col_chunk}};
  }

  /// [outer, n, inner]: units are blocks of n and, where rows need not be whole, chunks of columns.
  void column_blocks() {
    const size_t n_dim = s_.dims.row_dims - 1;
    for (size_t d = 0; d < n_dim; ++d) unit_dim(d);
    const int64_t blocks = d_.partial.blocks(), block = d_.partial.block;
    if (blocks > 1) s_.block_loop = unit(blocks);
    if (!d_.needs_whole_rows() && one_col_dim()) {
      const int64_t wanted = ceil_div(s_.dims.cols, ceil_div(kWantedUnits, s_.units));
      chunk_columns(std::clamp(wanted, kMinChunk, kMaxLocalChunk));
    }
    if (blocks > 1) {
      const LoopId row = w_.loop(Loop::Kind::Serial, block, s_.block_loop, d_.partial.n);
      s_.loops[n_dim] = {{s_.block_loop, block}, {row, 1}};
      s_.rows = {row};
    } else {
      const LoopId row = w_.loop(Loop::Kind::Serial, d_.partial.n);
      s_.loops[n_dim] = {{row, 1}};
      s_.rows = {row};
    }
  }

  void chunk_columns(int64_t wanted, int64_t multiple = kMinChunk) {
    if (s_.dims.cols <= wanted) return;
    s_.col_chunk = even_chunk(s_.dims.cols, wanted, multiple);
    s_.chunk_loop = unit(ceil_div(s_.dims.cols, s_.col_chunk));
    s_.loops.back() = {{s_.chunk_loop, s_.col_chunk}};
  }

  /// Units are tiles of `tile_dim` and the columns.
  void tiles() {
    const auto tile = static_cast<size_t>(s_.tile_dim);
    for (size_t d = 0; d < s_.dims.row_dims; ++d)
      if (d != tile) unit_dim(d);
    const int64_t size = s_.dims.sizes[tile];
    s_.tile_rows = even_chunk(size, tile_.rows, kTileMultiple);
    if (tile_.along_rows) chunk_columns(tile_.columns, kTileMultiple);
    s_.tile_loop = unit(ceil_div(size, s_.tile_rows));
    if (!tile_.along_rows) chunk_columns(tile_.columns, kTileMultiple);
    const LoopId row = w_.loop(Loop::Kind::Serial, s_.tile_rows, s_.tile_loop, size);
    s_.loops[tile] = {{s_.tile_loop, s_.tile_rows}, {row, 1}};
    s_.rows = {row};
  }

  void plain() {
    int64_t left = std::max<int64_t>(budget_ / s_.dims.cols, 1);
    size_t whole = s_.dims.row_dims;  // dims from here on lie wholly inside a unit
    while (whole > 0 && s_.dims.sizes[whole - 1] <= left) left /= s_.dims.sizes[--whole];
    for (size_t d = 0; d + 1 < whole; ++d) unit_dim(d);
    if (whole > 0) split_dim(whole - 1, left);
    if (!d_.needs_whole_rows() && one_col_dim()) chunk_columns(budget_);
    if (split_loop_.valid()) close_split(whole - 1);
    for (size_t d = whole; d < s_.dims.row_dims; ++d) serial_dim(s_, d, w_);
  }

  void split_dim(size_t d, int64_t left) {
    if (left <= 1) return unit_dim(d);
    split_ = even_chunk(s_.dims.sizes[d], left, 1);
    split_loop_ = unit(ceil_div(s_.dims.sizes[d], split_));
  }

  void close_split(size_t d) {
    const LoopId row = w_.loop(Loop::Kind::Serial, split_, split_loop_, s_.dims.sizes[d]);
    s_.loops[d] = {{split_loop_, split_}, {row, 1}};
    s_.rows.push_back(row);
  }

  const Domain& d_;
  KernelWriter& w_;
  Tile tile_;
  Schedule s_;
  int64_t budget_ = 0, split_ = 0;
  LoopId split_loop_;
};

}  // namespace

Dims dims_of(const Domain& domain) {
  Dims out;
  out.cols = domain.cols > 0 ? domain.cols : domain.cuts.empty() ? domain.total : domain.cuts[0];
  out.rows = domain.total / out.cols;
  int64_t above = domain.total;
  for (int64_t cut : std::views::reverse(domain.cuts)) {
    out.sizes.push_back(above / cut);
    above = cut;
    if (cut >= out.cols) ++out.row_dims;
  }
  out.sizes.push_back(above);
  return out;
}

std::vector<int64_t> strides_over(const View& v, const Dims& dims, size_t first, size_t last) {
  std::vector<int64_t> out(last - first, 0);
  const auto runs = collapsed(v);
  auto run = runs.rbegin();
  int64_t left = run == runs.rend() ? 1 : run->size, stride = run == runs.rend() ? 0 : run->stride;
  for (size_t d = last; d-- > first;) {
    if (dims.sizes[d] == 1) continue;
    if (left == 1 && run != runs.rend()) {
      ++run;
      TANDEM_CHECK(run != runs.rend(), "a view has fewer elements than its domain");
      left = run->size, stride = run->stride;
    }
    TANDEM_CHECK(left % dims.sizes[d] == 0, "a view does not step with its domain");
    out[d - first] = stride;
    stride *= dims.sizes[d];
    left /= dims.sizes[d];
  }
  return out;
}

double cost_per_element(const Program& p, const Group& g, const Table<RootId, bool>& is_stored) {
  double cost = 0;
  for (NodeId n : g.nodes) {
    const Node& node = p.nodes[n];
    if (is_row_node(node, g.domain)) continue;
    cost += node_cost(node);
    if (is_stored[node.dest.root]) cost += kMemoryCost;
    for (const View& v : node.operands) {
      const Root& root = p.roots[v.root];
      if (root.formula()) continue;
      const double load = root.numel * 2 > g.domain.total ? kMemoryCost / 2 : kLoadCost / 2;
      cost += load * static_cast<double>(node.parts);
    }
  }
  return cost;
}

Schedule make_schedule(const Domain& domain, double cost, const Tile& tile, KernelWriter& writer) {
  return Scheduler(domain, cost, tile, writer).run();
}

Schedule make_slab_schedule(Dims dims, size_t slab_dim, LoopId slab, KernelWriter& writer) {
  Schedule s{.dims = std::move(dims)};
  s.units = s.dims.sizes[slab_dim];
  s.loops.resize(s.dims.count());
  s.loops[slab_dim] = {{slab, 1}};
  s.col_chunk = s.dims.cols;
  if (slab_dim >= s.dims.row_dims) s.chunk_loop = slab, s.col_chunk = 1;
  for (size_t d = 0; d < s.dims.row_dims; ++d)
    if (d != slab_dim) serial_dim(s, d, writer);
  return s;
}

int64_t grain_of(int64_t units, double total, double cost) {
  const double elements = total / static_cast<double>(units);
  return static_cast<int64_t>(kThreadCost / (elements * cost + 50)) + 1;
}

}  // namespace tandem::codegen
