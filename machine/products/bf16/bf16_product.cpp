#include "machine/products/bf16/bf16_product.h"

#include <algorithm>

#include "machine/cpu.h"
#include "machine/halves/halves.h"
#include "machine/memory/worker_memory.h"
#include "machine/parts.h"
#include "machine/products/bf16/tiles.h"
#include "machine/products/tree_sum.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine::products {
namespace {

constexpr const Bf16Tiles& kTiles = kBf16TilesAvx512;

constexpr int64_t kFewRows = 12;  // that multiply columns where they lie

// Of a block: what is packed again for each, at most and, of rows, at least; its sums should stay
// in a cache, and it should take some microseconds.
constexpr int64_t kMostRowTiles = 44, kLeastRowTiles = 4, kMostColumnTiles = 8;
constexpr double kLeastFlops = 2e6;
constexpr int64_t kMostBlocks = 16;  // that small products are cut into

/// How a matrix is cut: rows and columns of C in tiles, k in elements.
struct Cut {
  EvenParts rows, columns, depth;
  int64_t blocks() const { return rows.count * columns.count * depth.count; }
};

bool is_of_few_rows(const DenseProduct& p) {
  return p.m <= kFewRows && p.transposed_b && !p.transposed_a;
}

/// At least as many parts as `parts` has, `wanted` if it can be, none smaller than `least`.
EvenParts cut_further(EvenParts parts, int64_t wanted, int64_t least) {
  parts.count = std::max(parts.count, std::min(wanted, parts.n / least));
  return parts;
}

/// Columns are cut first, as rows are not packed; k last.
Cut cut_of(const DenseProduct& p) {
  const double flops = 2.0 * static_cast<double>(p.batch * p.m * p.n) * static_cast<double>(p.k);
  const auto blocks =
      std::clamp<int64_t>(static_cast<int64_t>(flops / kLeastFlops), 1, kMostBlocks);
  const int64_t wanted = ceil_div(blocks, p.batch);
  Cut cut{{ceil_div(p.m, kTiles.rows), kMostRowTiles},
          {ceil_div(p.n, kTiles.columns), kMostColumnTiles},
          {p.k, p.k}};
  cut.columns = cut_further(cut.columns, wanted / cut.rows.count, 1);
  if (is_of_few_rows(p)) return cut;
  cut.rows = cut_further(cut.rows, wanted / cut.columns.count, kLeastRowTiles);
  cut.depth = cut_further(cut.depth, wanted / (cut.rows.count * cut.columns.count), kTiles.depth);
  return cut;
}

struct Matrices {
  const uint16_t* a;
  const uint16_t* b;
  uint16_t* c;
  float* partials;  // [parts of k, batch, m, n], or null
};

/// Block `unit` of all matrices'.
Bf16Product block_at(const DenseProduct& p, const Cut& cut, const Matrices& whole, int64_t unit) {
  const auto next = [&](int64_t count) {
    const int64_t i = unit % count;
    unit /= count;
    return i;
  };
  const auto clipped = [](Range range, int64_t end) {
    return Range{range.begin, std::min(range.end, end)};
  };
  const Range columns = clipped(cut.columns[next(cut.columns.count)].times(kTiles.columns), p.n);
  const Range rows = clipped(cut.rows[next(cut.rows.count)].times(kTiles.rows), p.m);
  const int64_t part = next(cut.depth.count), matrix = unit;
  const Range depth = cut.depth[part];
  const Bf16Operand a{whole.a + matrix * p.m * p.k, p.transposed_a ? p.m : p.k, p.transposed_a},
      b{whole.b + matrix * p.k * p.n, p.transposed_b ? p.k : p.n, p.transposed_b};
  const int64_t place = (matrix * p.m + rows.begin) * p.n + columns.begin;
  float* const sums =
      whole.partials ? whole.partials + part * p.batch * p.m * p.n + place : nullptr;
  return {.m = rows.size(),
          .n = columns.size(),
          .k = depth.size(),
          .a = {a.at(rows.begin, depth.begin), a.stride, a.transposed},
          .b = {b.at(depth.begin, columns.begin), b.stride, b.transposed},
          .c = whole.c + place,
          .sums = sums,
          .c_stride = p.n,
          .adds = p.accumulate};
}

void multiply_blocks(const DenseProduct& p, const Cut& cut, const Matrices& whole) {
  const bool few = is_of_few_rows(p);
  const WorkerMemory memory(few ? 0
                                : kTiles.scratch(cut.rows.largest() * kTiles.rows,
                                                 cut.columns.largest() * kTiles.columns,
                                                 cut.depth.largest()));
  parallel_for(p.batch * cut.blocks(), 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const Bf16Product block = block_at(p, cut, whole, unit);
      few ? kTiles.multiply_few(block) : kTiles.multiply(block, memory.of(worker));
    }
  });
}

/// The sums of the parts of k, rounded.
void combine(const DenseProduct& p, int64_t parts, const Matrices& x) {
  const int64_t all = p.batch * p.m * p.n;
  constexpr int64_t kRun = 1024;
  parallel_for(ceil_div(all, kRun), 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * kRun; i < std::min(end * kRun, all); i += kRun) {
      const int64_t n = std::min(kRun, all - i);
      float before[kRun];
      float* const sums = x.partials + i;
      auto* const c = reinterpret_cast<Bf16*>(x.c + i);
      add_by_tree(sums, n, parts, all);
      if (p.accumulate) {
        widen(c, n, before);
        for (int64_t j = 0; j < n; ++j) sums[j] += before[j];
      }
      narrow(sums, n, c);
    }
  });
}

}  // namespace

bool has_bf16_tiles() { return cpu_features().avx512_bf16 && !cpu_features().amx_bf16; }

void multiply_bf16(const DenseProduct& p, const uint16_t* a, const uint16_t* b, uint16_t* c) {
  const Cut cut = cut_of(p);
  const bool whole = cut.depth.count == 1;
  const ArenaLease partials = borrow_arena(
      whole ? 0 : static_cast<size_t>(cut.depth.count * p.batch * p.m * p.n) * sizeof(float));
  const Matrices matrices{a, b, c, whole ? nullptr : reinterpret_cast<float*>(partials.data())};
  multiply_blocks(p, cut, matrices);
  if (!whole) combine(p, cut.depth.count, matrices);
}

}  // namespace tandem::machine::products
