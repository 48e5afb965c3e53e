// How the values of a Traced graph lie in memory.
#ifndef TANDEM_FUNCTIONALIZE_LAYOUTS_H
#define TANDEM_FUNCTIONALIZE_LAYOUTS_H

#include "ir/graph.h"

namespace tandem::functionalize {

/// The strides that eager gives each value: those of its inputs, from equation to equation.
ir::ValueMap<ir::Strides> traced_strides(const ir::Graph& traced);

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_LAYOUTS_H
