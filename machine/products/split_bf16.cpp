// A part of k after the other: all threads bring A's rows into panels, and then each takes blocks
// of C, for which it packs B's columns.
#include "machine/products/split_bf16.h"

#include <algorithm>

#include "machine/cpu.h"
#include "machine/products/split_bf16_kernels.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine::products {
namespace {

constexpr int64_t kWide = 4096;   // rows that are packed at a time
constexpr int64_t kDepth = 1024;  // of a part of k

/// Rows and columns of C that one thread computes at a time. It packs the columns itself, which
/// then stay in its second-level cache of 2 MiB; so many rows are worth that.
constexpr int64_t kRows = 512, kFewestRows = 128, kColumns = kSplitPanels * kSplitLines;

/// Of equal parts of k.
int64_t depth_of(int64_t k) { return round_up(ceil_div(k, ceil_div(k, kDepth)), kSplitStep); }

/// A part of the product: rows [i, i + m) and k [l, l + depth).
struct Chunk {
  const Product& p;
  int parts;
  int64_t i, m, l, depth;
  SplitPanels rows;

  SplitSource source_of_rows(int64_t row, int64_t count) const {
    return {element(p.a, i + row, l), std::min(count, m - row), depth};
  }
  SplitSource source_of_columns(int64_t column, int64_t count) const {
    return {element(p.b, l, column), std::min(count, p.n - column), depth};
  }

 private:
  static Operand element(const Operand& x, int64_t row, int64_t column) {
    const int64_t at = x.transposed ? column * x.stride + row : row * x.stride + column;
    return {x.data + at, x.stride, x.transposed};
  }
};

void pack_rows(const Chunk& x) {
  constexpr int64_t kPacked = kSplitPanels * kSplitLines;
  parallel_for(ceil_div(x.m, kPacked), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u)
      split_rows(x.source_of_rows(u * kPacked, kPacked), x.parts, x.rows.from(u * kSplitPanels));
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

/// The tile of rows from `row` and columns from `column` on, whose panel is `columns`.
void multiply_tile(const Chunk& x, int64_t row, int64_t column, const SplitPanels& columns,
                   const SplitTiles& tiles) {
  const Product& p = x.p;
  const SplitPanels rows = x.rows.from(row / kSplitLines);
  float* const c = p.c + (x.i + row) * p.c_stride + column;
  const bool adds = p.adds || x.l > 0;
  const float* const bias = p.bias != nullptr ? p.bias + column : nullptr;
  tiles.multiply({.a = x.source_of_rows(row, kSplitLines),
                  .b = x.source_of_columns(column, kSplitLines),
                  .a_panel = rows.data,
                  .b_panel = columns.data,
                  .in_parts = fit_parts(*rows.largest, *columns.largest),
                  .c = c,
                  .c_stride = p.c_stride,
                  .start = adds ? c : bias,
                  .start_stride = adds ? p.c_stride : 0},
                 x.parts);
}

/// Of up to `rows` rows.
void multiply_block(const Chunk& x, int64_t row, int64_t rows, int64_t column,
                    const SplitPanels& columns, const SplitTiles& tiles) {
  split_columns(x.source_of_columns(column, kColumns), x.parts, columns);
  for (int64_t r = row; r < std::min(row + rows, x.m); r += kSplitLines)
    for (int64_t c = column; c < std::min(column + kColumns, x.p.n); c += kSplitLines)
      multiply_tile(x, r, c, columns.from((c - column) / kSplitLines), tiles);
}

/// Floats of `count` panels, and of the largest number in each; whole cache lines.
int64_t floats_of(int64_t count, int64_t panel) {
  constexpr int64_t kLine = 32;
  return round_up(count * (panel / 2 + 1), kLine);
}
SplitPanels panels_in(float* memory, int64_t count, int64_t panel) {
  return {reinterpret_cast<uint16_t*>(memory), panel, memory + count * (panel / 2)};
}

/// Panels of rows that are packed at a time.
int64_t packed_rows(int64_t m) { return ceil_div(std::min(m, kWide), kSplitLines); }

/// Fewer than kRows where threads would have nothing to do. (An element's bits do not depend on
/// it.)
int64_t rows_of_block(int64_t m, int64_t columns, int threads) {
  int64_t rows = kRows;
  while (rows > kFewestRows && ceil_div(m, rows) * columns < 2 * threads) rows /= 2;
  return rows;
}

/// The blocks of a chunk.
struct Blocks {
  const Chunk& x;
  int64_t columns, rows;  // how many there are side by side; of each
  float* memory;          // of the first thread

  static void run(void* context, int64_t begin, int64_t end, int worker) {
    const auto& [x, columns, rows, memory] = *static_cast<const Blocks*>(context);
    const SplitTiles tiles;
    const int64_t panel = x.rows.size;
    const SplitPanels panels =
        panels_in(memory + worker * floats_of(kSplitPanels, panel), kSplitPanels, panel);
    for (int64_t u = begin; u < end; ++u)
      multiply_block(x, u / columns * rows, rows, u % columns * kColumns, panels, tiles);
  }
};

void multiply(const Chunk& x, float* memory, int threads) {
  const int64_t columns = ceil_div(x.p.n, kColumns), rows = rows_of_block(x.m, columns, threads);
  Blocks blocks{x, columns, rows, memory};
  parallel_for(ceil_div(x.m, rows) * columns, 1, Blocks::run, &blocks, threads);
}

}  // namespace

bool splits(int64_t m, int64_t n, int64_t k, int parts) {
  // (A number that is split must take part in so many products to pay. Measured on a Xeon with
  // AMX.)
  return cpu_features().amx_bf16 && m >= 64 && n >= (parts == 3 ? 128 : 64) && k >= 64;
}

SplitMemory::SplitMemory(int64_t m, int64_t k, int parts) : threads(num_threads()) {
  const int64_t panel = split_panel(depth_of(k), parts);
  const int64_t floats =
      floats_of(packed_rows(m), panel) + threads * floats_of(kSplitPanels, panel);
  lease = borrow_arena(static_cast<size_t>(floats) * sizeof(float));
}

void multiply_split(const Product& p, int parts, const SplitMemory& memory) {
  const int64_t depth = depth_of(p.k), panel = split_panel(depth, parts);
  const int64_t count = packed_rows(p.m);
  auto* const floats = reinterpret_cast<float*>(memory.lease.data());
  const SplitPanels rows = panels_in(floats, count, panel);
  for (int64_t l = 0; l < p.k; l += depth)
    for (int64_t i = 0; i < p.m; i += kWide) {
      const Chunk chunk{p, parts, i, std::min(kWide, p.m - i), l, std::min(depth, p.k - l), rows};
      pack_rows(chunk);
      multiply(chunk, floats + floats_of(count, panel), memory.threads);
    }
}

}  // namespace tandem::machine::products
