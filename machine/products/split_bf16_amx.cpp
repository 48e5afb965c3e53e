// Parts of bf16 with AMX and AVX-512: compiled for them, so nothing here may be a function that
// others share.
//
// An f32 has 24 bits, which are those of three bf16 numbers: the nearest one (hi), the first bits
// of the rest (mid), and what is left (lo), exactly. A product of two f32 numbers is then nine of
// parts; the six largest give it up to 2^-24 of itself. Of two parts (mid is rounded) three do, up
// to 2^-16. (Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype
// for higher-precision computations".) Such products are exact in f32, and AMX sums them there.
#include "machine/products/split_bf16_kernels.h"
#include "machine/products/tile_shapes.h"
#include "machine/unroll.h"
#include "machine/vectors/avx512.inc"

namespace tandem::machine::products {
namespace {

using I = __m512i;

// (A tile has as many lines as a vector lanes, and a step as many pairs of k.)
constexpr int64_t kTile = 2 * kLanes * kLanes;    // bf16 numbers
constexpr int64_t kTiles = kSplitLines / kLanes;  // of one part of a step

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// --- Packing

/// Element (line, l) of a source lies at `line * stride + l`, or the other way round.
struct Lines {
  const float* data;
  int64_t stride;
  bool along_k;  // elements of a line side by side
  int64_t lines, depth;

  /// Those from (line, l) on that lie side by side, zeros beyond the last. Number `i` of a block.
  F vector(int64_t line, int64_t l) const {
    const bool exists = line < lines && l < depth;
    const __mmask16 lanes = first_lanes(along_k ? depth - l : lines - line);
    const int64_t at = along_k ? line * stride + l : l * stride + line;
    return exists ? _mm512_maskz_loadu_ps(lanes, data + at) : _mm512_setzero_ps();
  }
  const float* at(int64_t line, int64_t l) const {
    return data + (along_k ? line * stride + l : l * stride + line);
  }
};

Lines rows_of(const SplitSource& a) {
  return {a.operand.data, a.operand.stride, !a.operand.transposed, a.lines, a.depth};
}
Lines columns_of(const SplitSource& b) {
  return {b.operand.data, b.operand.stride, b.operand.transposed, b.lines, b.depth};
}

I high_bits(F x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(~0xFFFF)); }

/// With what the nearest bf16 has in its high bits; ties away from zero.
F half_more(F x) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)));
}

/// The high halves of `a` and `b`, pair by pair.
I high_halves(F a, F b) {
  return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(_mm512_castps_si512(a), 16),
                                 _mm512_castps_si512(b));
}

F rest(F x, F part) { return _mm512_sub_ps(x, _mm512_castsi512_ps(high_bits(part))); }

/// The parts of two vectors as rows of tiles, those of one part `kTiles` tiles from the next's.
template <int parts>
TANDEM_INLINE void store_parts(F a, F b, uint16_t* to) {
  const F hi_a = half_more(a), hi_b = half_more(b);
  _mm512_store_si512(to, high_halves(hi_a, hi_b));
  const F rest_a = rest(a, hi_a), rest_b = rest(b, hi_b);
  if constexpr (parts == 2) {
    _mm512_store_si512(to + kTiles * kTile, high_halves(half_more(rest_a), half_more(rest_b)));
  } else {
    _mm512_store_si512(to + kTiles * kTile, high_halves(rest_a, rest_b));
    _mm512_store_si512(to + 2 * kTiles * kTile,
                       high_halves(rest(rest_a, rest_a), rest(rest_b, rest_b)));
  }
}

TANDEM_INLINE I larger(I most, F x) {
  return _mm512_max_epu32(most,
                          _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF)));
}

/// One tile of each part: sixteen lines from `line` on, k from `l` on. Row r of a tile of A is a
/// line, of B a pair of k; pair r is k = l + r and l + r + 16, in both alike.
template <int parts, bool rows_are_lines>
TANDEM_INLINE void store_tiles(const Lines& x, int64_t line, int64_t l, uint16_t* to, I& most) {
  F halves[2][kLanes];
  TANDEM_UNROLL for (int64_t h = 0; h < 2; ++h) {
    const int64_t from = l + h * kLanes;
    TANDEM_UNROLL for (int64_t r = 0; r < kLanes; ++r) halves[h][r] =
        x.along_k ? x.vector(line + r, from) : x.vector(line, from + r);
    if (x.along_k != rows_are_lines) transpose(halves[h]);
  }
  TANDEM_UNROLL for (int64_t r = 0; r < kLanes; ++r) {
    most = larger(larger(most, halves[0][r]), halves[1][r]);
    store_parts<parts>(halves[0][r], halves[1][r], to + r * 2 * kLanes);
  }
}

/// (As bits, infinity and NaN are larger than any number.)
float largest(I most) {
  uint32_t lanes[kLanes], all = 0;
  _mm512_storeu_si512(lanes, most);
  for (const uint32_t lane : lanes) all = lane > all ? lane : all;
  float number;
  __builtin_memcpy(&number, &all, sizeof(number));
  return number;
}

