// A part of k after the other: all threads bring it into panels, and then multiply these.
#include "machine/products/split_bf16.h"

#include <algorithm>

#include "machine/cpu.h"
#include "machine/memory/arena.h"
#include "machine/products/split_bf16_kernels.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine::products {
namespace {

constexpr int64_t kWide = 4096;  // rows and columns that are packed at a time

/// Rows and columns of C that one thread computes at a time, of a part of k: what it reads then
/// stays in the second-level cache of 2 MiB.
constexpr int64_t kBlock = 4 * kSplitLines, kDepth = 1024;

int64_t parts_of(int64_t size, int64_t unit) { return (size + unit - 1) / unit; }

/// Of equal parts of k.
int64_t depth_of(int64_t k) {
  return parts_of(parts_of(k, parts_of(k, kDepth)), kSplitStep) * kSplitStep;
}

/// Panels of one operand, and the largest magnitude in each.
struct Packed {
  uint16_t* data;
  float* largest;
  int64_t size;
  uint16_t* at(int64_t i) const { return data + i * size; }
};

/// A part of the product: rows [i, i + m), columns [j, j + n) and k [l, l + depth).
struct Chunk {
  const Product& p;
  int parts;
  int64_t i, m, j, n, l, depth;
  Packed rows, columns;

  SplitSource source_of_rows(int64_t panel) const {
    return {element(p.a, i + panel * kSplitLines, l),
            std::min(kSplitLines, m - panel * kSplitLines), depth};
  }
  SplitSource source_of_columns(int64_t panel) const {
    return {element(p.b, l, j + panel * kSplitLines),
            std::min(kSplitLines, n - panel * kSplitLines), depth};
  }

 private:
  static Operand element(const Operand& x, int64_t row, int64_t column) {
    const int64_t at = x.transposed ? column * x.stride + row : row * x.stride + column;
    return {x.data + at, x.stride, x.transposed};
  }
};

/// The rows, and the columns if it is the first chunk that reads them.
void pack(const Chunk& x) {
  const int64_t rows = parts_of(x.m, kSplitLines),
                columns = x.i == 0 ? parts_of(x.n, kSplitLines) : 0;
  parallel_for(rows + columns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < std::min(end, rows); ++r)
      x.rows.largest[r] = split_rows(x.source_of_rows(r), x.parts, x.rows.at(r));
    for (int64_t c = std::max(begin, rows) - rows; c < end - rows; ++c)
      x.columns.largest[c] = split_columns(x.source_of_columns(c), x.parts, x.columns.at(c));
  });
}

/// Whether numbers up to these can be multiplied in parts: nothing overflows, and parts and
/// products below 2^-126, which AMX takes for zero, are small beside the largest product. False if
/// one is infinite or NaN.
bool fit_parts(float a, float b) {
  constexpr float kHigh = 0x1p60f, kLow = 0x1p-70f, kLowProduct = 0x1p-80f;
  if (!(a <= kHigh && b <= kHigh)) return false;
  return a == 0 || b == 0 || (a >= kLow && b >= kLow && a * b >= kLowProduct);
}

void multiply_panels(const Chunk& x, int64_t row, int64_t column, const SplitTiles& tiles) {
  const Product& p = x.p;
  const int64_t i = x.i + row * kSplitLines, j = x.j + column * kSplitLines;
  float* const c = p.c + i * p.c_stride + j;
  const bool adds = p.adds || x.l > 0;
  const float* const bias = p.bias != nullptr ? p.bias + j : nullptr;
  tiles.multiply({.a = x.source_of_rows(row),
                  .b = x.source_of_columns(column),
                  .a_panel = x.rows.at(row),
                  .b_panel = x.columns.at(column),
                  .in_parts = fit_parts(x.rows.largest[row], x.columns.largest[column]),
                  .c = c,
                  .c_stride = p.c_stride,
                  .start = adds ? c : bias,
                  .start_stride = adds ? p.c_stride : 0},
                 x.parts);
}

void multiply(const Chunk& x) {
  const int64_t rows = parts_of(x.m, kBlock), columns = parts_of(x.n, kBlock);
  constexpr int64_t kPanels = kBlock / kSplitLines;
  parallel_for(rows * columns, 1, [&](int64_t begin, int64_t end, int) {
    const SplitTiles tiles;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t row = u / columns * kPanels, column = u % columns * kPanels;
      const int64_t last_row = std::min(row + kPanels, parts_of(x.m, kSplitLines)),
                    last_column = std::min(column + kPanels, parts_of(x.n, kSplitLines));
      for (int64_t c = column; c < last_column; ++c)
        for (int64_t r = row; r < last_row; ++r) multiply_panels(x, r, c, tiles);
    }
  });
}

}  // namespace

bool splits(int64_t m, int64_t n, int64_t k, int parts) {
  // (A number that is split must take part in so many products to pay. Measured on a Xeon with
  // AMX.)
  const int64_t least = parts == 3 ? 128 : 64;
  return cpu_features().amx_bf16 && m >= least && n >= least && k >= 64;
}

void multiply_split(const Product& p, int parts) {
  const int64_t depth = depth_of(p.k), panel = split_panel(depth, parts);
  const int64_t rows = parts_of(std::min(p.m, kWide), kSplitLines),
                columns = parts_of(std::min(p.n, kWide), kSplitLines);
  const auto panel_bytes = static_cast<int64_t>(panel * sizeof(uint16_t) + sizeof(float));
  const ArenaLease lease = borrow_arena(static_cast<size_t>((rows + columns) * panel_bytes));
  auto* const data = reinterpret_cast<uint16_t*>(lease.data());
  auto* const largest = reinterpret_cast<float*>(data + (rows + columns) * panel);
  const Packed a{data, largest, panel}, b{data + rows * panel, largest + rows, panel};
  for (int64_t j = 0; j < p.n; j += kWide)
    for (int64_t l = 0; l < p.k; l += depth)
      for (int64_t i = 0; i < p.m; i += kWide) {
        const Chunk chunk{p, parts,
                          i, std::min(kWide, p.m - i),
                          j, std::min(kWide, p.n - j),
                          l, std::min(depth, p.k - l),
                          a, b};
        pack(chunk);
        multiply(chunk);
      }
}

}  // namespace tandem::machine::products
