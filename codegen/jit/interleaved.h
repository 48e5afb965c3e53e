// Interleaved accesses: those of a Vector loop that take every n-th element, i.e. a column of
// narrow rows that lie one after the other. Whole vectors of rows are loaded and sorted, or sorted
// and stored, for all columns together.
#ifndef TANDEM_CODEGEN_JIT_INTERLEAVED_H
#define TANDEM_CODEGEN_JIT_INTERLEAVED_H

#include <cstdint>
#include <vector>

#include "codegen/loops/kernel.h"

namespace tandem::jit {

/// Loads, or stores, of columns of the same rows, between which nothing is done to these.
struct Interleaved {
  std::vector<size_t> members;   // instructions, ascending
  std::vector<int64_t> columns;  // of each, from the first of them on
  int64_t first = 0;             // the offset of column 0
  int64_t stride = 0;            // from a row to the next
  int64_t width = 0;             // the last column and one
  bool stores = false;
  bool whole = false;  // the members' columns are all that lies between rows
};

/// Whether the access may be one of these: then code has to know its offset.
bool may_interleave(const codegen::Kernel& kernel, const codegen::Access& access);

/// Those of the Vector loop [begin, end).
std::vector<Interleaved> interleaved(const codegen::Kernel& kernel, size_t begin, size_t end);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_INTERLEAVED_H
