#include "partition/report/report.h"

#include <algorithm>

#include "partition/flow/network.h"
#include "partition/marks.h"
#include "partition/policies.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::ValueId;
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
  for (ValueId v : saved)
    if (halves.are_given(a, v)) cost.save_seconds += estimate.save_seconds(v);
  for (size_t i = 0; i < halves.forward.size(); ++i)
    if (halves.is_recomputed(i))
      cost.recompute_seconds += estimate.recompute_seconds(a.graph.result(a.graph.equation_id(i)));
  return cost;
}

}  // namespace

Cost cost_of(const Analysis& a, const Estimate& estimate, std::span<const ValueId> saved) {
  return cost_of(a, estimate, saved, Halves(a, saved));
}

ir::PartitionReport report_of(const Analysis& a, const Estimate& estimate, const Choices& choices) {
  ir::PartitionReport report;
  const Halves halves(a, choices.values);
  Alternatives alternatives(a, estimate, halves, choices.values);
  for (const ValueId v : choices.values) {
    const Alternative alternative = alternatives.to(v);
    const char* where = a.held_result[v] < 0 ? "" : "; a result, kept as itself";
    report.saved.push_back(
        {.name = value_name(a.graph, v),
         .op = std::string(op_name(a, v)),
         .type = a.graph.type(v),
         .bytes = a.saved_bytes(v),
         .reason = choices.reason(alternative) + where,
         .needed_by = readers(a, halves, v),
         .save_seconds = estimate.save_seconds(v),
         .recompute_seconds = a.is_primal(v) ? 0 : alternative.recompute_seconds});
  }
  for (size_t i = 0; i < halves.forward.size(); ++i) {
    if (!halves.is_recomputed(i)) continue;
    const EquationId e = a.graph.equation_id(i);
    const ValueId v = a.graph.result(e);
    report.recomputed.push_back({value_name(a.graph, v), std::string(op_name(a, v)),
                                 a.graph.type(v), estimate.recompute_seconds(v)});
  }
  const Cost cost = cost_of(a, estimate, choices.values, halves);
  report.saved_bytes = cost.saved_bytes;
  report.save_seconds = cost.save_seconds;
  report.recompute_seconds = cost.recompute_seconds;
  report.minimal_bytes = minimal_bytes(a);
  report.recomputed_equations = static_cast<int64_t>(report.recomputed.size());
  return report;
}

}  // namespace tandem::partition
