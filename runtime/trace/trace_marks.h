// Checkpoint regions of a trace (checkpoint.cpp).
#ifndef TANDEM_RUNTIME_TRACE_TRACE_MARKS_H
#define TANDEM_RUNTIME_TRACE_TRACE_MARKS_H

#include "ir/graph.h"

namespace tandem::runtime {

/// Gives a recorded equation the thread's checkpoint region and what its policy says.
void mark_for_partition(ir::Equation& e);

/// A region number that no equation of `graph` has.
inline uint32_t next_region(const ir::Graph& graph) {
  uint32_t last = 0;
  for (const ir::Equation& e : graph.equations()) last = e.region > last ? e.region : last;
  return last + 1;
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRACE_TRACE_MARKS_H
