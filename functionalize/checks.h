// What data makes fail, fails also where nobody reads the result.
#ifndef TANDEM_FUNCTIONALIZE_CHECKS_H
#define TANDEM_FUNCTIONALIZE_CHECKS_H

#include "ir/build/builder.h"

namespace tandem::functionalize {

/// Gives the graph one more output, which is no result, if equations that data can make fail are
/// dead: it needs their indices and divisions, and of tables and sources nothing.
void keep_checks(ir::Graph& graph);

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_CHECKS_H
