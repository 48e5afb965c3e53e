// What operations on positions in data are made of.
#ifndef TANDEM_RUNTIME_OPS_POSITIONS_H
#define TANDEM_RUNTIME_OPS_POSITIONS_H

#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {

/// Positions in [-size, size) as [0, size); what lies outside stays outside.
V wrapped(Call& c, V index, Dim size);

/// Positions [k] (or one, []) along `dim`, for a src of `part` sizes.
V along(Call& c, V index, const Shape& part, int dim);

/// The sum of each number of a vector and those before it.
V running_sum(Call& c, V numbers);

/// How many elements up to and with each are true, in row-major order: [n].
V counts(Call& c, V mask);

/// As ATen, what such a write reads lies elsewhere.
void require_apart(const Tensor& self, std::initializer_list<const Tensor*> read,
                   Sharing allowed = Sharing::Nothing);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_POSITIONS_H
