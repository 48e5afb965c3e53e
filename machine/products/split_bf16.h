// Products of f32 matrices on AMX, which multiplies bf16: each f32 number is split into two or
// three bf16 numbers, and the largest products of these parts are summed in f32.
#ifndef TANDEM_MACHINE_PRODUCTS_SPLIT_BF16_H
#define TANDEM_MACHINE_PRODUCTS_SPLIT_BF16_H

#include <cstdint>

#include "machine/memory/arena.h"
#include "machine/products/panels.h"

namespace tandem::machine::products {

/// Whether products of these sizes and `parts` are computed so on this processor: it has AMX, and
/// they are large enough to be faster than by f32 arithmetic.
bool splits(int64_t m, int64_t n, int64_t k, int parts);

/// Working memory of products of these sizes, one after the other. Throws Error (out_of_memory).
struct SplitMemory {
  SplitMemory(int64_t m, int64_t k, int parts);
  ArenaLease lease;
  int threads;  // that may work in it
};

/// The product, by the pool. Of three parts six products are summed (about 2^-24 of a number is
/// lost), of two parts three (2^-16). For 32 rows of A and 32 columns of B (and a part of k) of
/// which a number is infinite, NaN or above 2^60, or all are below 2^-70, or all products below
/// 2^-80, f32 numbers are multiplied instead. So an element differs from the exact sum by less than
/// 2^-21, or 2^-15, for the parts and k 2^-24 for the sum, times the sum of magnitudes; and by
/// k 2^-40 times the largest product among these rows and columns, since AMX takes parts and
/// products below 2^-126 for zero. Its bits depend on its row and column, and on the magnitudes of
/// those beside them, alone.
void multiply_split(const Product& product, int parts, const SplitMemory& memory);

}  // namespace tandem::machine::products

#endif  // TANDEM_MACHINE_PRODUCTS_SPLIT_BF16_H
