// The choice of blocks: the cut with the best mean efficiency over several thread counts under a
// small cost model. Nothing here may ask how many threads there are or which processor runs: every
// run must cut alike.
#include "machine/library/matmul_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "machine/products/panels.h"
#include "machine/rounding.h"

namespace tandem::machine {
namespace {

// The model in nanoseconds, fitted to a Zen 4 core (118 GFLOP/s) on the products of small MLPs and
// transformers.
constexpr double kNsPerFlop = 1 / 118.0;
constexpr double kCallNs = 500;      // a library call
constexpr double kRegionNs = 500;    // a parallel region
constexpr double kVectorNs = 0.045;  // an element of the matrix in a product with a vector
constexpr double kStreamNs = 0.12;   // reading an element from beyond the second-level cache
constexpr double kCombineNs = 0.3;   // storing and adding one partial sum
constexpr int64_t kCacheElements = int64_t{1} << 18;  // of the second-level cache
constexpr double kMinThreadNs = 2000;                 // work worth waking a thread for

constexpr int64_t kFewestRows = 4;    // a tile of fewer costs as much
constexpr int64_t kVectorWidth = 16;  // short rows fill a vector
constexpr int64_t kRowUnit = 8;       // blocks have multiples of so many rows
constexpr int64_t kSumUnit = 64;      // chunks of k are multiples of this

/// Costs of one algorithm for one storage order of the operands.
struct Rates {
  double efficiency;  // of the inner kernel, as a share of the peak
  double pack_a;      // ns an element of A in each block
  double pack_b;
};

struct Problem {
  const MatmulSpec& spec;
  BlasLayout a, b;
  double flops;
};

Rates rates_of(const Problem& p, const MatmulBlocks& block) {
  if (block.algorithm == BlockAlgorithm::Panels) {
    const bool packs = products::panels()->packs(p.a.transposed, p.a.ld, block.n);
    const double pack_a = !packs ? 0.02 : p.a.transposed ? 0.15 : 0.1;
    return {0.95, pack_a, p.b.transposed ? 0.1 : 0.03};
  }
  if (block.algorithm == BlockAlgorithm::Primitive) return {0.97, p.a.transposed ? 0.1 : 0.01, 0.1};
  if (!p.b.transposed) return {0.99, p.a.transposed ? 0.05 : 0.01, 0.01};
  const bool same_cache_sets =
      p.b.ld % 512 == 0;  // the columns that packing gathers evict each other
  const double pack = block.n < 128 ? 0.45 : 0.08;
  return {0.93, 0.02, same_cache_sets ? pack + 0.35 : pack};
}

// What the columns left over from panels of 48 cost, by vectors of 16.
constexpr double kRest[] = {0, 22, 34, 48};

/// Columns that `n` columns cost as much as: panels of 48 are the fastest, and short rows fill a
/// vector of 16.
double effective_columns(const MatmulBlocks& block) {
  if (block.algorithm != BlockAlgorithm::Sgemm)
    return static_cast<double>(round_up(block.n, kVectorWidth));
  return static_cast<double>(block.n / 48 * 48) + kRest[ceil_div(block.n % 48, 16)];
}

/// The same of rows: panels have tiles of equal heights.
double effective_rows(const MatmulBlocks& block) {
  if (block.algorithm != BlockAlgorithm::Panels) return static_cast<double>(block.m);
  const int64_t tiles = ceil_div(block.m, products::panels()->tile_rows);
  return static_cast<double>(std::max(block.m, tiles * kFewestRows));
}

double block_ns(const Problem& p, const MatmulBlocks& block) {
  const MatmulSpec& s = p.spec;
  const Rates r = rates_of(p, block);
  const double a = static_cast<double>(block.m) * block.k,
               b = static_cast<double>(block.n) * block.k;
  if (s.m == 1 || s.n == 1)
    return static_cast<double>(block.batch) * std::max(a, b) * kVectorNs + kCallNs;
  const double stream = (s.m * s.k > kCacheElements ? a : 0) + (s.n * s.k > kCacheElements ? b : 0);
  const double flops =
      2.0 * effective_rows(block) * effective_columns(block) * static_cast<double>(block.k);
  const double one =
      flops * kNsPerFlop / r.efficiency + a * r.pack_a + b * r.pack_b + stream * kStreamNs;
  return static_cast<double>(block.batch) * one + kCallNs;
}

/// Time on `threads` threads.
double total_ns(const Problem& p, const MatmulBlocks& block, double one, int threads) {
  const int64_t units = block.units(), used = std::min<int64_t>(units, threads);
  double ns = static_cast<double>(ceil_div(units, used)) * one + (used > 1 ? kRegionNs : 0);
  if (block.grid_k > 1) {
    const double partials =
        static_cast<double>(block.grid_k * p.spec.matrices()) * p.spec.m * p.spec.n;
    ns += partials * kCombineNs / static_cast<double>(used) + kRegionNs;
  }
  return ns;
}

struct Machine {
  int threads;
  double weight;
};
constexpr Machine kMachines[] = {{1, 3}, {2, 4}, {4, 3}, {8, 1.5}, {16, 1}};

/// The mean share of the peak over machines; small ones weigh more.
double score(const Problem& p, const MatmulBlocks& block) {
  const double one = block_ns(p, block);
  double sum = 0;
  for (const auto& [threads, weight] : kMachines) {
    const double ns = std::min(total_ns(p, block, one, 1), total_ns(p, block, one, threads));
    sum += weight * p.flops * kNsPerFlop / (threads * ns);
  }
  return sum;
}

// A sum over k is not split into chunks shorter than this, nor for products smaller than this a
// chunk (multiplications), nor where the partial sums would need more scratch than this (elements).
constexpr int64_t kShortestSum = 512;
constexpr int64_t kSmallestSplit = int64_t{1} << 20;
constexpr int64_t kMostPartials = int64_t{1} << 20;

constexpr int64_t kCuts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

/// The block extent that cuts `size` into about `cuts` pieces of a multiple of `unit`.
int64_t extent(int64_t size, int64_t cuts, int64_t unit) {
  return std::min(size, round_up(ceil_div(size, cuts), unit));
}

/// Whether blocks of m rows and n columns may cut the sum into so many chunks of k.
bool may_split(const MatmulSpec& s, int64_t m, int64_t n, int64_t k, int64_t chunks) {
  return k >= kShortestSum && m * n * k >= kSmallestSplit &&
         chunks * s.matrices() * s.m * s.n <= kMostPartials;
}

/// Whether no blocks of such a product may cut it.
bool is_one_sum(const MatmulSpec& s) {
  return !may_split(s, s.m, s.n, extent(s.k, 2, kSumUnit), 2);
}

/// The best cut so far.
struct Best {
  const Problem& problem;
  MatmulBlocks block;
  double value = -1;

