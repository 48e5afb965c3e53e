// User passes: functions from graph to graph that run at named points of the pipeline.
#ifndef TANDEM_IR_INTERFACES_PASS_H
#define TANDEM_IR_INTERFACES_PASS_H

#include <tandem/ir/graph.h>

#include <functional>
#include <string>

namespace tandem::ir {

/// Where a pass runs, and so the level of the graph that it gets and must give back.
enum class PassPoint : uint8_t {
  Functional,  // before differentiation: what it changes is differentiated
  Joint,       // after differentiation, composites still whole
  Core,        // before the partition, after every pass of ours
  Forward,     // each half after the partition: here a pass must keep every bit
  Backward,
};

/// The level of the graphs at `point`.
constexpr Level level_of(PassPoint point) {
  constexpr Level kLevels[] = {Level::Functional, Level::Joint, Level::Core, Level::Forward,
                               Level::Backward};
  return kLevels[static_cast<size_t>(point)];
}

struct GraphPass {
  std::string name;
  PassPoint point = PassPoint::Functional;
  /// Keeps inputs and outputs (number, order, types, roles); the result is verified.
  std::function<Graph(const Graph&)> run;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_INTERFACES_PASS_H
