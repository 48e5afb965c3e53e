// Inputs that share memory (alias_of).
#ifndef TANDEM_FUNCTIONALIZE_INPUTS_H
#define TANDEM_FUNCTIONALIZE_INPUTS_H

#include "functionalize/aliases.h"

namespace tandem::functionalize {

/// Declares every input of the rewriter's source. Inputs whose memory overlaps and is written
/// become views of one of them, if that is contiguous and contains the others, else of a buffer
/// that is put together from all (of integers as small as the smallest element, if their dtypes
/// differ). All other inputs stay on their own. Inputs that autograd does not
/// know to share memory share data, but keep their histories.
void declare_inputs(ir::Rewriter& rewriter, Aliases& aliases, History& history);

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_INPUTS_H
