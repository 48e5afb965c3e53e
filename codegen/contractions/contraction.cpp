#include "codegen/contractions/contraction.h"

#include <algorithm>

#include "codegen/kernels/kernel_writer.h"
#include "machine/library/bf16_matmul.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using machine::MatrixStrides;

constexpr std::string_view kLibrary = "onednn", kTiled = "tiled";
constexpr int64_t kTileRows = 4;      // accumulators per column
constexpr int64_t kTileColumns = 64;  // of a unit

/// The type that a contraction is summed in.
DType sum_type(DType dtype) {
  return dtype == DType::BF16 || dtype == DType::F16 ? DType::F32 : dtype;
}

/// Of [m, n], [b, m, n] or [outer, b, m, n].
MatrixStrides strides_of(const View& v) {
  const int row = v.sizes.rank() - 2;
  const auto stride = [&](int d) { return d < 0 ? 0 : int64_t{v.strides[d]}; };
  return {stride(row - 1), stride(row), stride(row + 1), stride(row - 2)};
}

/// Rows [first, first + count) of the result, `tile` at a time (count is a multiple of it).
class TiledKernel {
 public:
  TiledKernel(const Program& p, const Node& n, int64_t first, int64_t count, int64_t tile)
      : n_(n), w_(p), first_(first), count_(count), tile_(tile), sum_(sum_type(n.dtype)) {}

  KernelDraft run() {
    const View &a = n_.operands[0], &b = n_.operands[1];
    const int64_t k = a.sizes[2], cols = b.sizes[2];
    batch_ = w_.loop(Loop::Kind::Unit, a.sizes[0]);
    rows_ = w_.loop(Loop::Kind::Unit, count_ / tile_);
    const int64_t width = std::min(cols, kTileColumns);
    chunk_ = w_.loop(Loop::Kind::Unit, (cols + width - 1) / width);
    width_ = width;
    vector_ = w_.loop(Loop::Kind::Vector, width, chunk_, cols);
    serial_ = w_.loop(Loop::Kind::Serial, k);
    w_.begin(vector_);
    std::vector<AccumulatorId> sums;
    for (int64_t r = 0; r < tile_; ++r)
      sums.push_back(w_.accumulator({Combine::Dot, sum_, serial_, 1, 0}));
    w_.begin(serial_);
    const InstrId y = widened(b.root, at(b, {false, true}, 0));
    for (int64_t r = 0; r < tile_; ++r) {
      const InstrId x = widened(a.root, at(a, {true, false}, r));
      w_.accumulate(sums[static_cast<size_t>(r)], {x, y});
    }
    w_.end(serial_);
    for (int64_t r = 0; r < tile_; ++r) finish(sums[static_cast<size_t>(r)], r);
    w_.end(vector_);
    const double nanoseconds = static_cast<double>(tile_ * width * k) * 0.05;
    return w_.take("tiled_matmul", static_cast<int64_t>(2000 / (nanoseconds + 50)) + 1);
  }

 private:
  struct Uses {
    bool rows, cols;  // of the result, along the view's own row or column dim
  };

  /// a: [b, m, k]; b: [b, k, n]; c: [b, m, n] at row `r` of the tile.
  Affine at(const View& v, Uses uses, int64_t r) const {
    const MatrixStrides s = strides_of(v);
    const bool both = uses.rows && uses.cols;
    std::vector<int64_t> strides = {s.batch, uses.rows ? s.row * tile_ : 0, uses.cols ? s.col : 0,
                                    both        ? 0
                                    : uses.rows ? s.col
                                                : s.row};
    const DimLoops columns = {{chunk_, width_}, {vector_, 1}};
    const int64_t offset = v.offset + (uses.rows ? s.row * (first_ + r) : 0);
    return affine(offset, strides, {{{batch_, 1}}, {{rows_, 1}}, columns, {{serial_, 1}}});
  }

  InstrId widened(RootId root, Affine index) {
    const InstrId x = w_.load(root, std::move(index));
    return w_.dtype(root) == sum_ ? x : w_.compute(ir::Op::convert, {x}, sum_);
  }

  void finish(AccumulatorId sum, int64_t r) {
    InstrId value = w_.reduced(sum, sum_);
    if (n_.operands.size() > 2)
      value = w_.compute(ir::Op::add,
                         {widened(n_.operands[2].root, at(n_.operands[2], {true, true}, r)), value},
                         sum_);
    if (sum_ != n_.dtype) value = w_.compute(ir::Op::convert, {value}, n_.dtype);
    w_.store(n_.dest.root, at(n_.dest, {true, true}, r), value);
  }

  const Node& n_;
  KernelWriter w_;
  int64_t first_, count_, tile_, width_ = 0;
  DType sum_;
  LoopId batch_, rows_, chunk_, vector_, serial_;
};

}  // namespace

bool is_widened(DType dtype) {
  const bool native = dtype == DType::BF16 && machine::has_bf16_products();
  return sum_type(dtype) != dtype && !native;
}

std::string_view algorithm_for(DType dtype) { return dtype == DType::F32 ? kLibrary : kTiled; }

bool is_library_contraction(DType dtype, std::string_view algorithm) {
  return (algorithm.empty() ? algorithm_for(dtype) : algorithm) == kLibrary;
}

bool is_library_matrix(const View& v) {
  const int batches = v.sizes.rank() - 2;
  const int64_t rows = v.sizes[batches], cols = v.sizes[batches + 1];
  const int64_t row = v.strides[batches], col = v.strides[batches + 1];
  for (int d = 0; d < batches; ++d)
    if (v.sizes[d] > 1 && v.strides[d] < 0) return false;
  const bool by_rows = (col == 1 || cols == 1) && (row >= cols || rows == 1);
  const bool by_cols = (row == 1 || rows == 1) && (col >= rows || cols == 1);
  return by_rows || by_cols;
}

MatmulCall matmul_call(const Node& n) {
  const View &a = n.operands[0], &b = n.operands[1];
  const int row = a.sizes.rank() - 2;
  return {.spec = {.batch = a.sizes[row - 1],
                   .m = a.sizes[row],
                   .n = b.sizes[row + 1],
                   .k = a.sizes[row + 1],
                   .a = strides_of(a),
                   .b = strides_of(b),
                   .c = strides_of(n.dest),
                   .accumulate = n.accumulate || n.operands.size() > 2,
                   .outer = row == 2 ? int64_t{a.sizes[0]} : 1,
                   .stride_free = n.stride_free,
                   .plus_zero = n.plus_zero}};
}

std::vector<KernelDraft> tiled_matmul(const Program& program, const Node& node) {
  const int64_t m = node.operands[0].sizes[1], full = m / kTileRows * kTileRows;
  std::vector<KernelDraft> out;
  if (full > 0) out.push_back(TiledKernel(program, node, 0, full, kTileRows).run());
  if (m > full) out.push_back(TiledKernel(program, node, full, m - full, m - full).run());
  return out;
}

}  // namespace tandem::codegen
