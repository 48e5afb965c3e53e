// A functional graph without views, for backends that know no strides.
#ifndef TANDEM_FUNCTIONALIZE_REMOVE_VIEWS_H
#define TANDEM_FUNCTIONALIZE_REMOVE_VIEWS_H

#include "ir/graph.h"

namespace tandem::functionalize {

/// Functional -> Functional. Every view is its `_copy` form, in subgraphs too; results that were
/// views of inputs or of each other are outputs of their own.
ir::Graph remove_views(const ir::Graph& functional);

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_REMOVE_VIEWS_H
