// Constants, and arithmetic on them: only what is exact or rounded once, so that folding changes no
// bit.
#ifndef TANDEM_DECOMPS_FOLD_H
#define TANDEM_DECOMPS_FOLD_H

#include <optional>
#include <span>

#include "ir/graph.h"

namespace tandem::decomps {

/// The one value of all elements of `v`, as its dtype holds it, if a `full` makes it.
std::optional<ir::Number> constant(const ir::Graph& graph, ir::ValueId v);
/// Whether that is `number`.
bool is_constant(const ir::Graph& graph, ir::ValueId v, const ir::Number& number);

/// Whether fold knows `op`.
bool can_fold(ir::Op op);

/// `op` of constants of dtype `operand`, rounded to `result`; none if it cannot be folded exactly.
std::optional<ir::Number> fold(ir::Op op, std::span<const ir::Number> values, ir::DType operand,
                               ir::DType result);

/// Whether every value of dtype `from` is also one of dtype `to`.
bool holds_exactly(ir::DType to, ir::DType from);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_FOLD_H
