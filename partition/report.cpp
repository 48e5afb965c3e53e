#include "partition/report.h"

#include <algorithm>

#include "partition/marks.h"
#include "partition/policies.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::ValueId;
using Equations = std::vector<bool>;  // by index

/// Marks the equations that stand in the half that computes `wanted` from `given`.
Equations equations_for(const Analysis& a, ir::ValueMap<bool> wanted,
                        const ir::ValueMap<bool>& given) {
  Equations used(a.graph.num_equations());
  for (size_t i = used.size(); i-- > 0;) {
    const auto results = a.graph.results(a.graph.equation_id(i));
    used[i] = std::ranges::any_of(results, [&](ValueId v) { return wanted[v] && !given[v]; });
    if (!used[i]) continue;
    for (ValueId v : a.graph.operands(a.graph.equation_id(i))) wanted[v] = true;
  }
  return used;
}

/// The equations of each half, given what is saved.
struct Halves {
  Halves(const Analysis& a, std::span<const ValueId> saved) {
    ir::ValueMap<bool> given(a.graph), wanted = a.forward;
    for (ValueId v : saved) given[v] = wanted[v] = true;
    forward = equations_for(a, wanted, ir::ValueMap<bool>(a.graph));
    backward = equations_for(a, a.gradient, given);
  }
  bool is_recomputed(size_t i) const { return forward[i] && backward[i]; }
  Equations forward, backward;
};

/// The ops of backward that read `v`, each once.
std::vector<std::string> readers(const Analysis& a, const Halves& halves, ValueId v) {
  std::vector<std::string> ops;
  for (EquationId user : a.users[v]) {
    const std::string_view op = ir::name(a.graph.op(user));
    if (halves.backward[user.index] && std::ranges::find(ops, op) == ops.end())
      ops.emplace_back(op);
  }
  if (a.gradient[v]) ops.emplace_back("gradient");
  return ops;
}

int64_t minimal_bytes(const Analysis& a) {
  return a.saved_bytes(cheapest_saved_set(a, heeding_marks(a, minimal_policy(a))));
}

Cost cost_of(const Analysis& a, const Estimate& estimate, std::span<const ValueId> saved,
             const Halves& halves) {
  Cost cost{.saved_bytes = a.saved_bytes(saved)};
  for (ValueId v : saved) cost.save_seconds += estimate.save_seconds(v);
  for (size_t i = 0; i < halves.forward.size(); ++i)
    if (halves.is_recomputed(i))
      cost.recompute_seconds += estimate.recompute_seconds(a.graph.result(a.graph.equation_id(i)));
  return cost;
}

}  // namespace

std::vector<ValueId> values_of(const Choices& choices) {
  std::vector<ValueId> values;
  for (const Choice& c : choices) values.push_back(c.value);
  return values;
}

Cost cost_of(const Analysis& a, const Estimate& estimate, std::span<const ValueId> saved) {
  return cost_of(a, estimate, saved, Halves(a, saved));
}

ir::PartitionReport report_of(const Analysis& a, const Estimate& estimate, const Choices& choices) {
  ir::PartitionReport report;
  const std::vector<ValueId> saved = values_of(choices);
  const Halves halves(a, saved);
  for (const Choice& c : choices) {
    const ValueId v = c.value;
    const char* where = a.held_result[v] < 0 ? "" : "; a result, kept as itself";
    report.saved.push_back({value_name(a.graph, v), a.graph.type(v), a.saved_bytes(v),
                            c.reason + where, readers(a, halves, v), estimate.save_seconds(v),
                            estimate.recompute_seconds(v)});
  }
  for (size_t i = 0; i < halves.forward.size(); ++i) {
    if (!halves.is_recomputed(i)) continue;
    const EquationId e = a.graph.equation_id(i);
    const ValueId v = a.graph.result(e);
    report.recomputed.push_back({value_name(a.graph, v), std::string(ir::name(a.graph.op(e))),
                                 a.graph.type(v), estimate.recompute_seconds(v)});
  }
  const Cost cost = cost_of(a, estimate, saved, halves);
  report.saved_bytes = cost.saved_bytes;
  report.save_seconds = cost.save_seconds;
  report.recompute_seconds = cost.recompute_seconds;
  report.minimal_bytes = minimal_bytes(a);
  report.recomputed_equations = static_cast<int64_t>(report.recomputed.size());
  return report;
}

}  // namespace tandem::partition
