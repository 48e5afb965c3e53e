#include "machine/products/panel_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "machine/rounding.h"

namespace tandem::machine::products {
namespace {

constexpr int64_t kFewestRows = 4;  // a tile of fewer takes as long
constexpr double kBlockNs = 150;    // claiming a block and starting on it
constexpr double kRegionNs = 1000;  // waking threads and waiting for them
constexpr double kThreadNs = 2000;  // what is worth waking one for
// Of the last block, by which some thread is late: others take processors away.
constexpr double kLate = 0.1;
constexpr double kReadPackedNs = 0.03;  // an element of B that is in panels
// An element of A or B, which comes to a core for each block that reads it from where another
// kernel or another core left it. (What is in panels is used again and again, by the same threads.)
constexpr double kComesNs = 0.3;
// An element of C beside which, in its row, another thread's lie: what reads C takes whole rows,
// and has what another core wrote from that core's cache, if that holds its part of C.
constexpr double kForeignNs = 0.5;
constexpr int64_t kCacheElements = int64_t{1} << 18;

/// Of a block of m rows and n columns.
double block_ns(const Panels& p, const PanelWork& w, int64_t m, int64_t n) {
  const PanelRates& r = p.rates;
  const int64_t k = ceil_div(w.k, w.chunks);
  const auto tiles = static_cast<double>(ceil_div(m, p.tile_rows)),
             panels = static_cast<double>(ceil_div(n, p.tile_columns)),
             rows = std::max(static_cast<double>(m), tiles * kFewestRows),
             columns = static_cast<double>(round_up(n, p.vector_columns)),
             parts = static_cast<double>(ceil_div(k, p.depth)), depth = static_cast<double>(k);
  const bool packs = p.packs(w.a_transposed, w.a_stride, n);
  const double first = !packs ? r.fetch_a : w.a_transposed ? r.pack_columns : r.pack_rows;
  const double a = static_cast<double>(m) * depth, b = static_cast<double>(n) * depth;
  const double each_of_b =
      w.b_packed ? kReadPackedNs : kComesNs + (w.b_transposed ? r.pack_transposed_b : r.pack_b);
  return rows * columns * depth * r.multiply + tiles * panels * parts * r.tile +
         a * (first + kComesNs + panels * r.read_a) + b * each_of_b + kBlockNs;
}

/// On each thread, of blocks of n columns. What C has beyond what the threads' caches hold, these
/// have not kept.
double foreign_ns(const PanelWork& w, int64_t n, int threads) {
  const int64_t rows = w.matrices * w.m;
  if (rows * w.n > kCacheElements * threads) return 0;
  return static_cast<double>(rows * (w.n - n)) * kForeignNs / threads;
}

/// Blocks of m rows and n columns, which take `ns` each, on `threads` threads, each of which claims
/// the next block when it is done with one.
double total_ns(const PanelWork& w, int64_t m, int64_t n, double ns, int threads) {
  const int64_t blocks = w.matrices * w.chunks * ceil_div(w.m, m) * ceil_div(w.n, n);
  if (threads == 1 || blocks == 1) return static_cast<double>(blocks) * ns;
  // (The last rows and columns make smaller blocks.)
  const double share = static_cast<double>(w.m) / static_cast<double>(round_up(w.m, m)) *
                       static_cast<double>(w.n) / static_cast<double>(round_up(w.n, n));
  const double even = static_cast<double>(blocks) * share * ns / threads;
  const double rounds = static_cast<double>(ceil_div(blocks, threads)) * ns;
  const double late = std::min(rounds, even + ns * (threads - 1) / threads) + kLate * ns;
  return late + foreign_ns(w, n, threads) + kRegionNs;
}

constexpr int64_t kCuts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr int64_t kMostBlocks = 8;  // for each thread

/// A block has fewer vectors in a row than this. (An entry has room for twice as many: whole_panels
/// may add some.)
constexpr int64_t kMostInRow = int64_t{1} << 24;

/// Columns of about `cuts` blocks, in whole units, which are vectors or several.
int64_t columns_of(const Panels& panels, int64_t size, int64_t cuts, int64_t unit) {
  return std::min({size, round_up(ceil_div(size, cuts), unit),
                   (kMostInRow - 1) * panels.vector_columns / unit * unit});
}

/// Rows of about `cuts` blocks: in whole tiles, or equal ones, whose tiles may be less high.
int64_t rows_of(const Panels& panels, int64_t size, int64_t cuts, bool equal) {
  const int64_t rows = ceil_div(size, cuts);
  return equal ? rows : std::min(size, round_up(rows, panels.tile_rows));
}

/// Of blocks whose borders are those of panels: whole ones, but for the last, which may be two that
/// are narrower (panel_columns).
int64_t whole_panels(const Panels& panels, int64_t size, int64_t cuts) {
  int64_t n = columns_of(panels, size, cuts, panels.tile_columns);
  const auto parts_last = [&] {
    const int64_t rest = size % n;
    return rest > 0 && panels.panel_columns(panels.tile_columns + rest) < panels.tile_columns;
  };
  while (n < size && parts_last()) n += panels.tile_columns;
  return std::min(n, size);
}

}  // namespace

PanelCut cut_for(const Panels& panels, const PanelWork& w, int threads) {
  PanelCut best{};
  double least = std::numeric_limits<double>::infinity();
  int64_t rows_before = 0, columns_before = 0;  // many cuts of little are one
  const auto offer = [&](int64_t m, int64_t n) {
    if (std::exchange(columns_before, n) == n) return;
    const double ns = block_ns(panels, w, m, n), total = total_ns(w, m, n, ns, threads);
    if (total < least)
      least = total, best = {m, n, std::max<int64_t>(1, std::llround(kThreadNs / ns))};
  };
  const int64_t most = std::max<int64_t>(1, kMostBlocks * threads / (w.matrices * w.chunks));
  const auto offer_rows = [&](int64_t m, int64_t most_columns) {
    if (std::exchange(rows_before, m) == m) return;
    columns_before = 0;
    for (const int64_t columns : kCuts) {
      if (columns > most_columns) break;
      if (w.b_packed) {
        offer(m, whole_panels(panels, w.n, columns));
        continue;
      }
      for (const int64_t unit : {panels.tile_columns, panels.vector_columns})
        offer(m, columns_of(panels, w.n, columns, unit));
    }
  };
  for (const int64_t rows : kCuts)
    for (const bool equal : {false, true})
      offer_rows(rows_of(panels, w.m, rows, equal), most / rows);
  return best;
}

PanelCut RememberedCut::of(const Panels& panels, const PanelWork& w, int threads) const {
  Entry entry = last_.load(std::memory_order_relaxed);
  if (entry.threads != static_cast<uint64_t>(threads) || entry.b_packed != w.b_packed) {
    const PanelCut cut = cut_for(panels, w, threads);
    const int64_t blocks = ceil_div(w.m, cut.m);
    entry = {static_cast<uint64_t>(threads),
             static_cast<uint64_t>(cut.grain),
             w.b_packed,
             static_cast<uint64_t>(blocks),
             cut.m == rows_of(panels, w.m, blocks, true),
             static_cast<uint64_t>(ceil_div(cut.n, panels.vector_columns))};
    last_.store(entry, std::memory_order_relaxed);
  }
  return {rows_of(panels, w.m, static_cast<int64_t>(entry.row_blocks), entry.equal_rows),
          std::min(w.n, static_cast<int64_t>(entry.vectors) * panels.vector_columns),
          static_cast<int64_t>(entry.grain)};
}

}  // namespace tandem::machine::products
