// What each level of a graph may hold.
#ifndef TANDEM_IR_VERIFY_LEVEL_RULES_H
#define TANDEM_IR_VERIFY_LEVEL_RULES_H

#include "ir/graph.h"

namespace tandem::ir {

bool is_core_or_later(Level level);
bool has_both_halves(Level level);

bool may_have_input(Level level, Role role);
bool may_have_output(Level level, Role role);
bool may_have_subgraph(Level level, Level subgraph);

}  // namespace tandem::ir

#endif  // TANDEM_IR_VERIFY_LEVEL_RULES_H
