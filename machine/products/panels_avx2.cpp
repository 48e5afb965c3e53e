// Panels with AVX2 and FMA: compiled for them, so nothing here may be a function that others share.
#include <array>
#include <utility>

#include "machine/products/panels.h"
#include "machine/unroll.h"
#include "machine/vectors/avx2.inc"

namespace tandem::machine::products {
namespace {

constexpr int64_t kVectors = 2;
constexpr int64_t kRows = 6, kColumns = kVectors * kLanes;  // of a tile, and of panels at most
constexpr int64_t kDepth = 256;                             // of a part of k, at most
constexpr int64_t kBlockRows = 44 * kRows;                  // of A, that are packed together
// A is read where it lies by products of so few columns if it is stored by rows; if by columns,
// see near_of.
constexpr int64_t kFewByRows = 16 * kColumns;
constexpr int64_t kNear = 256, kNearCrowded = 256, kNearCrowdedThin = 256;
constexpr int64_t kWide = 1024;     // columns of B whose panels are kept for the rows that follow
constexpr int64_t kAhead = 8;       // rows that are fetched early
constexpr int64_t kTurn = 16;       // steps of a tile for which a row is fetched
constexpr int kTogetherInDots = 2;  // of few lines, that registers hold the sums of

constexpr PanelRates kRates = {.multiply = 1 / 64.0,
                               .tile = 7,
                               .read_a = 0.02,
                               .fetch_a = 0.08,
                               .pack_rows = 0.1,
                               .pack_columns = 0.2,
                               .pack_b = 0.1,
                               .pack_transposed_b = 0.12};

/// Rows of a transposed A that are packed together.
constexpr int kFewTogether = 4, kTogether = 4;
bool packs_few_together() { return false; }

/// Of those, kRows columns, side by side.
template <int together>
TANDEM_INLINE void pack_together(const float* from, int64_t stride, float* to) {
  static_assert(together == 4);
  const __m256i first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 0, 1),
                second = _mm256_setr_epi32(2, 3, 4, 5, 0, 1, 2, 3),
                third = _mm256_setr_epi32(4, 5, 0, 1, 2, 3, 4, 5);
  F x[together];
  TANDEM_UNROLL for (int r = 0; r < together; ++r) {
    __builtin_prefetch(from + (r + kAhead) * stride);
    x[r] = load_below(from + r * stride, kRows);
  }
  const F low = _mm256_permutevar8x32_ps(x[1], second),
          high = _mm256_permutevar8x32_ps(x[2], third);
  _mm256_storeu_ps(to, _mm256_blend_ps(x[0], _mm256_permutevar8x32_ps(x[1], first), 0xC0));
  _mm256_storeu_ps(to + kLanes, _mm256_blend_ps(low, _mm256_permutevar8x32_ps(x[2], second), 0xF0));
  _mm256_storeu_ps(to + 2 * kLanes,
                   _mm256_blend_ps(high, _mm256_permutevar8x32_ps(x[3], third), 0xFC));
}

#include "machine/products/panels.inc"

}  // namespace

const Panels kPanelsAvx2 = kPanels;

}  // namespace tandem::machine::products
