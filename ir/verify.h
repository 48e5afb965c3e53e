// The specification of each level, as a check.
#ifndef TANDEM_IR_VERIFY_H
#define TANDEM_IR_VERIFY_H

#include <string_view>

#include "export.h"
#include "graph.h"

namespace tandem::ir {

/// Throws Error{Graph} that names the equation and prints its surroundings if `graph` breaks a rule
/// of its level.
TANDEM_API void verify(const Graph& graph);

/// verify(), but what it finds is Tandem's own fault: throws InternalError that names the pass.
/// Called after every pass in tests, in dev builds and with TANDEM_VERIFY=1.
void verify_after(std::string_view pass, const Graph& graph);

/// Whether passes are verified in this process.
bool verification_enabled();

}  // namespace tandem::ir

#endif  // TANDEM_IR_VERIFY_H
