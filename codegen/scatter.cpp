#include "codegen/scatter.h"

#include <algorithm>
#include <bit>

#include "codegen/kernel_writer.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using ir::Op;

constexpr int64_t kChunk = 64;                     // columns of a unit
constexpr int64_t kMinRow = 16;                    // elements of a row that is worth looking for
constexpr int64_t kMinTotal = 8192;                // elements below which one thread is enough
constexpr int64_t kMaxParts = 32;                  // of the destination: each looks at all indices
constexpr int64_t kPartBytes = int64_t{1} << 19;   // stays in a second level cache
constexpr int64_t kBlockBytes = int64_t{1} << 17;  // of neighbouring rows: uses all its sets evenly

int64_t row_elements(const ir::Shape& sizes, int dim) {
  int64_t n = 1;
  for (int d = dim + 1; d < sizes.rank(); ++d) n *= sizes[d];
  return n;
}

/// What both kinds of kernel share: reading operands at the loops of the dims.
class Scatter {
 protected:
  Scatter(const Program& p, const Node& n)
      : node(n), w(p), by_dim(static_cast<size_t>(n.domain.rank())) {}

  DimLoops& loops(int d) { return by_dim[static_cast<size_t>(d)]; }

  Affine at(const View& v) const {
    return affine(v.offset, {v.strides.begin(), v.strides.end()}, by_dim);
  }
  int read(const View& v) { return w.read(v.root, at(v)); }
  /// dest[index] = src, or += src, at the current loops.
  void put(int index) {
    const Access::Indirect target{index, node.gather_stride, node.gather_extent};
    const int stored = node.op == Op::scatter ? read(node.operands[1]) : sum(target);
    w.store_at(node.table.root, at(node.table), target, stored, node.check);
  }
  int sum(const Access::Indirect& target) {
    const int old = w.load_at(node.table.root, at(node.table), target, node.check);
    return w.compute(Op::add, {old, read(node.operands[1])}, node.dtype);
  }

  const Node& node;
  KernelWriter w;
  std::vector<DimLoops> by_dim;  // by dim
};

/// Units share out the innermost dim that is not indexed, and the others outside it.
class ByColumns : Scatter {
 public:
  ByColumns(const Program& p, const Node& n) : Scatter(p, n) {}

  KernelDraft run() {
    const int rank = node.domain.rank();
    int inner = rank - 1;
    if (inner == node.scatter_dim) --inner;
    int chunk_loop = -1;
    for (int d = 0; d < rank; ++d) {
      if (d == node.scatter_dim || node.domain[d] == 1) continue;
      if (d != inner)
        loops(d) = {{w.loop(Loop::Kind::Unit, node.domain[d]), 1}};
      else if (node.domain[d] > kChunk)
        chunk_loop = w.loop(Loop::Kind::Unit, (node.domain[d] + kChunk - 1) / kChunk);
    }
    const int rows = w.loop(Loop::Kind::Serial, node.domain[node.scatter_dim]);
    loops(node.scatter_dim) = {{rows, 1}};
    int vector = -1;
    if (inner >= 0 && node.domain[inner] > 1) {
      const int64_t size = node.domain[inner];
      vector = w.loop(Loop::Kind::Vector, std::min(size, kChunk), chunk_loop, size);
      if (chunk_loop >= 0) loops(inner).push_back({chunk_loop, kChunk});
      loops(inner).push_back({vector, 1});
    }
    w.begin(rows);
    if (vector >= 0) w.begin(vector);
    put(read(node.operands[0]));
    if (vector >= 0) w.end(vector);
    w.end(rows);
    return w.take(std::string(ir::name(node.op)), 1);
  }
};