  void offer(MatmulBlocks candidate) {
    set_grid(candidate, problem.spec);
    const double v = score(problem, candidate);
    if (v > value) block = candidate, value = v;
  }
};

void offer_cuts(Best& best, const MatmulSpec& s, BlockAlgorithm algorithm) {
  for (const int64_t cut_m : kCuts) {
    for (const int64_t cut_n : kCuts) {
      const int64_t m = extent(s.m, cut_m, kRowUnit), n = extent(s.n, cut_n, kVectorWidth);
      if (ceil_div(s.m, m) < cut_m || ceil_div(s.n, n) < cut_n)
        continue;  // another cut gives the same
      for (int64_t cut_k = 1; cut_k <= 32; cut_k *= 2) {
        const int64_t k = extent(s.k, cut_k, kSumUnit);
        if (cut_k > 1 && !may_split(s, m, n, k, cut_k)) break;
        best.offer({.batch = 1, .m = m, .n = n, .k = k, .algorithm = algorithm});
      }
    }
  }
}

bool dense(const MatrixStrides& s, int64_t batch, int64_t rows, int64_t cols) {
  const auto layout = blas_layout(s, rows, cols);
  return layout && layout->ld == (layout->transposed ? rows : cols) &&
         (batch == 1 || s.batch == rows * cols);
}

/// What the choice may know of an operand.
BlasLayout known_layout(const MatmulSpec& spec, const MatrixStrides& s, int64_t rows,
                        int64_t cols) {
  BlasLayout layout = *blas_layout(s, rows, cols);
  if (spec.stride_free) layout.ld = layout.transposed ? rows : cols;
  return layout;
}

/// Primitives take dense operands only. They win for small batched products and where B is stored
/// transposed.
bool primitive_pays(const Problem& p) {
  const MatmulSpec& s = p.spec;
  if (s.outer > 1 || s.stride_free) return false;
  const bool small = s.batch > 1 && s.m * s.n * s.k <= 128 * 128 * 128;
  if (s.m < 8 || s.n < 8 || s.k < 8 || p.a.transposed || !(p.b.transposed || small)) return false;
  return dense(s.a, s.batch, s.m, s.k) && dense(s.b, s.batch, s.k, s.n) &&
         dense(s.c, s.batch, s.m, s.n);
}

void offer_primitive(Best& best, const MatmulSpec& s) {
  for (const int64_t cut : kCuts) {
    if (const int64_t m = extent(s.m, cut, 8); ceil_div(s.m, m) >= cut)
      best.offer({.batch = 1, .m = m, .n = s.n, .k = s.k, .algorithm = BlockAlgorithm::Primitive});
    if (s.batch > 1)
      best.offer({.batch = ceil_div(s.batch, cut),
                  .m = s.m,
                  .n = s.n,
                  .k = s.k,
                  .algorithm = BlockAlgorithm::Primitive});
  }
}

// Of few rows or columns by many: these are read once, so a block is what is worth a claim.
constexpr double kDotNs = 0.06;  // an element of each
constexpr int64_t kDotChunk = int64_t{1} << 15;
constexpr int64_t kDotLines = 4;   // are read together
constexpr int64_t kLongRow = 128;  // the sum of its lanes takes little of the time

MatmulBlocks dot_blocks(const MatmulSpec& s) {
  const int64_t k = extent(s.k, ceil_div(s.k, kDotChunk), kSumUnit);
  const int64_t lines = round_up(ceil_div(kDotChunk, k), kDotLines);
  const bool by_rows = has_few_columns(s);
  MatmulBlocks block{.batch = 1,
                     .m = by_rows ? std::min(s.m, lines) : s.m,
                     .n = by_rows ? s.n : std::min(s.n, lines),
                     .k = k,
                     .algorithm = BlockAlgorithm::Dots};
  set_grid(block, s);
  const double ns = static_cast<double>((by_rows ? block.m : block.n) * k) * kDotNs;
  block.grain = std::max<int64_t>(1, std::llround(kMinThreadNs / ns));
  return block;
}

}  // namespace

std::optional<BlasLayout> blas_layout(const MatrixStrides& s, int64_t rows, int64_t cols) {
  if ((cols == 1 || s.col == 1) && (rows == 1 || s.row >= cols))
    return BlasLayout{false, rows == 1 ? cols : s.row};
  if ((rows == 1 || s.row == 1) && (cols == 1 || s.col >= rows))
    return BlasLayout{true, cols == 1 ? rows : s.col};
  return std::nullopt;
}

bool can_be_stride_free(int64_t m, int64_t n, int64_t k) {
  return (m > 1 && n > 1 && k > 1 && k <= kShortestSum) || is_stride_free(m, n, k);
}

bool is_stride_free(int64_t m, int64_t n, int64_t k) {
  return products::panels() && m > 1 && n > 1 && k > 1 && is_one_sum({.m = m, .n = n, .k = k});
}

MatmulSpec swapped(const MatmulSpec& s) {
  const auto flip = [](const MatrixStrides& x) {
    return MatrixStrides{x.batch, x.col, x.row, x.outer};
  };
  MatmulSpec out = s;
  std::swap(out.m, out.n);
  out.a = flip(s.b), out.b = flip(s.a), out.c = flip(s.c);
  return out;
}

MatmulSpec merge_batches(const MatmulSpec& spec) {
  MatmulSpec s = spec;
  MatrixStrides* const operands[] = {&s.a, &s.b, &s.c};
  const bool one = s.batch == 1 || s.outer == 1;
  const auto runs_on = [&](const MatrixStrides* x) { return x->outer == s.batch * x->batch; };
  if (!one && !std::ranges::all_of(operands, runs_on)) return s;
  for (MatrixStrides* x : operands) {
    if (s.batch == 1) x->batch = x->outer;
    x->outer = 0;
  }
  s.batch = s.matrices();
  s.outer = 1;
  return s;
}

MatmulSpec fold_batch(const MatmulSpec& spec) {
  MatmulSpec s = spec;
  const bool shared_b = s.b.batch == 0 && s.m > 0;
  if (s.matrices() == 1 || s.outer > 1 || s.stride_free || !shared_b || s.m == 1 ||
      s.a.batch != s.m * s.a.row || s.c.batch != s.m * s.c.row)
    return s;
  s.m *= s.batch;
  s.batch = 1;
  return s;
}

bool is_column_of_few(const MatmulSpec& s) {
  return s.n == 1 && s.m > 1 && s.k <= kFewProducts && s.c.row == 1;
}

bool has_few_columns(const MatmulSpec& s) {
  return s.n <= std::min(kFewColumns, s.m) && s.k > kFewProducts && s.a.col == 1;
}

bool has_few_rows(const MatmulSpec& s) {
  const bool are_long = s.k >= kLongRow && s.a.col == 1;
  const int64_t few = are_long ? kFewRows : kFewColumns;
  return s.m <= std::min(few, s.n) && s.k > kFewProducts && s.b.row == 1;
}

bool is_of_dots(const MatmulSpec& s) {
  if (s.m == 1 || s.n == 1) return s.m == s.n;
  return has_few_columns(s) || has_few_rows(s);
}

void set_grid(MatmulBlocks& block, const MatmulSpec& s) {
  block.grid_batch = ceil_div(s.matrices(), block.batch);
  block.grid_m = ceil_div(s.m, block.m);
  block.grid_n = ceil_div(s.n, block.n);
  block.grid_k = ceil_div(s.k, block.k);
}

MatmulBlocks choose_blocks(const MatmulSpec& s, BlockAlgorithm algorithm, bool primitives) {
  if (algorithm == BlockAlgorithm::Dots) return dot_blocks(s);
  const Problem p{s, known_layout(s, s.a, s.m, s.k), known_layout(s, s.b, s.k, s.n),
                  2.0 * static_cast<double>(s.matrices()) * s.m * s.n * s.k};
  Best best{p, {}};
  // Of blocks in panels k alone is decided here: the others have their cut from panel_cut.h.
  if (algorithm == BlockAlgorithm::Panels && is_one_sum(s))
    best.offer({.batch = 1, .m = s.m, .n = s.n, .k = s.k, .algorithm = algorithm});
  else
    offer_cuts(best, s, algorithm);
  if (algorithm == BlockAlgorithm::Sgemm && primitives && primitive_pays(p))
    offer_primitive(best, s);
  MatmulBlocks block = best.block;
  block.grain = std::max<int64_t>(1, std::llround(kMinThreadNs / block_ns(p, block)));
  return block;
}

}  // namespace tandem::machine
