// Products of small matrices and of vectors that are made without a library.
#ifndef TANDEM_CODEGEN_CONTRACTIONS_VECTOR_PRODUCTS_H
#define TANDEM_CODEGEN_CONTRACTIONS_VECTOR_PRODUCTS_H

#include "ir/graph.h"

namespace tandem::codegen {

/// Sums of few products with a small matrix, and a column by a row, as products of elements, which
/// fuse with what is around them. A matrix times a vector, if no library makes it, or that would
/// read a copy of the matrix, or takes longer, as a reduction of products, along whichever dim lies
/// in memory: in lanes, in parts that threads share, and fused as well. Those of halves are summed
/// in f32, and rounded once. (As library products those of halves would read a widened copy of the
/// matrix.)
ir::Graph with_vector_products(ir::Graph core);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_CONTRACTIONS_VECTOR_PRODUCTS_H
