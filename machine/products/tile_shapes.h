// How tiles of AMX are configured by whoever uses them.
#ifndef TANDEM_MACHINE_PRODUCTS_TILE_SHAPES_H
#define TANDEM_MACHINE_PRODUCTS_TILE_SHAPES_H

#include <cstdint>

namespace tandem::machine::products {

/// Of ldtilecfg: eight tiles of sixteen rows of 64 bytes. (It lies in memory as a whole: GCC knows
/// of the first word only that the intrinsic reads it.)
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
inline constexpr TileShapes kTileShapes;

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_TILE_SHAPES_H
