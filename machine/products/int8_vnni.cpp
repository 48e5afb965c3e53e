// Products of i8 with AVX-512 and VNNI: compiled for them, so nothing here may be a function that
// others share. B's bytes are taken as 128 more than they are (int8_few.inc); a tile of 12 rows and
// two vectors is summed in registers, which starts at what is too much by that.
#include "machine/products/int8_kernels.h"

namespace tandem::machine::products {
namespace {
constexpr uint8_t kFlip = 0x80;
constexpr int64_t kRows = 12, kFewIntegerRows = 16;
}  // namespace
}  // namespace tandem::machine::products

#include "machine/products/int8_few.inc"

namespace tandem::machine::products {
namespace {

constexpr int64_t kOffsets = 64;  // bytes before a panel of A, of what its rows' sums begin with

int64_t a_panel(int64_t depth) { return kOffsets + parts_of(depth) * kPart * kRows; }

void pack_panel(const Bytes& a, int64_t i, int64_t rows, int64_t l, int64_t depth, int8_t* to) {
  int8_t* const panel = to + kOffsets;
  pack_a(a, i, rows, l, depth, kRows, panel);
  const I all = _mm512_set1_epi8(static_cast<char>(0x80));
  I sums[kRows];
  for (I& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t part = 0; part < parts_of(depth); ++part)
    TANDEM_UNROLL for (int64_t r = 0; r < kRows; ++r) sums[r] =
        _mm512_dpbusd_epi32(sums[r], all, _mm512_load_si512(panel + (part * kRows + r) * kPart));
  auto* const offsets = reinterpret_cast<int32_t*>(to);
  for (int64_t r = 0; r < kRows; ++r) offsets[r] = offset_of(sums[r]);
}

/// 64 bytes of each row, with those of the columns.
template <int rows>
TANDEM_INLINE void add_part(const int8_t* a, const int8_t* b, I (&sums)[rows][2]) {
  TANDEM_UNROLL for (int64_t g = 0; g < kPart; g += kGroup, b += kGroup * kColumns) {
    const I low = _mm512_load_si512(b), high = _mm512_load_si512(b + kGroup * kLanes);
    TANDEM_UNROLL for (int r = 0; r < rows; ++r) {
      int32_t group;
      __builtin_memcpy(&group, a + r * kPart + g, sizeof(group));
      const I row = _mm512_set1_epi32(group);
      sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], low, row);
      sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], high, row);
    }
  }
}

template <int rows>
void tile(const TileProduct& t, int32_t* out) {
  const auto* const offsets = reinterpret_cast<const int32_t*>(t.a);
  const int8_t *a = t.a + kOffsets, *b = t.b;
  I sums[rows][2];
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) sums[r][0] = sums[r][1] =
      _mm512_set1_epi32(offsets[r]);
  for (int64_t part = 0; part < t.parts; ++part, a += kRows * kPart, b += kPart * kColumns)
    add_part<rows>(a, b, sums);
  TANDEM_UNROLL for (int r = 0; r < rows; ++r) for (int h = 0; h < 2; ++h) {
    int32_t* const to = out + r * kColumns + kLanes * h;
    const I before = t.adds ? _mm512_load_si512(to) : _mm512_setzero_si512();
    _mm512_store_si512(to, _mm512_add_epi32(before, sums[r][h]));
  }
}

using Tile = void (*)(const TileProduct&, int32_t*);
constexpr Tile kTiles[] = {tile<1>, tile<2>, tile<3>, tile<4>,  tile<5>,  tile<6>,
                           tile<7>, tile<8>, tile<9>, tile<10>, tile<11>, tile<12>};

void multiply_tile(const TileProduct& t, int32_t* sums) { kTiles[t.rows - 1](t, sums); }

}  // namespace
}  // namespace tandem::machine::products

#include "machine/products/int8_blocks.inc"

namespace tandem::machine::products {
const IntegerKernels kIntegersVnni = {kRows,           kColumns,        22 * kRows,
                                      kFewIntegerRows, integer_scratch, multiply_integers};
}
