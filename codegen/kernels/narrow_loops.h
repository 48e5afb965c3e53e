// Loops over narrow rows: those of a few columns (positions in space, classes, quaternions), of
// which a vector along the columns would be mostly empty.
#ifndef TANDEM_CODEGEN_KERNELS_NARROW_LOOPS_H
#define TANDEM_CODEGEN_KERNELS_NARROW_LOOPS_H

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/loops/kernel.h"

namespace tandem::codegen {

/// local[column] = local[column] + x, row by row: instructions.
struct ColumnSum {
  size_t load = 0, add = 0, store = 0;
  Combine combine = Combine::Sum;
};

/// A Serial loop over rows that can run along them, and is faster so.
struct NarrowRows {
  size_t begin = 0, end = 0;  // its LoopBegin and LoopEnd
  LoopId loop;
  std::vector<ColumnSum> sums;

  bool contains(size_t instruction) const { return instruction > begin && instruction < end; }
  bool is_part_of_sum(size_t instruction) const {
    return std::ranges::any_of(sums, [&](const ColumnSum& s) {
      return instruction == s.load || instruction == s.add || instruction == s.store;
    });
  }
};

/// Whether the access, inside of the rows, is of a local at a place that is the same in all of
/// them.
bool holds_row(const Kernel& kernel, const NarrowRows& rows, const Access& access);

/// The first loop of `kernel` over narrow rows. Its rows are independent of each other but for the
/// sums of columns.
std::optional<NarrowRows> find_narrow_rows(const Kernel& kernel, int vector_bytes);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_NARROW_LOOPS_H
