// The graph is cut in two at its turn, split as any joint graph, and put together again.
#include "partition/step.h"

#include <algorithm>

#include "ir/build/inline.h"
#include "partition/analysis.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::OpClass;
using ir::ValueId;

/// What is returned, and what that is computed from element by element: gradients and their
/// updates. They are held until the updates run, which may be at once.
ir::ValueMap<bool> updates_of(const Analysis& a) {
  ir::ValueMap<bool> updates(a.graph);
  for (const ir::Output& output : a.graph.outputs()) updates[output.value] = true;
  for (size_t i = a.graph.num_equations(); i-- > 0;) {
    const EquationId e = a.graph.equation_id(i);
    const ValueId result = a.graph.result(e);
    if (!updates[result] || (a.cls(e) != OpClass::Pointwise && a.cls(e) != OpClass::View)) continue;
    for (ValueId v : a.graph.operands(e))
      if (a.bytes(v) == a.bytes(result)) updates[v] = true;
  }
  return updates;
}

/// The last equation that reads the memory of each value, by the value that it is the memory of.
ir::ValueMap<size_t> last_uses(const Analysis& a) {
  ir::ValueMap<size_t> last(a.graph);
  for (ValueId v : a.all_values())
    for (EquationId user : a.users[v]) {
      size_t& known = last[a.base(v)];
      known = std::max<size_t>(known, user.index);
    }
  return last;
}

/// The equation behind which the most bytes are held that are neither inputs nor updates; one
/// more.
size_t turn_of(const Analysis& a) {
  const ir::ValueMap<bool> updates = updates_of(a);
  const ir::ValueMap<size_t> last = last_uses(a);
  std::vector<int64_t> change(a.graph.num_equations() + 1);
  for (ValueId v : a.all_values()) {
    const EquationId e = a.producer(v);
    if (!e.valid() || a.is_free_view(v) || updates[v] || a.is(v, OpClass::Factory)) continue;
    if (last[v] <= e.index) continue;
    change[e.index] += a.bytes(v);
    change[last[v]] -= a.bytes(v);
  }
  int64_t held = 0, most = 0;
  size_t turn = 0;
  for (size_t i = 0; i < change.size(); ++i)
    if ((held += change[i]) > most) most = held, turn = i + 1;
  return turn;
}

/// `core` as a joint graph whose backward half begins at `turn`.
Graph turned(const Graph& core, size_t turn) {
  Graph joint = core;
  joint.epilogue = {};
  for (size_t i = turn; i < joint.num_equations(); ++i)
    joint.equation(joint.equation_id(i)).is_backward = true;
  for (ir::Output& output : joint.outputs()) {
    const EquationId e = joint.producer(output.value);
    output.role = e.valid() && e.index >= turn ? ir::Role::Gradient : ir::Role::Result;
    output.target = -1;
  }
  return joint;
}

/// The halves of `turned`, one after the other, with the inputs and outputs of `core`.
Graph joined(const Graph& core, const Graph& turned, const ir::Partition& halves) {
  Graph step;
  step.name = core.name;
  step.level = ir::Level::Forward;
  std::vector<ValueId> inputs, saved;
  for (const ir::Input& input : core.inputs())
    inputs.push_back(step.add_input(input, core.type(input.value)));
  const auto early = ir::inline_graph(step, halves.forward, inputs, false);
  for (const ir::Input& input : halves.backward.inputs())
    saved.push_back(early[static_cast<size_t>(input.target)]);
  const auto late = ir::inline_graph(step, halves.backward, saved, true);
  size_t next_early = 0, next_late = 0;
  for (size_t i = 0; i < core.outputs().size(); ++i) {
    ir::Output output = core.outputs()[i];
    const bool is_late = turned.outputs()[i].role == ir::Role::Gradient;
    output.value = is_late ? late[next_late++] : early[next_early++];
    step.add_output(std::move(output));
  }
  step.epilogue = core.epilogue;
  return step;
}

}  // namespace

std::optional<Step> recompute_in_step(const Graph& core, const ir::Partitioner& partitioner,
                                      const ir::PartitionContext& context) {
  const Analysis analysis(core);
  const size_t turn = analysis.tokens.empty() ? turn_of(analysis) : 0;  // an order stays as it is
  if (turn == 0 || turn >= core.num_equations()) return std::nullopt;
  const Graph joint = turned(core, turn);
  ir::Partition halves = partitioner.partition_within(joint, context);
  if (halves.report.recomputed.empty()) return std::nullopt;
  return Step{joined(core, joint, halves), std::move(halves.report)};
}

}  // namespace tandem::partition