/// Units share out the rows of the destination: part (row / block) mod parts. Each unit fills its
/// rows, then looks through all indices for those that are its own; an index out of range is some
/// unit's too, and fails there.
class ByRows : Scatter {
 public:
  ByRows(const Program& p, const Node& n) : Scatter(p, n) {
    const auto size = static_cast<int64_t>(ir::size_of(n.dtype));
    const int64_t row = row_elements(n.domain, n.scatter_dim), rows = n.gather_extent;
    const auto power = [](int64_t v) {
      return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
    };
    parts_ = power(std::clamp<int64_t>(rows * row * size / kPartBytes, 8, kMaxParts));
    while (parts_ > 1 && (parts_ > rows || parts_ * kMinRow > 2 * row)) parts_ /= 2;
    block_ = power(kBlockBytes / (row * size));
    while (block_ > 1 && block_ * parts_ > rows) block_ /= 2;
  }

  KernelDraft run() {
    const int rank = node.domain.rank();
    for (int d = 0; d < node.scatter_dim; ++d)
      if (node.domain[d] > 1) loops(d) = {{w.loop(Loop::Kind::Unit, node.domain[d]), 1}};
    part_ = w.loop(Loop::Kind::Unit, parts_);
    if (node.operands.size() > 2) fill();
    const int source = w.loop(Loop::Kind::Serial, node.domain[node.scatter_dim]);
    loops(node.scatter_dim) = {{source, 1}};
    w.begin(source);
    const int index = read(node.operands[0]);
    const int block =
        w.compute(Op::shift_right,
                  {index, integer(std::countr_zero(static_cast<uint64_t>(block_)))}, DType::I64);
    const int owner = w.compute(Op::bitwise_and, {block, integer(parts_ - 1)}, DType::I64);
    const int mine = w.compute(Op::eq, {owner, w.index({0, {{part_, 1}}})}, DType::Bool);
    when(mine, [&] { over_row(rank, [&] { put(index); }); });
    w.end(source);
    return w.take(std::string(ir::name(node.op)) + "_rows", 1);
  }

 private:
  int integer(int64_t v) { return w.constant(v, DType::I64); }

  template <class F>
  void when(int condition, F body) {
    const int once = w.loop(Loop::Kind::Serial, 1);
    w.begin(once, condition);
    body();
    w.end(once);
  }

  template <class F>
  void over_row(int rank, F body) {
    std::vector<int> open;
    for (int d = node.scatter_dim + 1; d < rank; ++d) {
      if (node.domain[d] == 1) continue;
      open.push_back(
          w.loop(d + 1 == rank ? Loop::Kind::Vector : Loop::Kind::Serial, node.domain[d]));
      loops(d) = {{open.back(), 1}};
      w.begin(open.back());
    }
    body();
    for (size_t l = open.size(); l-- > 0;) w.end(open[l]);
  }

  void fill() {
    const int64_t rows = node.gather_extent, turn = parts_ * block_;
    const int turns = w.loop(Loop::Kind::Serial, (rows + turn - 1) / turn);
    const int row = w.loop(Loop::Kind::Serial, block_);
    loops(node.scatter_dim) = {{part_, block_}, {turns, turn}, {row, 1}};
    w.begin(turns);
    w.begin(row);
    const auto store = [&] {
      over_row(node.domain.rank(),
               [&] { w.store(node.dest.root, at(node.dest), read(node.operands[2])); });
    };
    if (rows % turn == 0) {
      store();
    } else {
      const int number = w.index({0, {{part_, block_}, {turns, turn}, {row, 1}}});
      when(w.compute(Op::lt, {number, integer(rows)}, DType::Bool), store);
    }
    w.end(row);
    w.end(turns);
  }

  int64_t parts_ = 1, block_ = 1;
  int part_ = -1;
};

}  // namespace

bool scatters_rows(const View& index, int dim, const ir::Shape& sizes) {
  if (row_elements(sizes, dim) < kMinRow || ir::numel(sizes) < kMinTotal) return false;
  for (int d = dim + 1; d < sizes.rank(); ++d)
    if (sizes[d] != 1 && index.strides[d] != 0) return false;
  return sizes[sizes.rank() - 1] > 1;
}

KernelDraft scatter_kernel(const Program& program, const Node& node) {
  return scatters_rows(node.operands[0], node.scatter_dim, node.domain)
             ? ByRows(program, node).run()
             : ByColumns(program, node).run();
}

}  // namespace tandem::codegen
