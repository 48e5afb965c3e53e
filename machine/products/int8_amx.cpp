// Products of i8 with AMX: compiled for it, so nothing here may be a function that others share.
//
// Four tiles of sums, of two by two times 16 rows and columns, take two of A's and two of B's for
// each 64 bytes along k. How tiles are configured is said at the start of each product and
// forgotten at its end, since others use them too; between, nothing else runs. Few rows, which are
// as fast as memory is, need no tiles.
#include "machine/products/int8_kernels.h"
#include "machine/products/tile_shapes.h"

namespace tandem::machine::products {
namespace {
constexpr uint8_t kFlip = 0;
constexpr int64_t kRows = 32, kFewIntegerRows = 8;
}  // namespace
}  // namespace tandem::machine::products

#include "machine/products/int8_few.inc"

namespace tandem::machine::products {
namespace {

constexpr int64_t kTile = 16, kTileBytes = kTile * kPart;
constexpr int64_t kRowOfB = kGroup * kColumns, kRowOfSums = 4 * kColumns;  // bytes

int64_t a_panel(int64_t depth) { return parts_of(depth) * kPart * kRows; }

void pack_panel(const Bytes& a, int64_t i, int64_t rows, int64_t l, int64_t depth, int8_t* to) {
  pack_a(a, i, rows, l, depth, kRows, to);
}

/// What the instructions read is written before. (They do not tell the compiler that they read.)
TANDEM_INLINE void finish_writes() { __asm__ volatile("" ::: "memory"); }

/// The sums of `down` times `across` tiles: of [0, 0], [0, 1], [1, 0], [1, 1] in tiles 0 to 3.
template <int down, int across>
TANDEM_INLINE void multiply_parts(const int8_t* a, const int8_t* b, int64_t parts) {
  for (; parts > 0; --parts, a += kRows * kPart, b += kPart * kColumns) {
    _tile_loadd(4, a, kPart);
    _tile_loadd(6, b, kRowOfB);
    _tile_dpbssd(0, 4, 6);
    if (across > 1) {
      _tile_loadd(7, b + kGroup * kTile, kRowOfB);
      _tile_dpbssd(1, 4, 7);
    }
    if (down > 1) {
      _tile_loadd(5, a + kTileBytes, kPart);
      _tile_dpbssd(2, 5, 6);
      if (across > 1) _tile_dpbssd(3, 5, 7);
    }
  }
}

template <int down, int across>
TANDEM_INLINE void load_sums(const int32_t* sums) {
  const int32_t* const below = sums + kTile * kColumns;
  _tile_loadd(0, sums, kRowOfSums);
  if (across > 1) _tile_loadd(1, sums + kTile, kRowOfSums);
  if (down > 1) _tile_loadd(2, below, kRowOfSums);
  if (down > 1 && across > 1) _tile_loadd(3, below + kTile, kRowOfSums);
}
template <int down, int across>
TANDEM_INLINE void store_sums(int32_t* sums) {
  int32_t* const below = sums + kTile * kColumns;
  _tile_stored(0, sums, kRowOfSums);
  if (across > 1) _tile_stored(1, sums + kTile, kRowOfSums);
  if (down > 1) _tile_stored(2, below, kRowOfSums);
  if (down > 1 && across > 1) _tile_stored(3, below + kTile, kRowOfSums);
}

TANDEM_INLINE void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

template <int down, int across>
void tiles(const TileProduct& t, int32_t* sums) {
  finish_writes();
  if (t.adds)
    load_sums<down, across>(sums);
  else
    clear_sums();
  multiply_parts<down, across>(t.a, t.b, t.parts);
  store_sums<down, across>(sums);
}

using Tiles = void (*)(const TileProduct&, int32_t*);
constexpr Tiles kTiles[2][2] = {{tiles<1, 1>, tiles<1, 2>}, {tiles<2, 1>, tiles<2, 2>}};

void multiply_tile(const TileProduct& t, int32_t* sums) {
  kTiles[(t.rows - 1) / kTile][(t.columns - 1) / kTile](t, sums);
}

}  // namespace
}  // namespace tandem::machine::products

#include "machine/products/int8_blocks.inc"

namespace tandem::machine::products {
namespace {

void multiply_with_tiles(const IntegerProduct& p, int32_t* scratch) {
  if (is_few(p)) return multiply_integers(p, scratch);
  _tile_loadconfig(&kTileShapes);
  multiply_integers(p, scratch);
  _tile_release();
}

}  // namespace

const IntegerKernels kIntegersAmx = {kRows,           kColumns,        16 * kRows,
                                     kFewIntegerRows, integer_scratch, multiply_with_tiles};

}  // namespace tandem::machine::products
