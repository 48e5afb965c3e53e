// Views that exchange the last two dims: matrices with rows as columns.
#ifndef TANDEM_CODEGEN_CONTRACTIONS_TRANSPOSITION_H
#define TANDEM_CODEGEN_CONTRACTIONS_TRANSPOSITION_H

#include <span>

#include "ir/build/rewrite.h"

namespace tandem::codegen {

/// Whether `dims` exchanges the last two dims and nothing else.
bool is_transposition(std::span<const ir::Axis> dims);

/// The transposition of `v` by `dims`; of one that was transposed: what it was.
ir::ValueId transposed(ir::Splicer& splicer, ir::ValueId v, const ir::Axes& dims);
/// By those of all matrices of a batch.
ir::ValueId transposed(ir::Splicer& splicer, ir::ValueId v);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_CONTRACTIONS_TRANSPOSITION_H
