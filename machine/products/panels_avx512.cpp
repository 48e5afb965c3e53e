// Panels with AVX-512: compiled for it, so nothing here may be a function that others share.
#include <array>
#include <utility>

#include "machine/cpu.h"
#include "machine/products/panels.h"
#include "machine/unroll.h"
#include "machine/vectors/avx512.inc"

namespace tandem::machine::products {
namespace {

constexpr int64_t kVectors = 3;
constexpr int64_t kRows = 9, kColumns = kVectors * kLanes;  // of a tile, and of panels at most
constexpr int64_t kDepth = 512;                             // of a part of k, at most
constexpr int64_t kBlockRows = 32 * kRows;                  // of A, that are packed together
// A is read where it lies by products of so few columns if it is stored by rows; if by columns,
// see near_of. (From some 470 products on a Xeon with AMX, 2026-11.)
constexpr int64_t kFewByRows = 8 * kColumns;
constexpr int64_t kNear = 2048, kNearCrowded = 1024, kNearCrowdedThin = 256;
constexpr int64_t kWide = 23 * kColumns;  // of B, whose panels are kept for the rows that follow
constexpr int64_t kAhead = 8;             // rows that are fetched early
constexpr int64_t kTurn = 16;             // steps of a tile for which a row is fetched
constexpr int kTogetherInDots = 4;        // of few lines, that registers hold the sums of

// (From fits to some 500 products each on a Xeon with AMX, 2026-11, between operands in near
// caches, mean error 9%, and far ones, 12%. So are AVX2's.)
constexpr PanelRates kRates = {.multiply = 1 / 135.0,
                               .tile = 5,
                               .read_a = 0.085,
                               .fetch_a = 0.12,
                               .pack_rows = 0.12,
                               .pack_columns = 0.13,
                               .pack_b = 0.1,
                               .pack_transposed_b = 0.15};

/// Of so many rows of a transposed A, kRows columns: whole vectors, each of which two or three rows
/// share. What the last is too long, the next overwrites.
template <int together>
TANDEM_INLINE void pack_together(const float* from, int64_t stride, float* to) {
  constexpr int kAll = together * kRows;
  TANDEM_UNROLL for (int at = 0; at < kAll; at += kLanes) {
    F x = zero();
    const int end = at + kLanes < kAll ? at + kLanes : kAll;
    TANDEM_UNROLL for (int r = at / kRows; r * kRows < end; ++r) {
      const int first = r * kRows - at;  // lane of the row's first element
      const auto own = static_cast<__mmask16>(first < 0 ? (1 << (kRows + first)) - 1
                                                        : ((1 << kRows) - 1) << first);
      x = _mm512_mask_loadu_ps(x, own, from + r * stride - first);
    }
    store(to + at, x);
  }
}

/// How many are packed together. A line is read for two tiles or three, and lines 4 KiB apart share
/// a set of the first-level cache. (Rows 4 KiB apart, ns an element: 8 together 0.13, 16 together
/// 0.4, where a set has 8 ways, Zen 4; other rows 0.12 to 0.13 and 0.13 to 0.2. Where it has 12, a
/// Xeon with AMX, 16 take 0.8 to 0.9 of the time of 8. 2026-11.)
constexpr int kFewTogether = 8, kTogether = 16;
bool packs_few_together() {
  const int64_t ways = first_level_ways();
  return ways > 0 && ways <= kFewTogether;
}

#include "machine/products/panels.inc"

}  // namespace

const Panels kPanelsAvx512 = kPanels;

}  // namespace tandem::machine::products
