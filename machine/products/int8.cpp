#include "machine/products/int8.h"

#include <algorithm>

#include "machine/cpu.h"
#include "machine/memory/worker_memory.h"
#include "machine/products/int8_kernels.h"
#include "machine/products/panels.h"
#include "machine/rounding.h"

namespace tandem::machine {
namespace products {

const WeightKernels& weight_kernels() {
  return *for_this_processor(&kWeightsBase, &kWeightsAvx2, &kWeightsAvx512);
}

const IntegerKernels& integer_kernels() {
  const CpuFeatures& cpu = cpu_features();
  if (cpu.avx512_vnni) return cpu.amx_int8 ? kIntegersAmx : kIntegersVnni;
  return cpu.avx2 && cpu.fma ? kIntegersAvx2 : kIntegersBase;
}

}  // namespace products

namespace {

using ir::BufferView;
using products::Bytes;
using products::integer_kernels;
using products::IntegerKernels;
using products::kFewRows;
using products::Operand;
using products::panels;
using products::weight_kernels;
using products::WeightKernels;
using products::WeightProduct;

/// How a product is cut: blocks of rows and columns.
struct Cut {
  int64_t m, n, rows, columns;

  int64_t units() const { return ceil_div(m, rows) * ceil_div(n, columns); }
  /// f(first row, rows, first column, columns) of unit `u`: columns first, so that neighbours read
  /// the same rows.
  template <class F>
  void unit(int64_t u, F f) const {
    const int64_t across = ceil_div(n, columns), i = u / across * rows, j = u % across * columns;
    f(i, std::min(rows, m - i), j, std::min(columns, n - j));
  }
};

constexpr int64_t kUnits = 32;  // that there should be, so that threads have equal shares
constexpr int64_t kBlockRows = 240, kColumnUnit = 96, kMostColumns = 384;  // of a unit of many rows
constexpr int64_t kUnitBytes = 32 * 1024;  // of weights, that a unit of few rows should read

/// Of few rows: all of them, with as many columns as are worth a claim.
Cut cut_of_few(int64_t m, int64_t n, int64_t k) {
  const int64_t least = kUnitBytes / std::max<int64_t>(k, 1), most = n / (2 * kUnits);
  return {m, n, m, std::max<int64_t>(4, std::max(least, most) / 4 * 4)};
}

/// Blocks whose rows panels take at once, of whole tiles of columns.
Cut cut_of_many(int64_t m, int64_t n) {
  const int64_t down = ceil_div(m, kBlockRows);
  const int64_t wanted = n * down / kUnits / kColumnUnit * kColumnUnit;
  return {m, n, ceil_div(m, down), std::clamp<int64_t>(wanted, kColumnUnit, kMostColumns)};
}

template <class T>
T* data(const BufferView& view) {
  return static_cast<T*>(view.data);
}

/// Elements from a row, or column, to the next.
int64_t step(const BufferView& view, int dim) { return view.strides[dim]; }

template <class T>
WeightProduct<T> weight_product(const BufferView& x, const BufferView& weight,
                                const BufferView& scales, const BufferView& out) {
  return {.m = x.sizes[0],
          .n = weight.sizes[0],
          .k = x.sizes[1],
          .x = data<const T>(x),
          .x_stride = step(x, 0),
          .weight = data<const int8_t>(weight),
          .weight_stride = step(weight, 0),
          .scales = data<const T>(scales),
          .out = data<T>(out),
          .out_stride = step(out, 0)};
}

/// Rows [i, i + m) and columns [j, j + n) of the product.
template <class T>
WeightProduct<T> part(WeightProduct<T> p, int64_t i, int64_t m, int64_t j, int64_t n) {
  p.m = m;
  p.n = n;
  p.x += i * p.x_stride;
  p.weight += j * p.weight_stride;
  p.scales += j;
  p.out += i * p.out_stride + j;
  return p;
}

template <class T>
void multiply_by_rows(const WeightProduct<T>& p, void (*multiply)(const WeightProduct<T>&)) {
  const Cut cut = cut_of_few(p.m, p.n, p.k);
  parallel_for(cut.units(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u)
      cut.unit(u,
               [&](int64_t i, int64_t m, int64_t j, int64_t n) { multiply(part(p, i, m, j, n)); });
  });
}

// --- many rows: parts of the weight are brought into panels as f32

constexpr int64_t kDepth = 256;  // of a part of k
constexpr int64_t kRowGap =
    16;  // so that rows of a tile's columns do not fall on one set of a cache

int64_t widened_floats() { return panels()->tile_columns * (kDepth + kRowGap); }

/// Columns of `p`, of a part of k, into panels.
void pack_part(const WeightProduct<float>& p, int64_t l, int64_t depth, float* widened, float* to) {
  for (int64_t j = 0, columns; j < p.n; j += columns) {
    columns = panels()->panel_columns(p.n - j);
    for (int64_t c = 0; c < columns; ++c)
      weight_kernels().widen(p.weight + (j + c) * p.weight_stride + l, depth,
                             widened + c * (kDepth + kRowGap));
    const Operand tile{widened, kDepth + kRowGap, true};
    panels()->pack(tile, columns, depth, 0, to + j * depth);
  }
}

void scale_rows(const WeightProduct<float>& p) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) p.out[i * p.out_stride + j] *= p.scales[j];
}

