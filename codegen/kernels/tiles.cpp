#include "codegen/kernels/tiles.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "codegen/loops/scalar_ops.h"

namespace tandem::codegen {

int row_dim_along(const View& v, const Dims& dims) {
  constexpr int64_t kFew = 8;  // rows or columns that are not worth a tile
  const auto strides = strides_over(v, dims, 0, dims.count());
  if (std::abs(strides.back()) <= 1 || dims.sizes.back() < kFew) return -1;
  for (size_t d = 0; d < dims.row_dims; ++d)
    if (strides[d] == 1 && dims.sizes[d] >= kFew) return static_cast<int>(d);
  return -1;
}

bool is_transposition(const Program& p, const Group& g, const Dims& dims, int dim) {
  if (dim < 0 || g.nodes.size() != 1) return false;
  const Node& n = p.nodes[g.nodes[0]];
  return n.kind == Node::Kind::Pointwise && scalar_op(n.op).code == ScalarOp::Code::Nothing &&
         !p.roots[n.operands[0].root].formula() &&
         (row_dim_along(n.operands[0], dims) == dim) != (row_dim_along(n.dest, dims) == dim);
}

namespace {

// Of tiles of whole rows: at least a cache line of rows, so that what lies across is read by lines.
// (Lanes run along shorter rows, narrow_loops.cpp; measured on a Zen 4.)
constexpr int64_t kLeastTiledColumns = 17, kMostTiledColumns = 16384, kLeastTiledRows = 16,
                  kTiledElements = 8192;

/// Whether rows can lie side by side in a tile: those that are reduced are there in whole.
bool can_tile(const Domain& d, const Dims& dims) {
  if (d.partial.n > 0) return false;
  if (!d.needs_whole_rows()) return true;
  return dims.count() == dims.row_dims + 1 && dims.cols >= kLeastTiledColumns &&
         dims.cols <= kMostTiledColumns;
}

/// The row dim that most accesses from outside the group's own values run along, or -1.
int tile_dim(const Program& p, const Group& g) {
  const Dims dims = dims_of(g.domain);
  if (!can_tile(g.domain, dims)) return -1;
  std::map<int, int> accesses;
  for (NodeId n : g.nodes) {
    const Node& node = p.nodes[n];
    if (is_row_node(node, g.domain)) continue;
    if (makes(node) == Makes::Elements) ++accesses[row_dim_along(node.dest, dims)];
    for (const View& v : node.operands)
      if (!p.roots[v.root].formula())
        accesses[row_dim_along(v, dims)] += static_cast<int>(node.parts);
  }
  accesses.erase(-1);
  const auto most =
      std::max_element(accesses.begin(), accesses.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == accesses.end() ? -1 : most->first;
}

}  // namespace

Tile tile_of(const Program& p, const Group& g) {
  // copies: a few lines wide where memory is written, long where it is read, and on along what is
  // read, as caches fetch ahead of what is read in order
  constexpr int64_t kWidth = 64, kLength = 256;
  Tile tile{.dim = tile_dim(p, g)};
  const Dims dims = dims_of(g.domain);
  if (g.domain.needs_whole_rows()) {
    tile.rows = std::clamp(kTiledElements / dims.cols, kLeastTiledRows, tile.rows);
    tile.columns = dims.cols;
    return tile;
  }
  if (!is_transposition(p, g, dims, tile.dim)) return tile;
  const View& from = p.nodes[g.nodes[0]].operands[0];
  const bool by_rows = row_dim_along(from, dims) == tile.dim;
  tile.rows = by_rows ? kLength : kWidth;
  tile.columns = by_rows ? kWidth : kLength;
  tile.along_rows = by_rows;
  return tile;
}

}  // namespace tandem::codegen
