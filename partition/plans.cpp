#include "partition/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "partition/split.h"

namespace tandem::partition {
namespace {

using ir::PlanPoint;

struct Plan {
  Choices choices;
  PlanPoint point;
  double least_seconds = 0;
};

/// Of what a half returns, but for inputs that it saves as they are.
int64_t bytes_of_outputs(const ir::Graph& half) {
  int64_t bytes = 0;
  for (const ir::Output& output : half.outputs())
    if (output.role != ir::Role::Saved || half.input_index(output.value) < 0)
      bytes += int64_t{size_in_bytes(half.type(output.value))};
  return bytes;
}

/// Simulated peak of a step in bytes beyond the inputs: what is saved, what both halves return, and
/// the arena in which they run one after the other: it stays as large as the larger one needs.
int64_t peak_bytes(const ir::Partition& p, const ir::CostModel& costs) {
  return bytes_of_outputs(p.forward) + bytes_of_outputs(p.backward) +
         std::max(costs.arena_bytes(p.forward), costs.arena_bytes(p.backward));
}

void require_costs(const Problem& p, const char* what) {
  if (!p.estimate.known())
    ir::fail(ir::Errc::Argument,
             fmt::format("{}: the partitioner was given no cost model; expected one", what));
}

void require_fraction(double fraction, const char* what) {
  if (!(fraction >= 0 && fraction <= 1))
    ir::fail(ir::Errc::Argument,
             fmt::format("{}: expected a number from 0 to 1, got {}", what, fraction));
}

Plan plan_of(const Problem& p, std::string name, Choices choices) {
  const Cost cost = cost_of(p.analysis, p.estimate, values_of(choices));
  return {std::move(choices), {std::move(name), cost.saved_bytes, 0, cost.seconds()}, 0};
}

Plan plan_within(const Problem& p, std::string name, int64_t bytes) {
  double least = 0;
  Plan plan = plan_of(p, std::move(name), choose_within(p, bytes, least));
  plan.least_seconds = least;
  return plan;
}

bool beats(const PlanPoint& a, const PlanPoint& b) {
  const bool no_worse = a.peak_bytes <= b.peak_bytes && a.seconds <= b.seconds &&
                        (a.peak_bytes > 0 || a.saved_bytes <= b.saved_bytes);
  const bool better = a.peak_bytes < b.peak_bytes || a.seconds < b.seconds ||
                      (a.peak_bytes == 0 && a.saved_bytes < b.saved_bytes);
  return no_worse && better;
}

/// The plans as points, by saved bytes; `chosen` is one of them.
std::vector<PlanPoint> points_of(const std::vector<Plan>& plans, const Plan& chosen) {
  std::vector<PlanPoint> points;
  for (const Plan& plan : plans) {
    points.push_back(plan.point);
    points.back().chosen = &plan == &chosen;
    points.back().on_front = std::ranges::none_of(
        plans, [&](const Plan& other) { return beats(other.point, plan.point); });
  }
  std::ranges::stable_sort(points, {}, &PlanPoint::saved_bytes);
  return points;
}

/// The default plan first, then what needs less memory.
std::vector<Plan> plans_to_try(const Problem& p) {
  constexpr int kSteps = 8;
  std::vector<Plan> plans;
  plans.push_back(plan_of(p, "default", choose_default(p)));
  plans.push_back(plan_of(p, "reference", choose_reference(p)));
  plans.push_back(plan_of(p, "fewest bytes", choose_fewest(p)));
  const int64_t most = plans[0].point.saved_bytes, least = plans[2].point.saved_bytes;
  for (int k = 0; k < kSteps; ++k)
    plans.push_back(plan_within(p, fmt::format("saved budget {}/{}", k, kSteps),
                                std::max(least, most * k / kSteps)));
  return plans;
}

/// Beyond what a number of bytes can be there is no limit.
int64_t whole_bytes(double bytes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return bytes < static_cast<double>(kMost) ? static_cast<int64_t>(bytes) : kMost;
}

ir::Partition partition_within(const Problem& p, int64_t bytes) {
  const Plan plan = plan_within(p, "saved budget", bytes);
  ir::Partition out = partition_at(p, plan.choices);
  out.report.limit_bytes = bytes;
  out.report.least_seconds = plan.least_seconds;
  return out;
}

}  // namespace

ir::Partition partition_at(const Problem& p, const Choices& choices) {
  ir::Partition out = split(p.analysis, values_of(choices));
  out.report = report_of(p.analysis, p.estimate, choices);
  return out;
}

ir::Partition partition_by_peak(const Problem& p, double fraction) {
  require_costs(p, "memory_budget");
  require_fraction(fraction, "memory_budget");
  std::vector<Plan> plans = plans_to_try(p);
  for (Plan& plan : plans) {
    const ir::Partition parts = split(p.analysis, values_of(plan.choices));
    plan.point.peak_bytes = peak_bytes(parts, *p.context.costs);
  }
  const auto peak = [](const Plan& plan) { return plan.point.peak_bytes; };
  const int64_t least = peak(*std::ranges::min_element(plans, {}, peak));
  const auto range = static_cast<double>(std::max<int64_t>(peak(plans[0]) - least, 0));
  const int64_t limit = least + static_cast<int64_t>(std::floor(fraction * range));
  // At 1 the default plan itself, which fits; else the fastest that does.
  const Plan* chosen = nullptr;
  for (const Plan& plan : plans)
    if (peak(plan) <= limit && (!chosen || plan.point.seconds < chosen->point.seconds))
      chosen = &plan;
  if (fraction == 1) chosen = &plans[0];
  ir::Partition out = partition_at(p, chosen->choices);
  out.report.peak_bytes = peak(*chosen);
  out.report.limit_bytes = limit;
  out.report.plans = points_of(plans, *chosen);
  return out;
}

ir::Partition partition_by_bytes(const Problem& p, double bytes) {
  require_costs(p, "saved_bytes");
  if (!(bytes >= 0))
    ir::fail(ir::Errc::Argument,
             fmt::format("saved_bytes: expected a number of bytes, got {}", bytes));
  return partition_within(p, whole_bytes(bytes));
}

ir::Partition partition_by_fraction(const Problem& p, double fraction) {
  require_costs(p, "saved_budget");
  require_fraction(fraction, "saved_budget");
  const Choices fastest = choose_default(p);
  const Plan whole = plan_of(p, "default", fastest);
  if (fraction == 1) return partition_at(p, fastest);
  const Plan none = plan_of(p, "fewest bytes", choose_fewest(p));
  const auto wanted =
      static_cast<int64_t>(std::floor(fraction * static_cast<double>(whole.point.saved_bytes)));
  return partition_within(p, std::max(wanted, none.point.saved_bytes));
}

}  // namespace tandem::partition
