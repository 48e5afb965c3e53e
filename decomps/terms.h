// Sums of two as decompositions write them: of halves in f32, between converts. Internal.
#ifndef TANDEM_DECOMPS_TERMS_H
#define TANDEM_DECOMPS_TERMS_H

#include <vector>

#include "ir/graph.h"

namespace tandem::decomps {

/// A term of a sum. A half's is widened for it, `widened`: then that is what the sum reads.
struct Term {
  ir::ValueId value, widened;
};

using Terms = std::vector<Term>;

/// What `v` is the sum of. None if it is no sum.
Terms terms_of(const ir::Graph& g, ir::ValueId v);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_TERMS_H
