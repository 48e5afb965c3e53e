// Sums of columns, and loops over rows that make them.
#ifndef TANDEM_CODEGEN_KERNELS_COLUMN_SUMS_H
#define TANDEM_CODEGEN_KERNELS_COLUMN_SUMS_H

#include <algorithm>
#include <vector>

#include "codegen/loops/kernel.h"

namespace tandem::codegen {

/// local[column] = local[column] + x, row by row: instructions.
struct ColumnSum {
  size_t load = 0, add = 0, store = 0;
  Combine combine = Combine::Sum;
};

/// A Serial loop over rows.
struct Rows {
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

/// The rows of the Serial loop that begins with instruction `begin`; their sums are still to find.
Rows rows_at(const Kernel& kernel, size_t begin);
std::vector<ColumnSum> column_sums(const Kernel& kernel, const Rows& rows);

/// Whether the access, inside of the rows, is of a local at a place that is the same in all of
/// them.
bool holds_row(const Kernel& kernel, const Rows& rows, const Access& access);

/// Whether the rows use the local for one sum alone, which begins outside of all loops.
bool holds_only_sum(const Kernel& kernel, const Rows& rows, LocalId local);

/// `kernel` with sums of a few columns as accumulators. A loop over rows that only computes
/// elements and adds them up, of rows that `vector_bytes` long registers hold, becomes a Serial
/// loop inside of that over the columns: a sum in a local would have to be stored and loaded again
/// before the next row can be added to it, five times as long as the addition takes. Results have
/// the same bits.
Kernel with_column_sums_in_registers(Kernel kernel, int vector_bytes);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_COLUMN_SUMS_H
