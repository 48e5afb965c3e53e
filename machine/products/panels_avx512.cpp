// Panels with AVX-512: compiled for it, so nothing here may be a function that others share.
#include <immintrin.h>

#include <array>
#include <utility>

#include "machine/products/panels.h"
#include "machine/products/unroll.h"

namespace tandem::machine::products {
namespace {

using F = __m512;

constexpr int64_t kLanes = 16, kVectors = 3;
constexpr int64_t kRows = 9, kColumns = kVectors * kLanes;  // of a tile, and of panels at most
constexpr int64_t kDepth = 512;                             // of a part of k, at most
constexpr int64_t kBlockRows = 24 * kRows;                  // of A, that are packed together
constexpr int64_t kFewColumns = 8 * kColumns;
constexpr int64_t kWide = 21 * kColumns;  // of B, whose panels are kept for the rows that follow
constexpr int64_t kAhead = 8;             // rows that are fetched early
constexpr int64_t kTurn = 16;             // steps of a tile for which a row is fetched
constexpr int64_t kTogether = 4;          // rows of a transposed A that are packed together

TANDEM_INLINE F zero() { return _mm512_setzero_ps(); }
TANDEM_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
TANDEM_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
TANDEM_INLINE F broadcast(float x) { return _mm512_set1_ps(x); }
TANDEM_INLINE F add(F x, F y) { return _mm512_add_ps(x, y); }
TANDEM_INLINE F fma(F x, F y, F z) { return _mm512_fmadd_ps(x, y, z); }

/// The lanes below `count`, zeros beyond.
TANDEM_INLINE F load_below(const float* p, int64_t count) {
  if (count >= kLanes) return load(p);
  return _mm512_maskz_loadu_ps(count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1), p);
}

/// Blocks of four lanes 0 and 2 of x and of y, or 1 and 3.
TANDEM_INLINE F even_blocks(F x, F y) { return _mm512_shuffle_f32x4(x, y, 0x88); }
TANDEM_INLINE F odd_blocks(F x, F y) { return _mm512_shuffle_f32x4(x, y, 0xDD); }

/// 16 rows of 16 become 16 columns.
TANDEM_INLINE void transpose(F* x) {
  F t[16];
  TANDEM_UNROLL for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]);
  }
  TANDEM_UNROLL for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    x[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
    x[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    x[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  // (Of rows i to i + 3, x[i + c] has columns c, 4 + c, 8 + c and 12 + c, a block each.)
  TANDEM_UNROLL for (int c = 0; c < 4; ++c) {
    t[c] = even_blocks(x[c], x[4 + c]);
    t[4 + c] = odd_blocks(x[c], x[4 + c]);
    t[8 + c] = even_blocks(x[8 + c], x[12 + c]);
    t[12 + c] = odd_blocks(x[8 + c], x[12 + c]);
  }
  TANDEM_UNROLL for (int c = 0; c < 4; ++c) {
    x[c] = even_blocks(t[c], t[8 + c]);
    x[4 + c] = even_blocks(t[4 + c], t[12 + c]);
    x[8 + c] = odd_blocks(t[c], t[8 + c]);
    x[12 + c] = odd_blocks(t[4 + c], t[12 + c]);
  }
}

/// Rows of a panel of A: of what each is too long, the next overwrites.
TANDEM_INLINE void store_rows(const F* x, float* to) {
  TANDEM_UNROLL for (int r = 0; r < kTogether; ++r) store(to + r * kRows, x[r]);
}

#include "machine/products/panels.inc"

}  // namespace

const Panels kPanelsAvx512 = kPanels;

}  // namespace tandem::machine::products
