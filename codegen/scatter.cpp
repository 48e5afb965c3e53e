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
      : p_(p), n_(n), w_(p), loops_(static_cast<size_t>(n.domain.rank())) {}

  DimLoops& loops(int d) { return loops_[static_cast<size_t>(d)]; }

  Affine at(const View& v) const {
    return affine(v.offset, {v.strides.begin(), v.strides.end()}, loops_);
  }
  int read(const View& v) {
    const Value& from = p_.values[static_cast<size_t>(v.root)];
    if (from.kind == Value::Kind::Full) return w_.constant(from.first, from.dtype);
    return from.kind == Value::Kind::Iota ? w_.iota(from, at(v)) : w_.load(v.root, at(v));
  }
  /// dest[index] += src at the current loops.
  void add(int index) {
    const Access::Indirect target{index, n_.gather_stride, n_.gather_extent};
    const int old = w_.load_at(n_.table.root, at(n_.table), target, n_.check);
    const int sum = w_.compute(Op::add, {old, read(n_.operands[1])}, n_.dtype);
    w_.store_at(n_.table.root, at(n_.table), target, sum, n_.check);
  }

  const Program& p_;
  const Node& n_;
  KernelWriter w_;
  std::vector<DimLoops> loops_;  // by dim
};

/// Units share out the innermost dim that is not indexed, and the others outside it.
class ByColumns : Scatter {
 public:
  ByColumns(const Program& p, const Node& n) : Scatter(p, n) {}

  LaunchDraft run() {
    const int rank = n_.domain.rank();
    int inner = rank - 1;
    if (inner == n_.scatter_dim) --inner;
    int chunk_loop = -1;
    for (int d = 0; d < rank; ++d) {
      if (d == n_.scatter_dim || n_.domain[d] == 1) continue;
      if (d != inner)
        loops(d) = {{w_.loop(Loop::Kind::Unit, n_.domain[d]), 1}};
      else if (n_.domain[d] > kChunk)
        chunk_loop = w_.loop(Loop::Kind::Unit, (n_.domain[d] + kChunk - 1) / kChunk);
    }
    const int rows = w_.loop(Loop::Kind::Serial, n_.domain[n_.scatter_dim]);
    loops(n_.scatter_dim) = {{rows, 1}};
    int vector = -1;
    if (inner >= 0 && n_.domain[inner] > 1) {
      const int64_t size = n_.domain[inner];
      vector = w_.loop(Loop::Kind::Vector, std::min(size, kChunk), chunk_loop, size);
      if (chunk_loop >= 0) loops(inner).push_back({chunk_loop, kChunk});
      loops(inner).push_back({vector, 1});
    }
    w_.begin(rows);
    if (vector >= 0) w_.begin(vector);
    add(read(n_.operands[0]));
    if (vector >= 0) w_.end(vector);
    w_.end(rows);
    return w_.take("scatter_add", 1);
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

  LaunchDraft run() {
    const int rank = n_.domain.rank();
    for (int d = 0; d < n_.scatter_dim; ++d)
      if (n_.domain[d] > 1) loops(d) = {{w_.loop(Loop::Kind::Unit, n_.domain[d]), 1}};
    part_ = w_.loop(Loop::Kind::Unit, parts_);
    if (n_.operands.size() > 2) fill();
    const int source = w_.loop(Loop::Kind::Serial, n_.domain[n_.scatter_dim]);
    loops(n_.scatter_dim) = {{source, 1}};
    w_.begin(source);
    const int index = read(n_.operands[0]);
    const int block =
        w_.compute(Op::shift_right,
                   {index, integer(std::countr_zero(static_cast<uint64_t>(block_)))}, DType::I64);
    const int owner = w_.compute(Op::bitwise_and, {block, integer(parts_ - 1)}, DType::I64);
    const int mine = w_.compute(Op::eq, {owner, w_.index({0, {{part_, 1}}})}, DType::Bool);
    when(mine, [&] { over_row(rank, [&] { add(index); }); });
    w_.end(source);
    return w_.take("scatter_rows", 1);
  }

 private:
  int integer(int64_t v) { return w_.constant(v, DType::I64); }

  template <class F>
  void when(int condition, F body) {
    const int once = w_.loop(Loop::Kind::Serial, 1);
    w_.begin(once, condition);
    body();
    w_.end(once);
  }

  template <class F>
  void over_row(int rank, F body) {
    std::vector<int> open;
    for (int d = n_.scatter_dim + 1; d < rank; ++d) {
      if (n_.domain[d] == 1) continue;
      open.push_back(
          w_.loop(d + 1 == rank ? Loop::Kind::Vector : Loop::Kind::Serial, n_.domain[d]));
      loops(d) = {{open.back(), 1}};
      w_.begin(open.back());
    }
    body();
    for (size_t l = open.size(); l-- > 0;) w_.end(open[l]);
  }

  void fill() {
    const int64_t rows = n_.gather_extent, turn = parts_ * block_;
    const int turns = w_.loop(Loop::Kind::Serial, (rows + turn - 1) / turn);
    const int row = w_.loop(Loop::Kind::Serial, block_);
    loops(n_.scatter_dim) = {{part_, block_}, {turns, turn}, {row, 1}};
    w_.begin(turns);
    w_.begin(row);
    const auto store = [&] {
      over_row(n_.domain.rank(),
               [&] { w_.store(n_.dest.root, at(n_.dest), read(n_.operands[2])); });
    };
    if (rows % turn == 0) {
      store();
    } else {
      const int number = w_.index({0, {{part_, block_}, {turns, turn}, {row, 1}}});
      when(w_.compute(Op::lt, {number, integer(rows)}, DType::Bool), store);
    }
    w_.end(row);
    w_.end(turns);
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

LaunchDraft scatter_kernel(const Program& program, const Node& node) {
  return scatters_rows(node.operands[0], node.scatter_dim, node.domain)
             ? ByRows(program, node).run()
             : ByColumns(program, node).run();
}

}  // namespace tandem::codegen