void multiply_in_panels(const WeightProduct<float>& p, float* memory) {
  float* const packed = memory + widened_floats();
  float* const scratch = packed + panels()->packed_floats(kMostColumns, kDepth);
  for (int64_t l = 0; l < p.k; l += kDepth) {
    const int64_t depth = std::min(kDepth, p.k - l);
    pack_part(p, l, depth, memory, packed);
    panels()->multiply({.m = p.m,
                        .n = p.n,
                        .k = depth,
                        .a = {p.x + l, p.x_stride, false},
                        .b = {},
                        .c = p.out,
                        .c_stride = p.out_stride,
                        .adds = l > 0,
                        .packed = {packed, p.n, 0}},
                       scratch);
  }
  scale_rows(p);
}

void multiply_many(const WeightProduct<float>& p) {
  const Cut cut = cut_of_many(p.m, p.n);
  const WorkerMemory memory(widened_floats() + panels()->packed_floats(kMostColumns, kDepth) +
                            panels()->scratch(cut.rows, kMostColumns, kDepth));
  parallel_for(cut.units(), 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t u = begin; u < end; ++u)
      cut.unit(u, [&](int64_t i, int64_t m, int64_t j, int64_t n) {
        multiply_in_panels(part(p, i, m, j, n), memory.of(worker));
      });
  });
}

// --- i8 times i8

/// Along its rows, if both would do.
Bytes bytes_of(const BufferView& view) {
  const bool rows = view.sizes[1] == 1 || view.strides[1] == 1;
  return {data<const int8_t>(view), step(view, rows ? 0 : 1), !rows};
}

/// Blocks of whole tiles; few of them, since each brings its own rows and columns into panels.
Cut cut_of_integers(const IntegerKernels& kernels, int64_t m, int64_t n) {
  constexpr int64_t kBlocks = kUnits / 2;
  const int64_t down = ceil_div(m, kernels.block_rows), tile = kernels.tile_columns;
  const int64_t wanted = n * down / kBlocks / tile * tile;
  return {m, n, round_up(ceil_div(m, down), kernels.tile_rows),
          std::clamp<int64_t>(wanted, 2 * tile, 16 * tile)};
}

Bytes from_line(Bytes x, int64_t row, int64_t column) {
  x.data += x.transposed ? column * x.stride + row : row * x.stride + column;
  return x;
}

}  // namespace

void multiply_weight(const BufferView& x, const BufferView& weight, const BufferView& scales,
                     const BufferView& out) {
  if (ir::numel(out.sizes) == 0) return;
  const WeightKernels& kernels = weight_kernels();
  if (x.dtype == ir::DType::F64)
    return multiply_by_rows(weight_product<double>(x, weight, scales, out), kernels.multiply_f64);
  const auto p = weight_product<float>(x, weight, scales, out);
  const bool in_panels = panels() && p.m > kFewRows && p.k > 0;
  in_panels ? multiply_many(p) : multiply_by_rows(p, kernels.multiply);
}

void multiply_integers(const BufferView& a, const BufferView& b, const BufferView& out) {
  const int64_t m = a.sizes[0], n = b.sizes[1], k = a.sizes[1];
  auto* const to = data<int32_t>(out);
  if (m * n == 0) return;
  if (k == 0) return void(std::fill_n(to, m * n, 0));
  const Bytes left = bytes_of(a), right = bytes_of(b);
  const IntegerKernels& kernels = integer_kernels();
  const Cut cut = m <= kernels.few_rows && right.transposed ? cut_of_few(m, n, k)
                                                            : cut_of_integers(kernels, m, n);
  const WorkerMemory memory(kernels.scratch(cut.rows, cut.columns, k));
  parallel_for(cut.units(), 1, [&](int64_t begin, int64_t end, int worker) {
    auto* const scratch = reinterpret_cast<int32_t*>(memory.of(worker));
    for (int64_t u = begin; u < end; ++u)
      cut.unit(u, [&](int64_t i, int64_t rows, int64_t j, int64_t columns) {
        kernels.multiply(
            {rows, columns, k, from_line(left, i, 0), from_line(right, 0, j), to + i * n + j, n},
            scratch);
      });
  });
}

}  // namespace tandem::machine
