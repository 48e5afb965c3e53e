// Branches and loops inside a trace: equations of it.
#ifndef TANDEM_RUNTIME_CONTROL_RECORD_H
#define TANDEM_RUNTIME_CONTROL_RECORD_H

#include <tandem/control_flow.h>

#include "ir/graph.h"

namespace tandem::control {

/// `t`, one number, as a bool without dimensions. Error{Shape} otherwise.
Tensor as_predicate(const Tensor& t, const char* who);
/// Error{Shape} unless a carry comes out of `who`'s body as it went in.
void check_carries(const char* who, const std::vector<ir::Type>& expected,
                   const std::vector<ir::Type>& got);

Tensors record_cond(const Tensor& pred, Body then, Body otherwise);
Tensors record_while(Condition condition, Body body, const Tensors& carries);
/// A scan of `max_steps` steps, each a cond.
Tensors record_bounded_while(Condition condition, Body body, const Tensors& carries,
                             int64_t max_steps);
/// `tensors`: carries, then xs, of `length` slices each.
Tensors record_scan(Body body, const Tensors& tensors, size_t carries, int64_t length,
                    bool reverse);

}  // namespace tandem::control

#endif  // TANDEM_RUNTIME_CONTROL_RECORD_H