/// `count` panels from number `first` on, step by step, so that lines which lie across are read in
/// long pieces.
template <int parts, bool rows_are_lines>
void split_together(const Lines& x, int64_t first, int64_t count, const SplitPanels& to) {
  I most[kSplitPanels];
  for (I& m : most) m = _mm512_setzero_si512();
  for (int64_t l = 0; l < x.depth; l += kSplitStep)
    for (int64_t p = first; p < first + count; ++p)
      for (int64_t t = 0; t < kTiles; ++t)
        store_tiles<parts, rows_are_lines>(
            x, p * kSplitLines + t * kLanes, l,
            to.data + p * to.size + (l / kSplitStep * parts * kTiles + t) * kTile, most[p]);
  for (int64_t p = first; p < first + count; ++p) to.largest[p] = largest(most[p]);
}

template <int parts, bool rows_are_lines>
void split(const Lines& x, const SplitPanels& to) {
  const int64_t panels = (x.lines + kSplitLines - 1) / kSplitLines;
  const int64_t together = x.along_k ? 1 : panels;
  for (int64_t p = 0; p < panels; p += together)
    split_together<parts, rows_are_lines>(x, p, together, to);
}

// --- Tiles

/// Sums [kSplitLines, kSplitLines] lie in tiles 0 to 3; 4 and 5 hold lines of A, 6 and 7 of B.
void load_a(const uint16_t* part) {
  _tile_loadd(4, part, 64);
  _tile_loadd(5, part + kTile, 64);
}
void load_b(const uint16_t* part) {
  _tile_loadd(6, part, 64);
  _tile_loadd(7, part + kTile, 64);
}
void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

/// Adds a step's products of parts, the small ones first, in an order that loads one side at a
/// time.
template <int parts>
TANDEM_INLINE void add_step(const uint16_t* a, const uint16_t* b) {
  constexpr int64_t kPart = kTiles * kTile;
  if constexpr (parts == 3) {
    load_a(a), load_b(b + 2 * kPart), add_products();
    load_b(b + kPart), add_products();
    load_a(a + kPart), add_products();
    load_b(b), add_products();
    load_a(a + 2 * kPart), add_products();
  } else {
    load_a(a), load_b(b + kPart), add_products();
    load_a(a + kPart), load_b(b), add_products();
  }
  load_a(a), add_products();
}

template <int parts>
void multiply_parts(const SplitTile& x, float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  constexpr int64_t kStep = parts * kTiles * kTile;
  const int64_t size = split_panel(x.a.depth, parts);
  _Pragma("GCC unroll 4") for (int64_t at = 0; at < size; at += kStep)
      add_step<parts>(x.a_panel + at, x.b_panel + at);
  constexpr int64_t kRow = kSplitLines * sizeof(float);
  _tile_stored(0, sums, kRow);
  _tile_stored(1, sums + kLanes, kRow);
  _tile_stored(2, sums + kLanes * kSplitLines, kRow);
  _tile_stored(3, sums + kLanes * kSplitLines + kLanes, kRow);
}

/// Sixteen rows and columns, as f32 numbers.
void multiply_exactly(const Lines& a, int64_t i, const Lines& b, int64_t j, float* sums) {
  F rows[kLanes], columns[kLanes];
  TANDEM_UNROLL for (F& row : rows) row = _mm512_setzero_ps();
  for (int64_t l = 0; l < a.depth; l += kLanes) {
    for (int64_t r = 0; r < kLanes; ++r)
      columns[r] = b.along_k ? b.vector(j + r, l) : b.vector(j, l + r);
    if (b.along_k) transpose(columns);
    for (int64_t r = 0; r < least(kLanes, a.depth - l); ++r)
      TANDEM_UNROLL for (int64_t k = 0; k < kLanes; ++k) if (i + k < a.lines) rows[k] =
          _mm512_fmadd_ps(_mm512_set1_ps(*a.at(i + k, l + r)), columns[r], rows[k]);
  }
  for (int64_t k = 0; k < kLanes; ++k) _mm512_storeu_ps(sums + k * kSplitLines, rows[k]);
}

void multiply_exactly(const SplitTile& x, float* sums) {
  const Lines a = rows_of(x.a), b = columns_of(x.b);
  for (int64_t i = 0; i < kSplitLines; i += kLanes)
    for (int64_t j = 0; j < kSplitLines; j += kLanes)
      multiply_exactly(a, i, b, j, sums + i * kSplitLines + j);
}

void store(const SplitTile& x, const float* sums) {
  for (int64_t i = 0; i < x.a.lines; ++i)
    for (int64_t j = 0; j < x.b.lines; j += kLanes) {
      const __mmask16 lanes = first_lanes(x.b.lines - j);
      F sum = _mm512_loadu_ps(sums + i * kSplitLines + j);
      if (x.start != nullptr)
        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, x.start + i * x.start_stride + j), sum);
      _mm512_mask_storeu_ps(x.c + i * x.c_stride + j, lanes, sum);
    }
}

}  // namespace

void split_rows(const SplitSource& a, int parts, const SplitPanels& to) {
  (parts == 3 ? split<3, true> : split<2, true>)(rows_of(a), to);
}

void split_columns(const SplitSource& b, int parts, const SplitPanels& to) {
  (parts == 3 ? split<3, false> : split<2, false>)(columns_of(b), to);
}

SplitTiles::SplitTiles() { _tile_loadconfig(&kTileShapes); }

SplitTiles::~SplitTiles() { _tile_release(); }

void SplitTiles::multiply(const SplitTile& tile, int parts) const {
  alignas(64) float sums[kSplitLines * kSplitLines];
  if (tile.in_parts)
    (parts == 3 ? multiply_parts<3> : multiply_parts<2>)(tile, sums);
  else
    multiply_exactly(tile, sums);
  store(tile, sums);
}

}  // namespace tandem::machine::products
